package limiter

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A denied call's RetryAfter is the earliest instant at which the same cost passes if
// nobody else calls: a microsecond sooner it does not. For a log that counts denied calls
// that is after the denied call itself was counted.
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

func (s *subject) checkRetryAfter(t *rapid.T, d Decision, cost int64) {
	t.Helper()
	wait := d.RetryAfter()
	if wait <= 0 || wait > s.longest()*2 {
		s.fail(t, "denied with retry after %s", wait)
	}
	if !s.probe(t, s.now.Add(wait), cost).Allowed {
		s.fail(t, "cost %d is denied again after %s", cost, wait)
	}
	if s.probe(t, s.now.Add(wait-time.Microsecond), cost).Allowed {
		s.fail(t, "cost %d is allowed a microsecond before %s", cost, wait)
	}
}

// Remaining is the cost that could be taken now: that much passes, one more does not.
func TestRemainingIsWhatCanBeTaken(t *testing.T) {
	clock := newClocked(t)
	rapid.Check(t, func(t *rapid.T) {
		s := clock.subject(drawLimits(t)...)
		for range events(t) {
			s.event(t)
			least := s.smallestLimit()
			for _, u := range s.do(t, rapid.Int64Range(0, 1).Draw(t, "take")).Limits {
				if u.Remaining < 0 || u.Remaining > u.Limit.Requests {
					s.fail(t, "%d of %d remain", u.Remaining, u.Limit.Requests)
				}
				least = min(least, u.Remaining)
			}
			if least > 0 && !s.probe(t, s.now, least).Allowed {
				s.fail(t, "%d remain, but are denied", least)
			}
			if least < s.smallestLimit() && s.probe(t, s.now, least+1).Allowed {
				s.fail(t, "%d remain, but %d are allowed", least, least+1)
			}
		}
	})
}

// At Reset, and not a microsecond sooner, nothing of a limit is taken any more.
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

func (s *subject) checkReset(t *rapid.T, i int, u Usage) {
	t.Helper()
	if u.Reset == 0 && u.Used() != 0 {
		s.fail(t, "limit %d is empty, but %d are used", i, u.Used())
	}
	if used := s.probe(t, s.now.Add(u.Reset), 0).Limits[i].Used(); used != 0 {
		s.fail(t, "limit %d: %d are still used after %s", i, used, u.Reset)
	}
	if u.Reset == 0 {
		return
	}
	if used := s.probe(t, s.now.Add(u.Reset-time.Microsecond), 0).Limits[i].Used(); used == 0 {
		s.fail(t, "limit %d is empty a microsecond before %s", i, u.Reset)
	}
}

// Remaining rises at Next, and not a microsecond sooner. A limit that denied has its Next
// no later than its RetryAfter.
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

func (s *subject) checkNext(t *rapid.T, i int, u Usage) {
	t.Helper()
	if (u.Next == 0) != (u.Remaining == u.Limit.Requests) || u.Next > u.Reset {
		s.fail(t, "limit %d: %d of %d remain, next in %s, reset in %s", i, u.Remaining, u.Limit.Requests,
			u.Next, u.Reset)
	}
	if u.RetryAfter > 0 && u.Next > u.RetryAfter {
		s.fail(t, "limit %d: next in %s, after the retry in %s", i, u.Next, u.RetryAfter)
	}
	if u.Next == 0 {
		return
	}
	if left := s.probe(t, s.now.Add(u.Next), 0).Limits[i].Remaining; left <= u.Remaining {
		s.fail(t, "limit %d: %d remain after %s, and %d before", i, left, u.Next, u.Remaining)
	}
	if left := s.probe(t, s.now.Add(u.Next-time.Microsecond), 0).Limits[i].Remaining; left > u.Remaining {
		s.fail(t, "limit %d: %d remain a microsecond before %s", i, left, u.Next)
	}
}
