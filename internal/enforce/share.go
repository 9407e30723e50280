package enforce

import (
	"sync"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/store"
)

// share is what an environment holds of limits that it leases: one lot at a time, taken
// in one step, from which calls are admitted without asking. It belongs to one version of
// the Set, and is safe for concurrent use.
//
// The size of lots follows the calls. One that was used up in the first half of its lease
// is followed by one of twice its size, one of which some is left at the end by one of
// half of it, or, when more than half was left, by what one call costs. No lot is larger
// than 1/sharePart of what is known to remain: so lots get smaller as the limit comes
// near, and little lies unused when others are denied.
type share struct {
	lease time.Duration

	mu     sync.Mutex
	lot    *lot // nil at first, and after a denial
	asking bool // somebody asks for the next lot
}

// sharePart is what part of the rest a lot may be at most. Tests with small limits make
// it less.
var sharePart int64 = 64

// clockDrift is the part of a lease that is not used, since clocks run at different
// rates: the kernel slews each by 1/2000 at most.
const clockDrift = 1000

// lot is a part of a share.
type lot struct {
	share *share
	// by the environment's clock, before the request left: the server counted it later
	// than that
	asked  time.Time
	at     time.Time // when the server counted it
	size   int64
	left   int64
	limits []limiter.Usage // when it was taken; Remaining is without all of the lot
}

// age is how long ago the lot was taken at most, by whichever clock says more: the
// monotonic one stands still while the environment is frozen.
func (l *lot) age(now time.Time) time.Duration { return store.ElapsedAtMost(l.asked, now) }

// take draws a cost from the lot that is held, and tells how much is left in it; or it
// says what to ask for.
func (s *share) take(now time.Time, cost int64) (from *lot, left int64, r request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if from, left = s.draw(now, cost); from == nil {
		r = s.request(now, cost)
	}
	return from, left, r
}

// draw is done under the lock.
func (s *share) draw(now time.Time, cost int64) (from *lot, left int64) {
	if s.lot == nil || s.lot.left < cost || s.lot.age(now) >= s.lease-s.lease/clockDrift {
		return nil, 0
	}
	s.lot.left -= cost
	return s.lot, s.lot.left
}

// request is what to ask for when the lot does not do.
type request struct {
	size   int64     // of the lot
	unused int64     // of the last one, to be given back
	at     time.Time // when that was taken
	alone  bool      // for the cost alone: somebody else asks for the next lot
}

// request ends the lot, under the lock. What it asks for must be answered by land.
func (s *share) request(now time.Time, cost int64) request {
	if s.asking {
		return request{size: cost, alone: true}
	}
	s.asking = true
	r, last := request{size: cost}, s.lot
	if last == nil {
		return r
	}
	r.size = max(cost, min(last.next(now, cost), (last.remaining()+last.left)/sharePart))
	if last.left > 0 {
		r.unused, r.at = last.left, last.at
	}
	s.lot = nil
	return r
}

// next is the size of the lot after this one.
func (l *lot) next(now time.Time, cost int64) int64 {
	age, lease := l.age(now), l.share.lease
	switch {
	case age >= lease && l.left > l.size/2:
		return cost
	case age >= lease && l.left > 0:
		return l.size / 2
	case age < lease/2:
		return 2 * l.size
	}
	return l.size
}

func (l *lot) remaining() int64 {
	least := l.limits[0].Remaining
	for _, u := range l.limits {
		least = min(least, u.Remaining)
	}
	return least
}

// land takes what came of a request: nil when nothing did.
func (s *share) land(r request, l *lot) {
	if r.alone {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking, s.lot = false, l
}

// putBack returns what a call drew from the lot, if it is the one that is held.
func (l *lot) putBack(cost int64) bool {
	s := l.share
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lot != l {
		return false
	}
	l.left += cost
	return true
}
