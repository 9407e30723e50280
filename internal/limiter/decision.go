package limiter

import (
	"slices"
	"time"
)

// Usage is the state of one limit at the instant of a Decision.
type Usage struct {
	Limit Limit
	// Remaining is the cost that could still be taken from this limit now: 0 to
	// Limit.Requests. After an allowed Take it excludes what was taken.
	Remaining int64
	// Reset is the time until this limit's window is empty if nobody calls again; 0 when
	// it is empty now.
	Reset time.Duration
	// Next is the time until Remaining rises if nobody calls again; 0 when the window is
	// empty.
	Next time.Duration
	// RetryAfter is the time until the same cost would pass this limit if nobody else
	// calls; 0 when it passes now. Of a limit in shadow mode that is below the cost it is
	// MaxWindow.
	RetryAfter time.Duration
}

// Used returns how much of the limit is taken now. Remaining plus Used is Limit.Requests.
func (u Usage) Used() int64 { return u.Limit.Requests - u.Remaining }

// NearlyUsedUp reports whether at most a fifth of the limit remains.
func (u Usage) NearlyUsedUp() bool { return u.Remaining <= u.Limit.Requests/5 }

// Returned is the usage after cost was given back. Next is 0, unknown, where it depends
// on the cost: when nothing is used, and of a counter.
func (u Usage) Returned(cost int64) Usage {
	u.Remaining = min(u.Remaining+cost, u.Limit.Requests)
	if u.Remaining == u.Limit.Requests || u.Limit.Algorithm == Counter {
		u.Next = 0
	}
	return u
}

// Decision is the answer to one Take or Peek. A denial is a Decision, not an error.
type Decision struct {
	// Allowed says whether every limit admitted the cost, but for those in shadow mode.
	// When it is false nothing was taken from any limit.
	Allowed bool
	// Now is the instant of the decision on the server's clock, to the microsecond.
	Now time.Time
	// Limits holds every limit of the subject, in the order given.
	Limits []Usage
	// Unreturned is how much of a Refund some limit may still hold and did not give back:
	// the most over all limits. It is 0 when everything was given back that is still
	// counted, and for any other step.
	Unreturned int64
}

// WouldAllow reports whether every limit admitted the cost, those in shadow mode too.
func (d Decision) WouldAllow() bool {
	return d.Allowed && !slices.ContainsFunc(d.Limits, Usage.Exceeded)
}

// Exceeded returns the limits in shadow mode that a cost exceeded, bit i for limit i.
// Nothing was taken from them, and nothing is to be given back.
func Exceeded(limits []Usage) (exceeded byte) {
	for i, u := range limits {
		if u.Exceeded() {
			exceeded |= 1 << i
		}
	}
	return exceeded
}

// Exceeded reports whether a limit in shadow mode would have denied the cost.
func (u Usage) Exceeded() bool { return u.Limit.Shadow && u.RetryAfter > 0 }

// Binding returns the limit that a client should heed, of those that are enforced: on a
// denial the one with the longest RetryAfter, otherwise the one with the smallest share
// remaining. It returns the zero Usage when there is none.
func (d Decision) Binding() Usage {
	var b Usage
	for _, u := range d.Limits {
		if !u.Limit.Shadow && (b.Limit.Requests == 0 || Binds(d.Allowed, u, b)) {
			b = u
		}
	}
	return b
}

// RetryAfter returns the time until the same cost would be allowed if nobody else calls;
// 0 when it was allowed.
func (d Decision) RetryAfter() time.Duration {
	var longest time.Duration
	for _, u := range d.Limits {
		if !u.Limit.Shadow {
			longest = max(longest, u.RetryAfter)
		}
	}
	return longest
}

// Binds reports whether u rather than b is the usage that a client should heed, as
// Decision.Binding says.
func Binds(allowed bool, u, b Usage) bool {
	if !allowed {
		return u.RetryAfter > b.RetryAfter
	}
	return u.Remaining*b.Limit.Requests < b.Remaining*u.Limit.Requests
}
