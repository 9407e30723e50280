package limiter

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

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
