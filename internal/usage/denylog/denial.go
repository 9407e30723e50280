// Package denylog is the form of the denial log and reads it: why calls of the last day
// were denied. Package usage says what the log lists, and writes it.
package denylog

import (
	"net/netip"
	"time"

	"tidegate/internal/cause"
)

// Denial says why a call was not let in, for the denial log. Texts that are too long are
// cut.
type Denial struct {
	Cause      cause.Cause
	Plan       string
	Group      string // of the key; empty for none
	Limit      string // that denied, as clients know it; empty for another cause
	Rule       string // name of the route rule; empty when none matches
	Method     string
	Path       string       // pattern of the route, never the path that was called
	API, Stage string       // API Gateway's
	Network    netip.Prefix // a /24 or a /48 of the caller's address; may be invalid
	RetryAfter time.Duration
	Request    string // API Gateway's id of the request
}

// NetworkOf returns the part of an address that the log keeps; invalid for an invalid
// one.
func NetworkOf(a netip.Addr) netip.Prefix {
	bits := v6Bits
	if a.Is4() {
		bits = v4Bits
	}
	network, _ := a.Prefix(bits)
	return network
}
