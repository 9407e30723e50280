package lease

import (
	"sync"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/store"
)

// clockDrift is the inverse of the part of a lease's duration that is not used, because
// clocks run at different rates. The kernel slews each clock by at most 1/2000.
const clockDrift = 1000

// Lease is a number of calls that an environment may admit without asking Valkey.
type Lease struct {
	pool      *pool
	requested time.Time       // by the environment's clock, before the server counted the lease
	at        time.Time       // when the server counted the lease
	size      int64           // calls leased
	left      int64           // calls not yet drawn
	limits    []limiter.Usage // as of the time at; Remaining excludes the lease
}

// At returns when the server counted the lease.
func (l *Lease) At() time.Time { return l.at }

// age returns the greatest possible age of the lease, by whichever clock shows more: the
// monotonic clock stops while the environment is frozen.
func (l *Lease) age(now time.Time) time.Duration { return store.ElapsedAtMost(l.requested, now) }

// nextSize returns the size of the lease after this one, before MaxPart bounds it.
func (l *Lease) nextSize(now time.Time, cost int64) int64 {
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

// remaining returns the least that remained of the limits when the lease was taken.
func (l *Lease) remaining() int64 {
	least := l.limits[0].Remaining
	for _, u := range l.limits {
		least = min(least, u.Remaining)
	}
	return least
}

// PutBack returns a drawn cost to the lease. It returns false if the pool no longer holds
// the lease.
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

// pool holds at most one lease of a shared limit, from which the environment admits calls
// without asking Valkey. A pool belongs to one version of the policy set. It is safe for
// concurrent use.
//
// The size of a lease depends on the use of the one before. If that was used up in the
// first half of its duration, the next is twice as large. If calls were left at its end,
// the next is half as large; if more than half were left, it is the cost of one call. No
// lease is larger than 1/MaxPart of what remains. So leases shrink as the limit is used
// up, and few calls lie unused while others are denied.
type pool struct {
	duration time.Duration // of a lease

	mu         sync.Mutex
	lease      *Lease // nil at first, after a denial, and while a call requests the next one
	requesting bool   // a call is requesting the next lease
}

// MaxPart bounds a lease to 1/MaxPart of what remains. Tests with small limits lower it.
var MaxPart int64 = 64

// take draws a cost from the held lease, and returns the lease and the calls left in it.
// If the lease does not cover the cost, it returns nil and the order for the next one.
func (p *pool) take(now time.Time, cost int64) (from *Lease, left int64, next order) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if from, left = p.draw(now, cost); from == nil {
		next = p.order(now, cost)
	}
	return from, left, next
}

// draw draws a cost from the held lease. p.mu must be held.
func (p *pool) draw(now time.Time, cost int64) (from *Lease, left int64) {
	if p.lease == nil || p.lease.left < cost || p.lease.age(now) >= p.duration-p.duration/clockDrift {
		return nil, 0
	}
	p.lease.left -= cost
	return p.lease, p.lease.left
}

// order is what a step requests if the held lease does not cover a cost.
type order struct {
	size     int64     // calls to take
	unused   int64     // calls left in the lease before, which the step gives back
	takenAt  time.Time // when that lease was taken, by the server
	costOnly bool      // no lease, just the cost: another call is requesting the next lease
}

// order ends the held lease and returns the order for the next one. p.mu must be held.
// complete must follow.
func (p *pool) order(now time.Time, cost int64) order {
	if p.requesting {
		return order{size: cost, costOnly: true}
	}
	p.requesting = true
	next, last := order{size: cost}, p.lease
	if last == nil {
		return next
	}
	next.size = max(cost, min(last.nextSize(now, cost), (last.remaining()+last.left)/MaxPart))
	if last.left > 0 {
		next.unused, next.takenAt = last.left, last.at
	}
	p.lease = nil
	return next
}

// complete ends an order. l is the lease that it got; nil for none.
func (p *pool) complete(o order, l *Lease) {
	if o.costOnly {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requesting, p.lease = false, l
}
