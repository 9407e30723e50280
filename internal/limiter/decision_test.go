package limiter

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A denied call's RetryAfter is the earliest instant at which the same cost passes if
// nobody else calls: a microsecond earlier it does not. A log that counts denied calls
// has then counted the denied call.
func TestRetryAfterIsExact(t *testing.T) {
	afterEvents(t, func(t *rapid.T, s *subject) {
		cost := s.cost(t)
		if d := s.do(t, cost); !d.Allowed {
			s.checkRetryAfter(t, d, cost)
		}
	})
}

// checkRetryAfter checks the RetryAfter of a denial.
func (s *subject) checkRetryAfter(t *rapid.T, d Decision, cost int64) {
	t.Helper()
	wait := d.RetryAfter()
	if wait <= 0 || wait > s.longest()*2 {
		s.fail(t, "got retry after %s, want above 0 and at most two windows", wait)
	}
	if !s.probe(t, s.now.Add(wait), cost).Allowed {
		s.fail(t, "cost %d is still denied after %s", cost, wait)
	}
	if s.probe(t, s.now.Add(wait-time.Microsecond), cost).Allowed {
		s.fail(t, "cost %d is already allowed a microsecond before %s", cost, wait)
	}
}

// Remaining is the largest cost that can be taken now.
func TestRemainingIsWhatCanBeTaken(t *testing.T) {
	afterEvents(t, func(t *rapid.T, s *subject) {
		least := s.smallestLimit()
		for _, u := range s.do(t, rapid.Int64Range(0, 1).Draw(t, "take")).Limits {
			if u.Remaining < 0 || u.Remaining > u.Limit.Requests {
				s.fail(t, "got %d of %d remaining", u.Remaining, u.Limit.Requests)
			}
			if !u.Limit.Calls || u.Remaining == 0 {
				least = min(least, u.Remaining)
			}
		}
		if least > 0 && !s.probe(t, s.now, least).Allowed {
			s.fail(t, "got %d remaining, but a cost of %[1]d is denied", least)
		}
		if least < s.smallestLimit() && s.probe(t, s.now, least+1).Allowed {
			s.fail(t, "got %d remaining, but a cost of %d is allowed", least, least+1)
		}
	})
}

// At Reset, and not a microsecond earlier, nothing of a limit is used any more. The call
// stores the effects of edits and clock steps, which a Peek does not.
func TestResetIsWhenTheWindowIsEmpty(t *testing.T) {
	afterEvents(t, func(t *rapid.T, s *subject) {
		for i, u := range s.do(t, 1).Limits {
			s.checkReset(t, i, u)
		}
	})
}

// checkReset checks the Reset of limit i.
func (s *subject) checkReset(t *rapid.T, i int, u Usage) {
	t.Helper()
	if u.Reset == 0 && u.Used() != 0 {
		s.fail(t, "limit %d: got reset 0, but %d are used", i, u.Used())
	}
	if used := s.probe(t, s.now.Add(u.Reset), 0).Limits[i].Used(); used != 0 {
		s.fail(t, "limit %d: got %d still used after %s, want 0", i, used, u.Reset)
	}
	if u.Reset == 0 {
		return
	}
	if used := s.probe(t, s.now.Add(u.Reset-time.Microsecond), 0).Limits[i].Used(); used == 0 {
		s.fail(t, "limit %d: got 0 used a microsecond before %s, want more", i, u.Reset)
	}
}

// Remaining rises at Next, and not a microsecond earlier. For a limit that denied the
// cost, Next is not after RetryAfter.
func TestNextIsWhenRemainingRises(t *testing.T) {
	afterEvents(t, func(t *rapid.T, s *subject) {
		cost := rapid.SampledFrom([]int64{1, s.cost(t)}).Draw(t, "take")
		for i, u := range s.do(t, cost).Limits {
			s.checkNext(t, i, u)
		}
	})
}

// checkNext checks the Next of limit i.
func (s *subject) checkNext(t *rapid.T, i int, u Usage) {
	t.Helper()
	if (u.Next == 0) != (u.Remaining == u.Limit.Requests) || u.Next > u.Reset {
		s.fail(t, "limit %d: got %d of %d remaining, next %s, reset %s", i, u.Remaining, u.Limit.Requests,
			u.Next, u.Reset)
	}
	if u.RetryAfter > 0 && u.Next > u.RetryAfter {
		s.fail(t, "limit %d: got next %s, want at most the retry-after %s", i, u.Next, u.RetryAfter)
	}
	if u.Next == 0 {
		return
	}
	if left := s.probe(t, s.now.Add(u.Next), 0).Limits[i].Remaining; left <= u.Remaining {
		s.fail(t, "limit %d: got %d remaining after %s, want above %d", i, left, u.Next, u.Remaining)
	}
	if left := s.probe(t, s.now.Add(u.Next-time.Microsecond), 0).Limits[i].Remaining; left > u.Remaining {
		s.fail(t, "limit %d: got %d remaining a microsecond before %s, want at most %d", i, left, u.Next,
			u.Remaining)
	}
}

// A cost that is taken where it does not fit is owed. It drains with the window, and the
// limit denies until then; a cost of at most what remains passes at Next and RetryAfter.
func TestOwed(t *testing.T) {
	clock := newClocked(t)
	for name, c := range map[string]struct {
		limit Limit
		owed  int64 // after 5 of 10 and 8 more
	}{
		"log":          {Limit{Requests: 10, Window: time.Hour}, 3},
		"grouped log":  {Limit{Requests: 640, Window: time.Hour, Slots: MinSlots}, 192},
		"counter":      {Limit{Requests: 10, Window: time.Hour, Algorithm: Counter}, 3},
		"token bucket": {Limit{Requests: 10, Window: time.Hour, Algorithm: TokenBucket}, 3},
		"fixed window": {Limit{Requests: 10, Window: time.Hour, Algorithm: FixedWindow}, 3},
	} {
		s := clock.subject(c.limit)
		unit := c.limit.Requests / 10
		s.do(t, 5*unit)
		s.now = s.now.Add(5 * time.Minute)
		s.force = true
		forced := s.do(t, 8*unit)
		s.force = false
		d := s.do(t, 1)
		u := d.Limits[0]
		drained := c.limit.Algorithm == TokenBucket && u.Owed >= 1 && u.Owed <= c.owed
		if forced.Allowed || d.Allowed || u.Remaining != 0 || u.Owed != c.owed && !drained {
			t.Errorf("%s: got %+v, want %d owed", name, d, c.owed)
		}
		if u.Next > u.RetryAfter || u.Reset < u.RetryAfter {
			t.Errorf("%s: got next %s, retry after %s, reset %s", name, u.Next, u.RetryAfter, u.Reset)
		}
		if s.probe(t, s.now.Add(u.RetryAfter-time.Microsecond), 1).Allowed {
			t.Errorf("%s: a cost of 1 passes before %s", name, u.RetryAfter)
		}
		if !s.probe(t, s.now.Add(u.RetryAfter), 1).Allowed {
			t.Errorf("%s: a cost of 1 does not pass after %s", name, u.RetryAfter)
		}
		for range 5 { // at most as much as the limit is owed
			s.force = true
			d = s.do(t, 8*unit)
		}
		if d.Limits[0].Owed != c.limit.Requests {
			t.Errorf("%s: got %d owed, want %d at most", name, d.Limits[0].Owed, c.limit.Requests)
		}
	}
}

// A call that is forced is no call for a limit that counts calls, and a limit that counts
// denied calls owes nothing.
func TestOwedOfCallsAndAttempts(t *testing.T) {
	s := newClocked(t).subject(Limit{Requests: 5, Window: time.Hour, Calls: true},
		Limit{Requests: 9, Window: time.Hour, CountDenied: true})
	s.do(t, 5)
	s.force = true
	if d := s.do(t, 8); d.Limits[0].Used() != 1 || d.Limits[1].Remaining != 0 || d.Limits[1].Owed != 0 {
		t.Errorf("got %+v, want one call used, and no attempts owed", d.Limits)
	}
}

// Since is when a limit that is new for a subject began to count, until its window has
// passed. It is not set for the first limits of a subject, nor for those that come back.
func TestSince(t *testing.T) {
	clock := newClocked(t)
	for _, algorithm := range Algorithms() {
		first := Limit{Requests: 9, Window: 30 * time.Minute, Algorithm: algorithm}
		longer := Limit{Requests: 90, Window: time.Hour, Algorithm: algorithm}
		s := clock.subject(first)
		s.now = at(0).Truncate(time.Hour).Add(20*time.Minute + 300*time.Millisecond)
		since := s.now.Add(700*time.Millisecond + 5*time.Minute)
		if algorithm == Log { // it has what the shorter window held
			since = since.Add(-first.Window)
		}
		check := func(limit Limit, cost int64, want time.Time) {
			t.Helper()
			s.limits = []Limit{limit}
			d := s.do(t, cost)
			if got := d.Limits[0].Since; !got.Equal(want) {
				t.Errorf("%s, %s: got since %s, want %s", algorithm, limit, got, want)
			}
		}
		check(first, 8, time.Time{}) // so much that a bucket is not full when it comes back
		s.now = s.now.Add(5 * time.Minute)
		check(longer, 20, since)
		s.now = s.now.Add(time.Minute)
		check(first, 1, time.Time{})
		s.now = s.now.Add(time.Minute)
		check(longer, 1, since)
		s.now = s.now.Add(time.Hour)
		check(longer, 1, time.Time{})
	}
}
