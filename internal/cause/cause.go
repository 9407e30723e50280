// Package cause names the reasons why calls are not admitted, or would not be if a limit
// on trial were enforced. Packages that decide and packages that record import it; it
// imports neither.
package cause

import "slices"

// Cause is such a reason; zero is none. Stored counts and log
// entries contain the number of a cause, so a number never changes its meaning.
type Cause uint8

// The causes of a refused credential (401). For Missing to Unknown, the caller proved
// nothing. For Revoked to OldSecret, it sent a secret of the key. For Address and Access,
// it may have sent one.
const (
	Missing   Cause = iota + 1 // no credential
	Malformed                  // no credential of a known form, or a token that does not verify
	Unknown                    // no such key, or not its secret
	Revoked                    // the key is revoked
	Expired                    // the key is expired
	OldSecret                  // a previous secret, after its grace period
	Address                    // the address may not call
	Access                     // the caller may not call this route, or has no plan
)

// The causes of a denial (429).
const (
	Limit       Cause = iota + 9 // over a limit
	Ban                          // banned for a while
	Unavailable                  // Valkey is unavailable, and the plan then denies calls
)

// Shadow is the cause for which a call that passed would be denied if a limit in shadow
// mode were enforced.
const Shadow Cause = 12

// Refusals is the number of causes that refuse a credential: those from 1 to Refusals.
const Refusals = int(Access)

var causeNames = [...]string{
	Missing: "missing", Malformed: "malformed", Unknown: "unknown",
	Revoked: "revoked", Expired: "expired", OldSecret: "old-secret",
	Address: "address", Access: "access",
	Limit: "limit", Ban: "ban", Unavailable: "unavailable",
	Shadow: "shadow",
}

// All returns every cause, ordered by number.
func All() []Cause {
	all := make([]Cause, 0, len(causeNames)-1)
	for i := range len(causeNames) - 1 {
		all = append(all, Cause(i+1))
	}
	return all
}

// Named returns the cause with this name; zero when there is none.
func Named(name string) Cause {
	if i := slices.Index(causeNames[1:], name); i >= 0 {
		return Cause(i + 1)
	}
	return 0
}

// String returns the name that the API and URLs use; empty for an unknown number.
func (c Cause) String() string {
	if int(c) < len(causeNames) {
		return causeNames[c]
	}
	return ""
}

// MarshalText returns the name.
func (c Cause) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Refuses reports whether the cause refuses a credential.
func (c Cause) Refuses() bool { return c >= Missing && int(c) <= Refusals }

// OnTrial reports whether the call passed and a limit in shadow mode would have denied it.
func (c Cause) OnTrial() bool { return c == Shadow }
