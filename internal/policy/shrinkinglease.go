package policy

import (
	"time"

	"tidegate/internal/limiter"
)

// ShrinkingLease is a lease that a save shortened or ended. Calls leased before may be
// made a whole lease after they were counted. So limits count by the longer lease until
// all of those calls are out of every window.
type ShrinkingLease struct {
	Lease Duration  `json:"lease"`
	Until time.Time `json:"until"` // by the server's clock
}

// ShrinkingMargin bounds how far the clock of the saving process is behind the server's,
// and how long a save takes to reach every bucket.
const ShrinkingMargin = time.Minute

// sharedLimits is a list of limits of all callers.
type sharedLimits struct {
	lease  time.Duration
	window time.Duration // the longest
}

// sharedLimits lists the limits of all callers by their subject.
func (s *Set) sharedLimits() map[string]sharedLimits {
	all := map[string]sharedLimits{}
	add := func(id string, limits []limiter.Limit, lease Duration) {
		if len(limits) > 0 {
			all[id] = sharedLimits{time.Duration(lease), LongestWindow(limits)}
		}
	}
	add(GlobalID, s.Global.Limits, s.Global.Lease)
	for _, r := range s.Routes {
		add(RouteID(r.Name), r.Shared, r.SharedLease)
	}
	return all
}

// ShrinkingLeasesAfter returns the shrinking leases that hold when next replaces a
// Set.
func (s *Set) ShrinkingLeasesAfter(next *Set, now time.Time) map[string]ShrinkingLease {
	leases, of, after := map[string]ShrinkingLease{}, s.sharedLimits(), next.sharedLimits()
	for id, l := range s.ShrinkingLeases {
		if now.Before(l.Until) {
			leases[id] = l
			if _, counts := of[id]; !counts { // it may come back
				of[id] = sharedLimits{}
			}
		}
	}
	for id, was := range of {
		is, before := after[id], leases[id]
		held := max(was.lease, time.Duration(before.Lease))
		if held > is.lease && (was.lease > is.lease || is.window > was.window) {
			until := now.Add(max(was.window, is.window) + held +
				ShrinkingMargin).UTC().Truncate(time.Millisecond)
			if before.Until.After(until) {
				until = before.Until
			}
			leases[id] = ShrinkingLease{Duration(held), until}
		}
	}
	if len(leases) == 0 {
		return nil
	}
	return leases
}
