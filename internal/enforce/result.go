package enforce

import (
	"slices"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// Result is the answer to a Check.
type Result struct {
	Allowed    bool // the answer, with modes applied
	WouldAllow bool // the answer if every limit were enforced

	Cost        int64
	Now         time.Time    // server time
	Limits      []LimitState // the caller's own; also shared limits if those allowed the call
	ID          string       // id of the caller
	Name        string       // name of the caller; empty without a record
	Plan        string
	Group       string // group of the API key; empty for none
	Source      string // of the limits, as in policy.Effective
	Rule        string // name of the route rule that matched; empty for none
	Settle      bool   // the route rule wants a settlement
	SetVersion  int64
	KeyVersion  int64     // 0 without a record
	BannedUntil time.Time // zero if the caller is not banned; a ban is checked before all limits
	// Repeats means that until RetryAfter has passed, equal calls are denied too and
	// leave no trace: no limit counts them. An edit, and a cost that is
	// given back, may end that sooner.
	Repeats bool
	// Unverified marks a denial by the shared limit that Call.Full names. The caller's
	// record was not read: Name, Plan, Group, Source and KeyVersion are empty.
	Unverified bool
	// Impossible marks an explained call that costs more than an enforced limit ever admits.
	// Check returns limiter.ErrCost for it.
	Impossible bool
	// OldSecret marks a call with the previous secret, within its grace after a rotation.
	OldSecret bool
	// Degraded marks a decision made without Valkey. Now is then the local clock.
	Degraded bool

	Reservation string // text for Settle; empty if the route wants none or nothing was taken

	// Crossings are the thresholds of limits that the call crossed; nil for almost every
	// call.
	Crossings crossings

	// Access lists the routes that the key opens; nil if it opens all routes of its plan.
	Access *route.List

	free      bool // nothing is taken for the call
	taken     []taken
	tooCostly *LimitState // limit in shadow mode that is smaller than the cost; not in Limits
	changes   []time.Time // when the record changes without an edit; may be zero or past
	plan      int         // number of the plan; 0 for an API key, whose record has it
	group     keyGroup    // group whose limits apply
}

// HoldsUntil returns when the caller's record changes without an edit: it expires, its
// override ends, or the grace of a rotated secret does. It is zero if no such change is
// to come.
func (c *Result) HoldsUntil() time.Time {
	var next time.Time
	for _, t := range c.changes {
		if t.After(c.Now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	return next
}

// LimitState is the state of one limit after a call.
type LimitState struct {
	limiter.Usage
	Scope string      // "key", "route", "ip", "route-ip", "global", "route-all" or "group"
	Mode  policy.Mode // Enforce or Shadow: the list's, or the limit's own
}

// LimitStates returns the states of a list of limits, with its scope and mode.
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

// RetryAfter returns the time until the same call would be allowed if nobody else calls;
// 0 if it was allowed. It is one second for a call that was denied because Valkey is
// unavailable.
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

// Binding returns the limit that matters most to the client, and false if there is none.
// For a denial that is the enforced limit with the longest RetryAfter. Otherwise it is
// the limit with the smallest share remaining, leaving out limits that are themselves in
// shadow mode.
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

// ShadowDenial returns the limit in shadow mode that would have denied the call, and
// false if there is none. Of several it is the one with the longest RetryAfter.
func (c *Result) ShadowDenial() (denial LimitState, found bool) {
	for _, l := range c.Limits {
		if l.Mode == policy.Shadow && l.RetryAfter > denial.RetryAfter {
			denial, found = l, true
		}
	}
	if c.tooCostly != nil {
		return *c.tooCostly, true
	}
	return denial, found
}

// tooSmall returns the first limit of a list that is smaller than a cost; the zero
// LimitState if none is.
func tooSmall(limits []limiter.Limit, scope string, cost int64) *LimitState {
	l := &LimitState{Scope: scope, Mode: policy.Shadow}
	for _, limit := range limits {
		if limit.Requests < limit.Charge(cost) {
			l.Limit = limit
			break
		}
	}
	return l
}

// leavesNoTrace reports whether a denial without a ban was not counted anywhere.
func (c *Result) leavesNoTrace() bool {
	return !slices.ContainsFunc(c.Limits, func(l LimitState) bool { return l.Limit.CountDenied })
}

// Shared reports whether other callers take from the limit too.
func (l LimitState) Shared() bool { return l.Scope != policy.ScopeKey && l.Scope != policy.ScopeRoute }

// Denies reports whether the limit denied the call.
func (l LimitState) Denies() bool { return l.Mode == policy.Enforce && l.RetryAfter > 0 }
