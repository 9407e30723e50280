package enforce

import (
	"slices"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// counting is how a state counts for a list of limits: as they are, or in windows that
// are longer by a lease.
type counting struct {
	counted []limiter.Limit
	program limiter.Program
}

// newCounting makes the windows of logs longer. A call that was leased at t is made
// before t + longer; so the calls of any window come from leases of one that is so much
// longer, which hold no more than the limit.
func newCounting(limits []limiter.Limit, longer time.Duration) (counting, error) {
	if longer > 0 {
		limits = slices.Clone(limits)
		for i, l := range limits {
			if l.Algorithm == limiter.Log {
				limits[i].Window = min(l.Window+longer, limiter.MaxWindow)
			}
		}
	}
	program, err := limiter.Compile(limits, time.Now())
	return counting{limits, program}, err
}

// leased makes a limit one that environments hold shares of, for so long.
func (s *sharedLimit) leased(lease time.Duration, before policy.Lapse) (err error) {
	if lease > 0 {
		s.share = &share{lease: lease}
		if s.counting, err = newCounting(s.limits, lease); err != nil {
			return err
		}
	}
	if longer := time.Duration(before.Lease); longer > lease {
		s.lapse = &lapse{until: before.Until}
		s.lapse.counting, err = newCounting(s.limits, longer)
	}
	return err
}

// leases reports whether checks take from the limit by lease.lua.
func (s *sharedLimit) leases() bool { return s.share != nil || s.lapse != nil }

// at is how the limit counts at a time of the server.
func (s *sharedLimit) at(now time.Time) counting {
	if s.lapse != nil && now.Before(s.lapse.until) {
		return s.lapse.counting
	}
	return s.counting
}

// longest is the counting that forgets nothing, whenever it is used: to give back, or to
// settle.
func (s *sharedLimit) longest() counting {
	if s.lapse != nil {
		return s.lapse.counting
	}
	return s.counting
}

// tell makes what a state says of the counted limits what is to be said of those that are
// configured.
func (s *sharedLimit) tell(usage []limiter.Usage, now time.Time) {
	for i := range usage {
		u := &usage[i]
		if s.lapse != nil {
			shorter := s.lapse.counted[i].Window - s.counted[i].Window
			u.Reset = s.lapse.sooner(u.Reset, shorter, now)
			u.Next = s.lapse.sooner(u.Next, shorter, now)
			u.RetryAfter = s.lapse.sooner(u.RetryAfter, shorter, now)
		}
		u.Limit = s.limits[i]
	}
}
