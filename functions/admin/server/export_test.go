package server

import "slices"

// What tests from outside need of the server.
const (
	MaxBody    = maxBody
	ProbeField = probeField
)

// BrowserName returns the browser and system of a User-Agent.
func BrowserName(agent string) string { return browserName(agent) }

// Patterns are the routes' methods and paths.
func Patterns() []string {
	var all []string
	s := newServer(Config{OwnerAPI: true, OwnerPage: true}, Services{}, false)
	for _, r := range slices.Concat(s.routes(), s.apiRoutes()) {
		all = append(all, r.pattern)
	}
	return all
}
