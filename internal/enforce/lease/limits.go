// Package lease lets an environment take calls of a shared limit ahead of time: one step
// counts several calls in Valkey, and the environment admits them without asking. Limits
// says how such a limit counts, a pool holds the environment's lease, and a Request is
// how one call takes from it. Package enforce sends what requests ask for. The package
// knows neither callers nor Valkey.
package lease

import (
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// Limits is a list of limits that callers share, leased or not.
type Limits struct {
	Configured []limiter.Limit
	Counting
	pool      *pool           // nil unless the limits are leased
	shrinking *shrinkingLease // nil unless a longer lease ended lately
}

// NewLimits returns limits that are not leased.
func NewLimits(limits []limiter.Limit) (Limits, error) {
	count, err := newCounting(limits, 0)
	return Limits{Configured: limits, Counting: count}, err
}

// Lease makes the limits ones that environments lease for a duration, 0 for not at all.
// before is a longer lease that a save shortened or ended.
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

// Leased reports whether checks take from the limits by a Request.
func (l *Limits) Leased() bool { return l.pool != nil || l.shrinking != nil }

// Held returns the lease that the environment holds, nil for none, and what is left of
// it.
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
