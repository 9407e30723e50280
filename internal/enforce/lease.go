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

// newCounting makes the windows of logs longer. A call leased at t is made before t +
// longer. So the calls of any window come from leases of a window that is longer by that,
// and such a window holds no more than the limit.
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

// shrinkingLease is a lease that a save shortened or ended. Until then the limit counts
// in the longer windows of before.
type shrinkingLease struct {
	until time.Time
	counting
}

// shorten returns how long something lasts when the window gets shorter at the end of the
// shrinking lease. lasts is the time that it takes in the longer window.
func (l *shrinkingLease) shorten(lasts, shorter time.Duration, now time.Time) time.Duration {
	left := l.until.Sub(now)
	if left <= 0 {
		return lasts
	}
	return min(lasts, max(left, lasts-shorter))
}

// setLease makes a limit one that environments lease for a duration. before is a longer
// lease that a save shortened or ended.
func (s *sharedLimit) setLease(lease time.Duration, before policy.ShrinkingLease) (err error) {
	if lease > 0 {
		s.pool = &leasePool{duration: lease}
		if s.counting, err = newCounting(s.limits, lease); err != nil {
			return err
		}
	}
	if longer := time.Duration(before.Lease); longer > lease {
		s.shrinking = &shrinkingLease{until: before.Until}
		s.shrinking.counting, err = newCounting(s.limits, longer)
	}
	return err
}

// leases reports whether checks take from the limit by lease.lua.
func (s *sharedLimit) leases() bool { return s.pool != nil || s.shrinking != nil }

// at is how the limit counts at a time of the server.
func (s *sharedLimit) at(now time.Time) counting {
	if s.shrinking != nil && now.Before(s.shrinking.until) {
		return s.shrinking.counting
	}
	return s.counting
}

// longest is the counting that forgets nothing, whenever it is used: to give back, or to
// settle.
func (s *sharedLimit) longest() counting {
	if s.shrinking != nil {
		return s.shrinking.counting
	}
	return s.counting
}

// asConfigured turns the usage of the counted limits into that of the configured ones.
func (s *sharedLimit) asConfigured(usage []limiter.Usage, now time.Time) {
	for i := range usage {
		u := &usage[i]
		if s.shrinking != nil {
			shorter := s.shrinking.counted[i].Window - s.counted[i].Window
			u.Reset = s.shrinking.shorten(u.Reset, shorter, now)
			u.Next = s.shrinking.shorten(u.Next, shorter, now)
			u.RetryAfter = s.shrinking.shorten(u.RetryAfter, shorter, now)
		}
		u.Limit = s.limits[i]
	}
}
