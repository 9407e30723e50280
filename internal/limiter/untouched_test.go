package limiter

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func countsDenied(l Limit) bool { return l.CountDenied }

// A denied Take writes nothing and leaves the state byte for byte as it was, unless a
// limit counts denied calls. The Peek before it has stored what an edit or a clock that
// stepped back moved.
func TestDeniedTakeLeavesTheStateUntouched(t *testing.T) {
	clock := newClocked(t)
	rapid.Check(t, func(t *rapid.T) {
		s := clock.subject(drawLimits(t)...)
		for range events(t) {
			s.event(t)
			s.do(t, 0)
			before := s.bytes(t)
			if d := s.do(t, s.cost(t)); d.Allowed || slices.ContainsFunc(s.limits, countsDenied) {
				continue
			}
			if after := s.bytes(t); s.writes > 0 || after != before {
				s.fail(t, "denied with %d writes: the state was\n%x and is\n%x", s.writes, before, after)
			}
		}
	})
}

// A Peek writes nothing, whatever the limits, as long as neither they change nor the
// clock steps back.
func TestPeekLeavesTheStateUntouched(t *testing.T) {
	clock := newClocked(t)
	rapid.Check(t, func(t *rapid.T) {
		s := clock.subject(drawLimits(t)...)
		for range events(t) {
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0:
				s.now = s.now.Add(time.Duration(rapid.Int64Range(0, 2*s.longest().Microseconds()).Draw(t,
					"forward")) * time.Microsecond)
			case 1:
				s.do(t, -s.cost(t))
			default:
				s.do(t, s.cost(t))
			}
			before := s.bytes(t)
			s.do(t, 0)
			if after := s.bytes(t); s.writes > 0 || after != before {
				s.fail(t, "peeked with %d writes: the state was\n%x and is\n%x", s.writes, before, after)
			}
		}
	})
}

// An admitted cost is taken from every limit, a denied one from none. A log with grouped
// slots may count up to a group more, never less.
func TestLimitsAreTakenAllOrNone(t *testing.T) {
	clock := newClocked(t)
	rapid.Check(t, func(t *rapid.T) {
		s := clock.subject(drawLimits(t)...)
		for range events(t) {
			s.event(t)
			cost, before := s.cost(t), s.do(t, 0)
			taken := s.do(t, cost)
			after := s.do(t, 0)
			for i, u := range before.Limits {
				s.checkTaken(t, taken.Allowed, u, after.Limits[i], cost)
			}
		}
	})
}

func (s *subject) checkTaken(t *rapid.T, allowed bool, before, after Usage, cost int64) {
	t.Helper()
	least, most := cost, cost
	switch {
	case !allowed && !before.Limit.CountDenied:
		least, most = 0, 0
	case !allowed:
		least, most = 0, before.Limit.Requests
	case before.Limit.Algorithm == Log:
		most += before.Limit.group() - 1
	}
	if taken := before.Remaining - after.Remaining; taken < least || taken > most {
		s.fail(t, "allowed %t: cost %d took %d from %s", allowed, cost, taken, before.Limit)
	}
}

// What one limit denies, no other limit of the subject counts.
func TestDenialByOneLimitFreesTheOthers(t *testing.T) {
	clock := newClocked(t)
	for _, algorithm := range Algorithms() {
		s := clock.subject(Limit{Requests: 2, Window: time.Second},
			Limit{Requests: 10, Window: time.Minute, Algorithm: algorithm})
		for call := range 5 {
			if d := s.do(t, 1); d.Allowed != (call < 2) {
				t.Errorf("%s: call %d: allowed %t", algorithm, call, d.Allowed)
			}
		}
		if d := s.do(t, 0); d.Limits[1].Remaining != 8 {
			t.Errorf("%s: three denied calls left %d of 10, want 8", algorithm, d.Limits[1].Remaining)
		}
	}
}
