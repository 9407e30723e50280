package lease

import (
	"sync"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/store"
)

// pool holds the lease that an environment has of a shared limit: one at a time,
// taken in one step, from which calls are admitted without asking. A pool belongs to one
// version of the policy set. It is safe for concurrent use.
//
// The size of leases follows the calls. A lease that is used up in the first half of its
// duration is followed by one of twice its size. One with calls left at its end is
// followed by one of half its size; with more than half left, by the cost of one call. No
// lease is larger than 1/MaxPart of what remains. So leases shrink as the limit
// comes near, and few calls lie unused while others are denied.
type pool struct {
	duration time.Duration // of a lease

	mu         sync.Mutex
	lease      *Lease // nil at first, and after a denial
	requesting bool   // a call requests the next lease
}

// MaxPart bounds a lease to a part of what remains. Tests with small limits lower
// it.
var MaxPart int64 = 64

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

// take draws a cost from the held lease and returns what is left in it. Without such a
// lease it returns which one to request.
func (p *pool) take(now time.Time, cost int64) (from *Lease, left int64, w wanted) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if from, left = p.draw(now, cost); from == nil {
		w = p.want(now, cost)
	}
	return from, left, w
}

// draw takes a cost from the held lease. The caller holds the lock.
func (p *pool) draw(now time.Time, cost int64) (from *Lease, left int64) {
	if p.lease == nil || p.lease.left < cost || p.lease.age(now) >= p.duration-p.duration/clockDrift {
		return nil, 0
	}
	p.lease.left -= cost
	return p.lease, p.lease.left
}

// wanted is what to request when the held lease does not cover a cost.
type wanted struct {
	size   int64     // calls of the lease
	unused int64     // calls of the lease before, which are given back
	at     time.Time // when that was taken
	alone  bool      // for the cost alone: another call requests the next lease
}

// want ends the held lease and returns the next one to request. The caller holds the
// lock. complete must answer every request.
func (p *pool) want(now time.Time, cost int64) wanted {
	if p.requesting {
		return wanted{size: cost, alone: true}
	}
	p.requesting = true
	w, last := wanted{size: cost}, p.lease
	if last == nil {
		return w
	}
	w.size = max(cost, min(last.next(now, cost), (last.remaining()+last.left)/MaxPart))
	if last.left > 0 {
		w.unused, w.at = last.left, last.at
	}
	p.lease = nil
	return w
}

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

// complete ends a request: l is the lease that it got, nil when it got none.
func (p *pool) complete(w wanted, l *Lease) {
	if w.alone {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requesting, p.lease = false, l
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
