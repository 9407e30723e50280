package limiter

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func countsDenied(l Limit) bool { return l.CountDenied }

// A denied Take writes nothing and does not change a byte of the state, unless a limit
// counts denied calls. A denied call before it stores the effects of edits and clock steps.
func TestDeniedTakeLeavesTheStateUntouched(t *testing.T) {
	afterEvents(t, func(t *rapid.T, s *subject) {
		cost := s.cost(t)
		if s.do(t, cost).Allowed || slices.ContainsFunc(s.limits, countsDenied) {
			return
		}
		before := s.bytes(t)
		s.do(t, cost)
		if after := s.bytes(t); s.writes > 0 || after != before {
			s.fail(t, "denied: got %d writes and state\n%x\nwant none and\n%x", s.writes, after, before)
		}
	})
}

// A Peek writes nothing and does not change the state, even if limits were edited or the
// clock stepped back.
func TestPeekLeavesTheStateUntouched(t *testing.T) {
	afterEvents(t, func(t *rapid.T, s *subject) {
		before := s.bytes(t)
		s.do(t, 0)
		if after := s.bytes(t); s.writes > 0 || after != before {
			s.fail(t, "peek: got %d writes and state\n%x\nwant none and\n%x", s.writes, after, before)
		}
	})
}

// An admitted cost is taken from every limit, a denied cost from none. A log with grouped
// slots may count less than a group more, but never less than the cost.
func TestLimitsAreTakenAllOrNone(t *testing.T) {
	afterEvents(t, func(t *rapid.T, s *subject) {
		cost, before := s.cost(t), s.do(t, 0)
		taken := s.do(t, cost)
		after := s.do(t, 0)
		for i, u := range before.Limits {
			s.checkTaken(t, taken.Allowed, u, after.Limits[i], cost)
		}
	})
}

// checkTaken checks how much a call took from a limit.
func (s *subject) checkTaken(t *rapid.T, allowed bool, before, after Usage, cost int64) {
	t.Helper()
	cost = before.Limit.Charge(cost)
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
		s.fail(t, "allowed %t: cost %d took %d from %s, want %d to %d", allowed, cost, taken, before.Limit,
			least, most)
	}
}

// A call that one limit denies is not counted by another.
func TestDenialTakesNothingFromOtherLimits(t *testing.T) {
	clock := newClocked(t)
	for _, algorithm := range Algorithms() {
		s := clock.subject(Limit{Requests: 2, Window: time.Second},
			Limit{Requests: 10, Window: time.Minute, Algorithm: algorithm})
		for call := range 5 {
			if d := s.do(t, 1); d.Allowed != (call < 2) {
				t.Errorf("%s, call %d: got allowed %t, want %t", algorithm, call, d.Allowed, call < 2)
			}
		}
		if d := s.do(t, 0); d.Limits[1].Remaining != 8 {
			t.Errorf("%s: got %d remaining after three denied calls, want 8", algorithm,
				d.Limits[1].Remaining)
		}
	}
}
