// Package cause names why calls are not let in. Who decides and what records share the
// names; the package knows neither.
package cause

import "slices"

// Cause says why a call was not let in. The set is closed: stored counts and log entries
// have the number of a cause, so a number never gets another meaning. Zero is none.
type Cause uint8

// The causes of a refused credential (401). Missing to Unknown prove nothing about who
// called, Revoked to OldSecret come with a secret of the key, Address and Access may.
const (
	Missing   Cause = iota + 1 // no credential
	Malformed                  // no credential of a known form, or a token that does not verify
	Unknown                    // no such key, or not its secret
	Revoked                    // the key is revoked
	Expired                    // the key is expired
	OldSecret                  // a secret that was rotated out, after its grace
	Address                    // the address may not call
	Access                     // the caller may not call this route, or has no plan
)

// The causes of a denial (429).
const (
	Limit       Cause = iota + 9 // over a limit
	Ban                          // banned for a while
	Unavailable                  // Valkey was away, and the plan says closed
)

// Refusals is how many causes refuse a credential: they are 1 to Refusals.
const Refusals = int(Access)

var causeNames = [...]string{
	Missing: "missing", Malformed: "malformed", Unknown: "unknown",
	Revoked: "revoked", Expired: "expired", OldSecret: "old-secret",
	Address: "address", Access: "access",
	Limit: "limit", Ban: "ban", Unavailable: "unavailable",
}

// All returns every cause, in the order of its number.
func All() []Cause {
	all := make([]Cause, 0, len(causeNames)-1)
	for i := range len(causeNames) - 1 {
		all = append(all, Cause(i+1))
	}
	return all
}

// Named returns the cause of a name; zero when there is none.
func Named(name string) Cause {
	if i := slices.Index(causeNames[1:], name); i >= 0 {
		return Cause(i + 1)
	}
	return 0
}

// String returns the name in addresses and the API; empty for an unknown number.
func (c Cause) String() string {
	if int(c) < len(causeNames) {
		return causeNames[c]
	}
	return ""
}

// Refuses reports whether the cause refuses a credential.
func (c Cause) Refuses() bool { return c >= Missing && int(c) <= Refusals }
