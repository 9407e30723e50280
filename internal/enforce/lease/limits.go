// Package lease lets an environment take calls of a shared limit in advance: one step
// counts several calls in Valkey, and the environment then admits them by itself. Limits
// has the limits and how they count, a pool the environment's lease. A Request takes one
// call's cost. Package enforce imports it and sends the requests' steps to Valkey. The
// package knows neither callers nor Valkey.
package lease

import (
	"slices"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// Limits is a list of limits that callers share, leased or not.
type Limits struct {
	Configured []limiter.Limit
	Counting
	pool      *pool           // nil if the limits are not leased
	shrinking *shrinkingLease // nil if no longer lease ended lately
}

// NewLimits returns limits that are not leased.
func NewLimits(limits []limiter.Limit) (Limits, error) {
	count, err := newCounting(limits, 0)
	return Limits{Configured: limits, Counting: count}, err
}

// Lease lets environments lease the limits for a duration; 0 for no leases. before is a
// longer lease that a save shortened or ended.
func (l *Limits) Lease(duration time.Duration, before policy.ShrinkingLease) (err error) {
	if duration > 0 {
		l.pool = &pool{duration: duration}
		if l.Counting, err = newCounting(l.Configured, duration); err != nil {
			return err
		}
	}
	if longer := time.Duration(before.Lease); longer > duration {
		l.shrinking = &shrinkingLease{until: before.Until}
		l.shrinking.Counting, err = newCounting(l.Configured, longer)
	}
	return err
}

// Leased reports whether checks take from the limits with a Request.
func (l *Limits) Leased() bool { return l.pool != nil || l.shrinking != nil }

// Held returns the lease that the environment holds and the calls left in it; nil for
// none.
func (l *Limits) Held() (held *Lease, left int64) {
	if l.pool == nil {
		return nil, 0
	}
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	if l.pool.lease == nil {
		return nil, 0
	}
	return l.pool.lease, l.pool.lease.left
}

// Counting is how a state counts for a list of limits: in their own windows, or in
// windows that are longer by a lease.
type Counting struct {
	Counted []limiter.Limit
	Program limiter.Program
}

// newCounting lengthens the windows of logs. A call leased at t is made before t +
// longer. So the calls of any window were leased within a window that is longer by that,
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

// shrinkingLease is a lease that a save shortened or ended. The limits count in its
// longer windows until then.
type shrinkingLease struct {
	until time.Time
	Counting
}

// shorten converts a wait in the longer window to one that allows for the window getting
// shorter when the shrinking lease ends. difference is that of the two windows.
func (l *shrinkingLease) shorten(wait, difference time.Duration, now time.Time) time.Duration {
	left := l.until.Sub(now)
	if left <= 0 {
		return wait
	}
	return min(wait, max(left, wait-difference))
}

// CountingAt returns how the limits count at a time of the server.
func (l *Limits) CountingAt(now time.Time) Counting {
	if l.shrinking != nil && now.Before(l.shrinking.until) {
		return l.shrinking.Counting
	}
	return l.Counting
}

// Longest returns the Counting with the longest windows. It is used to give back and to
// settle, where a state must forget nothing.
func (l *Limits) Longest() Counting {
	if l.shrinking != nil {
		return l.shrinking.Counting
	}
	return l.Counting
}

// AsConfigured converts the usage of the counted limits to that of the configured limits.
func (l *Limits) AsConfigured(usage []limiter.Usage, now time.Time) {
	for i := range usage {
		u := &usage[i]
		if l.shrinking != nil {
			difference := l.shrinking.Counted[i].Window - l.Counted[i].Window
			u.Reset = l.shrinking.shorten(u.Reset, difference, now)
			u.Next = l.shrinking.shorten(u.Next, difference, now)
			u.RetryAfter = l.shrinking.shorten(u.RetryAfter, difference, now)
		}
		u.Limit = l.Configured[i]
	}
}
