package server

import (
	"context"
	"slices"

	"tidegate/internal/registry"
)

// Unexported values that tests in package server_test use.
const (
	MaxBody    = maxBody
	ProbeField = probeField
)

// BrowserName returns the browser and system of a User-Agent.
func BrowserName(agent string) string { return browserName(agent) }

// Patterns returns the method and path of every route.
func Patterns() []string {
	var all []string
	s := newServer(Config{OwnerView: true}, Services{}, false)
	for _, r := range slices.Concat(s.routes(), s.apiRoutes()) {
		all = append(all, r.Pattern)
	}
	return all
}

// Warnings returns what every page says of the state of the log.
func Warnings(status func(context.Context) registry.LogStatus) func(context.Context) []string {
	return (&banner{status: status}).warnings
}
