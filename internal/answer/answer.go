// Package answer turns the result of a check into what clients read: the RateLimit fields
// of draft-ietf-httpapi-ratelimit-headers and an RFC 9457 problem.
package answer

import (
	"time"

	"tidegate/internal/enforce"
	"tidegate/internal/policy"
)

// Answer is the result of a check as its client sees it. It contains no limit in shadow
// mode.
type Answer struct {
	RateLimit       string // the field of that name; empty when no limit is enforced
	RateLimitPolicy string // likewise
	Binding         enforce.LimitState
	Limited         bool    // a limit is enforced, and Binding is the one to observe
	Denial          *Denial // nil when the call passes
}

// To returns the answer to a check.
func To(c enforce.Result) Answer {
	limits := reported(c.Limits)
	a := Answer{RateLimit: stateField(limits), RateLimitPolicy: policyField(limits)}
	a.Binding, a.Limited = binding(c)
	if !c.Allowed {
		denial := a.denial(c, limits)
		a.Denial = &denial
	}
	return a
}

func (a Answer) denial(c enforce.Result, limits []named) Denial {
	switch {
	case !c.BannedUntil.IsZero():
		return deny(AbnormalUsage, c.RetryAfter(), "This caller is banned.", banPolicy, nil)
	case a.Limited:
		name := NameOf(a.Binding)
		return deny(QuotaExceeded, c.RetryAfter(), "The limit of "+name+" is reached.", name,
			violated(limits))
	default:
		return deny(ReducedCapacity, c.RetryAfter(), cannotCheck, capacityPolicy, nil)
	}
}

// binding returns the enforced limit that the client should observe.
func binding(c enforce.Result) (enforce.LimitState, bool) {
	enforced := c
	enforced.Limits = nil
	for _, l := range c.Limits {
		if l.Mode == policy.Enforce {
			enforced.Limits = append(enforced.Limits, l)
		}
	}
	return enforced.Binding()
}

// WholeSeconds rounds up, so that a client that waits so long never comes too early.
func WholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
