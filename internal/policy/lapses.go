package policy

import (
	"time"

	"tidegate/internal/limiter"
)

// Lapse is a lease that a save shortened or ended. What was leased before may have been
// used so much later than it was counted: so the counts go by the longer lease until all
// of that is out of every window.
type Lapse struct {
	Lease Duration  `json:"lease"`
	Until time.Time `json:"until"` // by the server's clock
}

// LapseMargin is how far the clock of whoever saves may be behind the server's, and how
// long a save may take to reach every bucket.
const LapseMargin = time.Minute

// together is a list of limits of all callers.
type together struct {
	lease  time.Duration
	window time.Duration // the longest
}

// together lists the limits of all callers by their subject.
func (s *Set) together() map[string]together {
	all := map[string]together{}
	add := func(id string, limits []limiter.Limit, lease Duration) {
		if len(limits) > 0 {
			all[id] = together{time.Duration(lease), LongestWindow(limits)}
		}
	}
	add(GlobalID, s.Global.Limits, s.Global.Lease)
	for _, r := range s.Routes {
		add(RouteID(r.Name), r.Shared, r.SharedLease)
	}
	return all
}

// LapsesAfter returns the lapses that hold when next takes the place of a Set.
func (s *Set) LapsesAfter(next *Set, now time.Time) map[string]Lapse {
	lapses, of, after := map[string]Lapse{}, s.together(), next.together()
	for id, l := range s.Lapses {
		if now.Before(l.Until) {
			lapses[id] = l
			if _, counts := of[id]; !counts { // it may come back
				of[id] = together{}
			}
		}
	}
	for id, was := range of {
		is, before := after[id], lapses[id]
		held := max(was.lease, time.Duration(before.Lease))
		if held > is.lease && (was.lease > is.lease || is.window > was.window) {
			until := now.Add(max(was.window, is.window) + held + LapseMargin).UTC().Truncate(time.Millisecond)
			if before.Until.After(until) {
				until = before.Until
			}
			lapses[id] = Lapse{Duration(held), until}
		}
	}
	if len(lapses) == 0 {
		return nil
	}
	return lapses
}
