package lease

import (
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/store"
)

// clockDrift is the part of a duration that is not used, since clocks run at different
// rates: the kernel slews each by 1/2000 at most.
const clockDrift = 1000

// Lease is a number of calls that an environment may admit without asking.
type Lease struct {
	pool *pool
	// by the environment's clock, before the request left: the server counted the lease
	// later than that
	asked  time.Time
	at     time.Time // when the server counted it
	size   int64
	left   int64
	limits []limiter.Usage // when it was taken; Remaining excludes the lease
}

// At is when the server counted the lease.
func (l *Lease) At() time.Time { return l.at }

// age is how long ago the lease was taken at most, by whichever clock says more: the
// monotonic one stands still while the environment is frozen.
func (l *Lease) age(now time.Time) time.Duration { return store.ElapsedAtMost(l.asked, now) }

// next is the size of the lease after this one.
func (l *Lease) next(now time.Time, cost int64) int64 {
	age, duration := l.age(now), l.pool.duration
	switch {
	case age >= duration && l.left > l.size/2:
		return cost
	case age >= duration && l.left > 0:
		return l.size / 2
	case age < duration/2:
		return 2 * l.size
	}
	return l.size
}

func (l *Lease) remaining() int64 {
	least := l.limits[0].Remaining
	for _, u := range l.limits {
		least = min(least, u.Remaining)
	}
	return least
}

// PutBack returns what a call drew from the lease. It returns false when the pool no
// longer holds the lease.
func (l *Lease) PutBack(cost int64) bool {
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lease != l {
		return false
	}
	l.left += cost
	return true
}
