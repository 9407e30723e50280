package lease

import (
	"slices"
	"time"

	"tidegate/internal/limiter"
)

// Counting is how a state counts for a list of limits: as they are, or in windows that
// are longer by a lease.
type Counting struct {
	Counted []limiter.Limit
	Program limiter.Program
}

// newCounting makes the windows of logs longer. A call leased at t is made before t +
// longer. So the calls of any window come from leases of a window that is longer by that,
// and such a window holds no more than the limit.
func newCounting(limits []limiter.Limit, longer time.Duration) (Counting, error) {
	if longer > 0 {
		limits = slices.Clone(limits)
		for i, l := range limits {
			if l.Algorithm == limiter.Log {
				limits[i].Window = min(l.Window+longer, limiter.MaxWindow)
			}
		}
	}
	program, err := limiter.Compile(limits, time.Now())
	return Counting{limits, program}, err
}

// shrinkingLease is a lease that a save shortened or ended. Until then the limit counts
// in the longer windows of before.
type shrinkingLease struct {
	until time.Time
	Counting
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

// CountingAt is how the limits count at a time of the server.
func (l *Limits) CountingAt(now time.Time) Counting {
	if l.shrinking != nil && now.Before(l.shrinking.until) {
		return l.shrinking.Counting
	}
	return l.Counting
}

// Longest is the Counting that forgets nothing, whenever it is used: to give back, or to
// settle.
func (l *Limits) Longest() Counting {
	if l.shrinking != nil {
		return l.shrinking.Counting
	}
	return l.Counting
}

// AsConfigured turns the usage of the counted limits into that of the configured ones.
func (l *Limits) AsConfigured(usage []limiter.Usage, now time.Time) {
	for i := range usage {
		u := &usage[i]
		if l.shrinking != nil {
			shorter := l.shrinking.Counted[i].Window - l.Counted[i].Window
			u.Reset = l.shrinking.shorten(u.Reset, shorter, now)
			u.Next = l.shrinking.shorten(u.Next, shorter, now)
			u.RetryAfter = l.shrinking.shorten(u.RetryAfter, shorter, now)
		}
		u.Limit = l.Configured[i]
	}
}
