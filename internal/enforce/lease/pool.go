package lease

import (
	"sync"
	"time"
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

// complete ends a request: l is the lease that it got, nil when it got none.
func (p *pool) complete(w wanted, l *Lease) {
	if w.alone {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requesting, p.lease = false, l
}
