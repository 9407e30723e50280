// Package answer turns the result of a check into what clients read: the RateLimit fields
// of draft-ietf-httpapi-ratelimit-headers and an RFC 9457 problem. Packages that answer
// calls import it. It decides nothing and does no I/O.
package answer

import (
	"tidegate/internal/enforce"
)

// Answer is the result of a check as its client sees it. It contains no limit in shadow.
type Answer struct {
	RateLimit       string             // field of that name; empty if no limit is enforced
	RateLimitPolicy string             // field RateLimit-Policy; empty if no limit is enforced
	Binding         enforce.LimitState // the limit to observe, if Limited
	Limited         bool               // a limit is enforced
	Denial          *Denial            // nil if the call passes
}

// To returns the answer to a check.
func To(c enforce.Result) Answer {
	if !c.Allowed && c.BannedUntil.IsZero() && c.Never() {
		denial := impossible()
		denial.Reference = c.Reference
		return Answer{Denial: &denial}
	}
	limits := reported(c.Limits)
	a := Answer{RateLimit: stateField(limits), RateLimitPolicy: policyField(limits)}
	a.Binding, a.Limited = c.Binding()
	if !c.Allowed {
		denial := a.denial(c, limits)
		denial.Reference = c.Reference
		a.Denial = &denial
	}
	return a
}
