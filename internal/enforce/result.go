package enforce

import (
	"slices"
	"time"

	"tidegate/internal/limits"
	"tidegate/internal/route"
)

// Result is the answer to a Check.
type Result struct {
	Allowed    bool // the answer
	WouldAllow bool // the answer if the limits in shadow were enforced too

	Cost        int64        // in the unit limits.Cost
	Now         time.Time    // server time
	Limits      []LimitState // the caller's own; also shared limits if those allowed the call
	ID          string       // id of the caller
	Name        string       // name of the caller; empty without a record
	Plan        string
	Group       string           // group of the API key; empty for none
	Source      string           // of the limits, as in policy.Effective
	Route       string           // that a backend is told; empty for none
	Routes      []limits.Matched // that the call falls under, the most specific first
	Settle      bool             // the route wants a settlement
	SetVersion  int64
	KeyVersion  int64     // 0 without a record
	BannedUntil time.Time // zero if the caller is not banned; a ban is checked before all limits
	// Repeats means that until RetryAfter has passed, equal calls are denied too and
	// leave no trace: no limit counts them. An edit, and a cost that is given back, may end
	// that sooner.
	Repeats bool
	// OldSecret marks a call with the previous secret, within its grace after a rotation.
	OldSecret bool
	// Degraded marks a decision made without Valkey. Now is then the local clock.
	Degraded bool

	// Reference is the text by which an operator finds a denied call. Whoever records the call
	// sets it.
	Reference string

	Settlement string // text for Settle; empty if the route wants none or nothing was taken

	// Crossings are the thresholds of limits that the call crossed; nil for almost every
	// call.
	Crossings []Crossing

	// Opens lists the routes that the key opens; nil if it opens all routes of its plan.
	Opens *route.List

	// Holds is when the caller's record changes without an edit: it expires, its override
	// ends, or the grace of a rotated secret does. It is zero if no such change is to come.
	Holds time.Time
}

// LimitState is one limit that applies to a call, and its state after it.
type LimitState struct { //nolint:recvcheck // values are copied; Set and Restore change one in place
	limits.Applied
	CountKey   string        // of the count in Valkey; empty if it has a value of a call that is not known
	Remaining  int64         // that could still be taken, 0 to Requests
	Owed       int64         // what settlements took above the limit
	Next       time.Duration // until Remaining rises if nobody calls; 0 if nothing is used
	RetryAfter time.Duration // until the same cost fits if nobody else calls; 0 if it fits or never does
	Never      bool          // the cost is above the limit
	// Unread marks a limit whose state is not known: another limit denied before it was
	// asked, or each address or value has its own.
	Unread bool
}

// Used returns what the limit counts now, at most Requests.
func (l LimitState) Used() int64 { return l.Requests - l.Remaining }

// NearlyUsedUp reports whether at most a fifth of the limit remains.
func (l LimitState) NearlyUsedUp() bool { return l.Remaining <= l.Requests/5 }

// Enforced reports whether the limit may deny calls: it is not in shadow, and no override
// replaces it.
func (l LimitState) Enforced() bool { return !l.Shadow && !l.CountsOnly }

// Full reports whether the call's cost does not fit.
func (l LimitState) Full() bool { return l.Never || l.RetryAfter > 0 }

// Denies reports whether the limit denied the call.
func (l LimitState) Denies() bool { return l.Enforced() && l.Full() }

// Shared reports whether other callers take from the limit too.
func (l LimitState) Shared() bool { return !l.Who.OfCaller() }

// Never reports whether an enforced limit is smaller than the call's cost, so that no call
// like it ever passes.
func (c *Result) Never() bool {
	return slices.ContainsFunc(c.Limits, func(l LimitState) bool { return l.Never && l.Denies() })
}

// deniedAtOnce reports whether a limit of calls at once denied the call.
func (c *Result) deniedAtOnce() bool {
	return slices.ContainsFunc(c.Limits, func(l LimitState) bool { return l.AtOnce && l.Denies() })
}

// RetryAfter returns the time until the same call would be allowed if nobody else calls;
// 0 if it was allowed, or if it never is. It is one second for a call that was denied
// because Valkey is unavailable.
func (c *Result) RetryAfter() time.Duration {
	if c.Allowed || c.Never() {
		return 0
	}
	longest := max(0, c.BannedUntil.Sub(c.Now))
	if c.Degraded && len(c.Limits) == 0 {
		return time.Second
	}
	for _, l := range c.Limits {
		if l.Enforced() {
			longest = max(longest, l.RetryAfter)
		}
	}
	return longest
}

// Binding returns the enforced limit that matters most to the client, and false if there is
// none. For a denial that is the one that waits longest, where one that never admits the
// cost waits longest of all. Otherwise it is the one with the smallest share remaining.
func (c *Result) Binding() (binding LimitState, found bool) {
	for _, l := range c.Limits {
		if l.Unread || !l.Enforced() {
			continue
		}
		if !found || binds(c.Allowed, l, binding) {
			binding, found = l, true
		}
	}
	return binding, found
}

func binds(allowed bool, l, than LimitState) bool {
	switch {
	case allowed:
		return l.Remaining*than.Requests < than.Remaining*l.Requests
	case l.Never != than.Never:
		return l.Never
	}
	return l.RetryAfter > than.RetryAfter
}

// ShadowDenial returns the limit in shadow that would have denied the call, and false if
// there is none. Of several it is the one that waits longest.
func (c *Result) ShadowDenial() (denial LimitState, found bool) {
	for _, l := range c.Limits {
		if l.Shadow && !l.CountsOnly && l.Full() && (!found || binds(false, l, denial)) {
			denial, found = l, true
		}
	}
	return denial, found
}
