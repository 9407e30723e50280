package enforce

import (
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// Result is the answer to a Check.
type Result struct {
	Allowed         bool // what to answer, modes considered
	WouldAllow      bool // what would have been the answer if every limit were enforced
	CandidateAllows bool // false when the plan's candidate would have denied the call
	Cost            int64
	Now             time.Time    // the server's
	Limits          []LimitState // the caller's own; the shared ones too when those allowed the call
	ID              string       // the caller's
	Name            string       // empty for a caller without a record
	Plan            string
	Group           string // of the API key; empty for none
	Source          string // "override" or "plan"
	Rule            string // name of the Route that won; empty when none matches
	Settle          bool   // the Route's
	SetVersion      int64
	KeyVersion      int64     // 0 without a record
	BannedUntil     time.Time // zero when the caller is not banned; no limit was looked at then
	// Repeats says of a denial that every call like this one is denied too until
	// RetryAfter has passed, and leaves no trace: it counts for no ban, no candidate and
	// no limit, and none of the limits that denied it is shared, where what others took
	// may come back.
	Repeats bool
	// OldSecret marks a call with the secret from before the last rotation.
	OldSecret bool
	// Degraded marks a decision made without the store. Now is then the clock of the one
	// who decided.
	Degraded bool

	Reservation string // for Settle, when the Route wants that and something was taken

	// Crossings are the thresholds of limits that the call crossed; nil for almost every
	// call.
	Crossings crossings

	// Access lists the routes that the key opens; nil when it opens all that its plan
	// does.
	Access *route.List

	free           bool // nothing is taken for the call
	taken          []taken
	candidateAsked bool // a candidate looked at the call
	changes        []time.Time
	plan           int      // number of the plan; 0 for an API key, whose record has it
	group          keyGroup // whose limits hold
}

// HoldsUntil is when what was read about the caller changes without an edit: it expires,
// its override ends, or the grace of a rotated secret does. It is zero when nothing of
// the kind is to come.
func (c *Result) HoldsUntil() time.Time {
	var next time.Time
	for _, t := range c.changes {
		if t.After(c.Now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	return next
}

// LimitState is a limit that a call was held against. Of one that is leased, Remaining is
// what the server knew to remain when the environment's lease was taken, and what is left
// of that; Reset is when the state is empty, which is a lease later than the window.
type LimitState struct {
	limiter.Usage
	Scope string      // "key", "route", "ip", "route-ip", "global", "route-all" or "group"
	Mode  policy.Mode // Enforce or Shadow: the list's, or the limit's own
}

// LimitStates are the limits of a list with its scope and mode.
func LimitStates(limits []limiter.Usage, scope string, mode policy.Mode) []LimitState {
	all := make([]LimitState, len(limits))
	for i, u := range limits {
		all[i] = LimitState{u, scope, mode}
		if u.Limit.Shadow {
			all[i].Mode = policy.Shadow
		}
	}
	return all
}

// spared returns which of some limits gave nothing to an allowed call, as
// limiter.Exceeded does.
func spared(limits []LimitState) (mask byte) {
	for i, l := range limits {
		if l.Exceeded() {
			mask |= 1 << i
		}
	}
	return mask
}

// RetryAfter returns the time until the same call would be allowed if nobody else calls;
// 0 when it was allowed. A call that was denied because the store is away is worth trying
// again after a second.
func (c *Result) RetryAfter() time.Duration {
	longest := max(0, c.BannedUntil.Sub(c.Now))
	if c.Allowed {
		return 0
	}
	if c.Degraded && len(c.Limits) == 0 {
		return time.Second
	}
	for _, l := range c.Limits {
		if l.Mode == policy.Enforce {
			longest = max(longest, l.RetryAfter)
		}
	}
	return longest
}

// Binding returns the limit that the client should heed, and false when there is none: on
// a denial the enforced one with the longest RetryAfter, otherwise the one with the
// smallest share remaining that is not in shadow mode by itself.
func (c *Result) Binding() (binding LimitState, found bool) {
	for _, l := range c.Limits {
		if l.Limit.Shadow || !c.Allowed && l.Mode != policy.Enforce {
			continue
		}
		if !found || limiter.Binds(c.Allowed, l.Usage, binding.Usage) {
			binding, found = l, true
		}
	}
	return binding, found
}

// inert reports whether a denial without a ban leaves no trace, and came from the
// caller's own limits.
func (c *Result) inert() bool {
	for _, l := range c.Limits {
		own := l.Scope == policy.ScopeKey || l.Scope == policy.ScopeRoute
		if l.Limit.CountDenied || !own && l.RetryAfter > 0 && l.Mode == policy.Enforce {
			return false
		}
	}
	return !c.candidateAsked
}
