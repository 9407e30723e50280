package lease

import (
	"testing"
	"time"
	"unsafe"

	"tidegate/internal/limiter"
)

// newTestPool returns a pool without a lease, and a function that renews its lease. renew
// takes the cost from the new lease and returns the lease's size. remains is what the
// limit always has left at the server.
func newTestPool(remains int64) (*pool, func(now time.Time, cost int64) int64) {
	p := &pool{duration: time.Second}
	renew := func(now time.Time, cost int64) int64 {
		r := p.order(now, cost)
		p.complete(r, &Lease{pool: p, requested: now, at: now, size: r.size, left: r.size - cost,
			limits: []limiter.Usage{{Remaining: remains}}})
		return r.size
	}
	return p, renew
}

// The size of a lease follows the use of the one before. Used up in the first half of its
// duration: twice as large. Used up later: the same. Up to half left at its end: half as
// large. More left: the call's cost. A lease is bounded by 1/MaxPart of what remains, and
// is at least the cost.
func TestLeaseSizes(t *testing.T) {
	start := time.Now()
	for name, c := range map[string]struct {
		remains, size, left int64         // of the lease before
		after               time.Duration // age of the lease before
		cost, want          int64
	}{
		"used up at once":        {10_000, 8, 0, 10 * time.Millisecond, 1, 16},
		"used up later":          {10_000, 8, 0, 600 * time.Millisecond, 1, 8},
		"used up, then no calls": {10_000, 8, 0, time.Hour, 1, 8},
		"some is left":           {10_000, 8, 4, time.Second, 1, 4},
		"most is left":           {10_000, 8, 5, time.Second, 1, 1},
		"too little is left":     {10_000, 8, 2, 10 * time.Millisecond, 3, 16},
		"little remains":         {640, 64, 0, 10 * time.Millisecond, 1, 10},
		"nothing remains":        {0, 64, 0, 10 * time.Millisecond, 2, 2},
	} {
		p, renew := newTestPool(c.remains)
		p.lease = &Lease{pool: p, requested: start, at: start, size: c.size, left: c.left,
			limits: []limiter.Usage{{Remaining: c.remains}}}
		if got := renew(start.Add(c.after), c.cost); got != c.want {
			t.Errorf("%s: got a lease of %d, want %d", name, got, c.want)
		}
	}
}

// With calls at an even pace, leases grow until each lasts at least half of its duration,
// and few calls are left unused.
func TestLeaseSizesConverge(t *testing.T) {
	p, renew := newTestPool(1_000_000)
	renewals, unused, now := 0, int64(0), time.Now()
	for range 1000 {
		if from, _ := p.draw(now, 1); from == nil {
			if p.lease != nil {
				unused += p.lease.left
			}
			renew(now, 1)
			renewals++
		}
		now = now.Add(10 * time.Millisecond)
	}
	if renewals > 30 || unused > 50 {
		t.Errorf("1,000 calls in 10 durations: got %d renewals and %d unused calls, want at most 30 and 50",
			renewals, unused)
	}
}

// A lease ends when either clock has passed its duration. The wall clock advances while
// an environment is frozen; the monotonic clock advances while the wall clock is set
// back.
func TestLeasesEndByEitherClock(t *testing.T) {
	start := time.Now()
	frozen := func(d time.Duration) time.Time { return onMonotonic(start.Add(d), -d) }
	setBack := func(d time.Duration) time.Time { return onMonotonic(start, d) }
	for name, c := range map[string]struct {
		now  time.Time
		want bool
	}{
		"at once": {start, true}, "in time": {start.Add(990 * time.Millisecond), true},
		"late":                   {start.Add(time.Second), false},
		"within the clock drift": {start.Add(999 * time.Millisecond), false},
		"frozen for a moment":    {frozen(500 * time.Millisecond), true},
		"frozen for longer":      {frozen(time.Second), false},
		"set back in time":       {setBack(500 * time.Millisecond), true},
		"set back and late":      {setBack(time.Second), false},
	} {
		p, renew := newTestPool(10_000)
		renew(start, 1)
		p.lease.left = 1
		if from, _ := p.draw(c.now, 1); (from != nil) != c.want {
			t.Errorf("%s: got drawn %t, want %t", name, from != nil, c.want)
		}
	}
}

// onMonotonic moves only the monotonic reading of a time, which no function of package
// time does.
func onMonotonic(t time.Time, by time.Duration) time.Time {
	reading := (*struct {
		wall uint64
		ext  int64
		loc  *time.Location
	})(unsafe.Pointer(&t)) // the layout of time.Time; the test fails if it changes
	reading.ext += int64(by)
	return t
}

// PutBack returns a drawn cost to the lease that it was drawn from, unless the pool no
// longer holds that lease.
func TestPutBack(t *testing.T) {
	p, renew := newTestPool(10_000)
	now := time.Now()
	renew(now, 1)
	first := p.lease
	if !first.PutBack(1) || first.left != 1 {
		t.Errorf("after PutBack: got %d left, want 1", first.left)
	}
	if from, left := p.draw(now, 1); from != first || left != 0 {
		t.Errorf("got drawn from %p with %d left, want %p and 0", from, left, first)
	}
	renew(now, 1)
	if first.PutBack(1) || p.lease.left != 1 {
		t.Errorf("PutBack to an ended lease: the next lease has %d left, want 1", p.lease.left)
	}
}

// While one call requests the next lease, other calls take only their cost and keep no
// lease.
func TestOneRequestsTheNextLease(t *testing.T) {
	p := &pool{duration: time.Second}
	now := time.Now()
	p.lease = &Lease{pool: p, requested: now, at: now, size: 8, left: 1,
		limits: []limiter.Usage{{Remaining: 10_000}}}
	first, second := p.order(now, 2), p.order(now, 2)
	if first.size != 16 || first.unused != 1 || first.costOnly || second.size != 2 || second.unused != 0 ||
		!second.costOnly {
		t.Errorf("got %+v, then %+v, want an order for a lease of 16, then one for the cost only", first,
			second)
	}
	other := &Lease{pool: p}
	p.complete(second, other)
	if p.lease != nil || other.PutBack(2) {
		t.Error("the pool keeps a lease from an order for the cost only")
	}
	p.complete(first, nil)
	if r := p.order(now, 2); r.size != 2 || r.costOnly {
		t.Errorf("after a denial: got %+v, want an order for a lease of 2", r)
	}
}
