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
	clock := newClocked(t)
	rapid.Check(t, func(t *rapid.T) {
		s := clock.subject(drawLimits(t)...)
		for range events(t) {
			s.event(t)
			cost := s.cost(t)
			if d := s.do(t, cost); !d.Allowed {
				s.checkRetryAfter(t, d, cost)
			}
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
	clock := newClocked(t)
	rapid.Check(t, func(t *rapid.T) {
		s := clock.subject(drawLimits(t)...)
		for range events(t) {
			s.event(t)
			least := s.smallestLimit()
			for _, u := range s.do(t, rapid.Int64Range(0, 1).Draw(t, "take")).Limits {
				if u.Remaining < 0 || u.Remaining > u.Limit.Requests {
					s.fail(t, "got %d of %d remaining", u.Remaining, u.Limit.Requests)
				}
				least = min(least, u.Remaining)
			}
			if least > 0 && !s.probe(t, s.now, least).Allowed {
				s.fail(t, "got %d remaining, but a cost of %[1]d is denied", least)
			}
			if least < s.smallestLimit() && s.probe(t, s.now, least+1).Allowed {
				s.fail(t, "got %d remaining, but a cost of %d is allowed", least, least+1)
			}
		}
	})
}

// At Reset, and not a microsecond earlier, nothing of a limit is used any more.
func TestResetIsWhenTheWindowIsEmpty(t *testing.T) {
	clock := newClocked(t)
	rapid.Check(t, func(t *rapid.T) {
		s := clock.subject(drawLimits(t)...)
		for range events(t) {
			s.event(t)
			for i, u := range s.do(t, rapid.Int64Range(0, 1).Draw(t, "take")).Limits {
				s.checkReset(t, i, u)
			}
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
	clock := newClocked(t)
	rapid.Check(t, func(t *rapid.T) {
		s := clock.subject(drawLimits(t)...)
		for range events(t) {
			s.event(t)
			cost := rapid.SampledFrom([]int64{0, 1, s.cost(t)}).Draw(t, "take")
			for i, u := range s.do(t, cost).Limits {
				s.checkNext(t, i, u)
			}
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
