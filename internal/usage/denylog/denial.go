// Package denylog is the form of the denial log and reads it: why calls of the last day
// were denied. Package usage writes it.
//
// The log keeps denied calls, and refused calls of proven keys, for a day: when, who, by
// which limit and rule, on which pattern of a route, from which /24 or /48, Retry-After
// and the request's id. Denials that differ in nothing but time, network, Retry-After and
// request are of one kind. Of each kind and minute it lists the first 3 one by one; the
// 4th entry stands for the rest of the minute and says how many. Read lists them, newest
// first, for one caller from one bucket and for all from the 256 buckets, an hour at a
// time.
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
