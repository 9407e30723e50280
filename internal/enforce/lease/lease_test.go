package lease

import (
	"testing"
	"time"
	"unsafe"

	"tidegate/internal/limiter"
)

// holding is a pool of a limit of which so much remains, without a store.
func holding(remains int64) (*pool, func(now time.Time, cost int64) int64) {
	s := &pool{duration: time.Second}
	ask := func(now time.Time, cost int64) int64 {
		r := s.order(now, cost)
		s.complete(r, &Lease{pool: s, requested: now, at: now, size: r.size, left: r.size - cost,
			limits: []limiter.Usage{{Remaining: remains}}})
		return r.size
	}
	return s, ask
}

// Leases begin with what a call costs. One used up in the first half of its lease is
// followed by twice as much, one used up later by as much, one of which less than half is
// left at the end by half of it, and one of which more is left by what the call costs;
// never by more than a part of what remains, and never by less than the cost.
func TestLeasesFollowTheCalls(t *testing.T) {
	start := time.Now()
	for name, c := range map[string]struct {
		remains, size, left int64 // of the last lease
		after               time.Duration
		cost, want          int64
	}{
		"used up at once":      {10_000, 8, 0, 10 * time.Millisecond, 1, 16},
		"used up later":        {10_000, 8, 0, 600 * time.Millisecond, 1, 8},
		"used up, then silent": {10_000, 8, 0, time.Hour, 1, 8},
		"some is left":         {10_000, 8, 4, time.Second, 1, 4},
		"most is left":         {10_000, 8, 5, time.Second, 1, 1},
		"too little is left":   {10_000, 8, 2, 10 * time.Millisecond, 3, 16},
		"little remains":       {640, 64, 0, 10 * time.Millisecond, 1, 10},
		"nothing remains":      {0, 64, 0, 10 * time.Millisecond, 2, 2},
	} {
		s, ask := holding(c.remains)
		s.lease = &Lease{pool: s, requested: start, at: start, size: c.size, left: c.left,
			limits: []limiter.Usage{{Remaining: c.remains}}}
		if got := ask(start.Add(c.after), c.cost); got != c.want {
			t.Errorf("%s: a lease of %d, want %d", name, got, c.want)
		}
	}
}

// While calls keep coming at an even pace, leases grow until one lasts half a lease, and
// hardly anything is left at the end of any.
func TestLeaseSizesConverge(t *testing.T) {
	s, ask := holding(1_000_000)
	asked, unused, now := 0, int64(0), time.Now()
	for range 1000 {
		if from, _ := s.draw(now, 1); from == nil {
			if s.lease != nil {
				unused += s.lease.left
			}
			ask(now, 1)
			asked++
		}
		now = now.Add(10 * time.Millisecond)
	}
	if asked > 30 || unused > 50 {
		t.Errorf("1,000 calls in 10 leases asked %d times and left %d unused, want 30 and 50 at most",
			asked, unused)
	}
}

// A lease is used until either clock says that it is over. The time of day advances while
// an environment is frozen, the monotonic clock when the time of day is set back.
func TestLeasesEndByEitherClock(t *testing.T) {
	start := time.Now()
	frozen := func(d time.Duration) time.Time { return onMonotonic(start.Add(d), -d) }
	setBack := func(d time.Duration) time.Time { return onMonotonic(start, d) }
	for name, c := range map[string]struct {
		now  time.Time
		want bool
	}{
		"at once": {start, true}, "in time": {start.Add(990 * time.Millisecond), true},
		"late":                  {start.Add(time.Second), false},
		"clocks that run apart": {start.Add(999 * time.Millisecond), false},
		"frozen for a moment":   {frozen(500 * time.Millisecond), true},
		"frozen for longer":     {frozen(time.Second), false},
		"set back in time":      {setBack(500 * time.Millisecond), true},
		"set back and late":     {setBack(time.Second), false},
	} {
		s, ask := holding(10_000)
		ask(start, 1)
		s.lease.left = 1
		if from, _ := s.draw(c.now, 1); (from != nil) != c.want {
			t.Errorf("%s: drawn %t, want %t", name, from != nil, c.want)
		}
	}
}

// onMonotonic moves the monotonic clock of a reading alone, as no function of package
// time can.
func onMonotonic(t time.Time, by time.Duration) time.Time {
	reading := (*struct {
		wall uint64
		ext  int64
		loc  *time.Location
	})(unsafe.Pointer(&t)) // the layout is that of time.Time; the test fails when it changes
	reading.ext += int64(by)
	return t
}

// What was drawn comes back to the lease that it came from, and to no other.
func TestLeasesTakeBack(t *testing.T) {
	s, ask := holding(10_000)
	now := time.Now()
	ask(now, 1)
	first := s.lease
	if !first.PutBack(1) || first.left != 1 {
		t.Errorf("%d left, want 1", first.left)
	}
	if from, left := s.draw(now, 1); from != first || left != 0 {
		t.Errorf("drawn from %p, %d left; want %p and 0", from, left, first)
	}
	ask(now, 1)
	if first.PutBack(1) || s.lease.left != 1 {
		t.Errorf("the next lease has %d left, want 1", s.lease.left)
	}
}

// While one call requests the next lease, others take their own cost and keep nothing.
func TestOneRequestsTheNextLease(t *testing.T) {
	s := &pool{duration: time.Second}
	now := time.Now()
	s.lease = &Lease{pool: s, requested: now, at: now, size: 8, left: 1,
		limits: []limiter.Usage{{Remaining: 10_000}}}
	first, second := s.order(now, 2), s.order(now, 2)
	if first.size != 16 || first.unused != 1 || first.costOnly || second.size != 2 || second.unused != 0 ||
		!second.costOnly {
		t.Errorf("%+v, then %+v", first, second)
	}
	other := &Lease{pool: s}
	s.complete(second, other)
	if s.lease != nil || other.PutBack(2) {
		t.Error("a lease ordered for a cost only is kept")
	}
	s.complete(first, nil)
	if r := s.order(now, 2); r.size != 2 || r.costOnly {
		t.Errorf("after a denial: %+v", r)
	}
}
