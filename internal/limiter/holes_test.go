package limiter

import (
	"fmt"
	"testing"
	"time"
)

// scene is one caller under limits that change, at instants that a test sets.
type scene struct {
	*Model
	now   int64 // microseconds after base
	reset int64
	last  Decision
}

func exactly(n int64, window time.Duration) Limit {
	return Limit{Requests: n, Window: window}
}

func kindOf(a Algorithm, n int64, window time.Duration) Limit {
	return Limit{Requests: n, Window: window, Algorithm: a}
}

// call makes a call of a cost under limits of one count.
func (s *scene) call(cost int64, limits ...Limit) Decision {
	var all []Applied
	for _, l := range limits {
		all = append(all, Applied{Limit: l, Count: "calls", Cost: cost, Owner: "plan"})
	}
	return s.step(all...)
}

func (s *scene) step(all ...Applied) Decision {
	step, err := NewStep(all)
	if err != nil {
		panic(err)
	}
	step.Reset = s.reset
	d, err := s.Take(step, time.UnixMicro(base+s.now))
	if err != nil {
		panic(err)
	}
	s.last = d
	return d
}

// passed returns how many of n calls of cost 1 pass, a gap apart.
func (s *scene) passed(n int, gap time.Duration, limits ...Limit) (passed int) {
	for range n {
		if s.call(1, limits...).Allowed {
			passed++
		}
		s.wait(gap)
	}
	return passed
}

func (s *scene) wait(d time.Duration) { s.now += d.Microseconds() }

// refund gives back everything that a call took, and returns how much of it.
func (s *scene) refund(d Decision) (given int64) {
	return s.settle(d, -d.Taken[0].Cost)
}

func (s *scene) settle(d Decision, by int64) (given int64) {
	settlement := d.Settle()
	for i := range settlement.Changes {
		settlement.Changes[i].By = by
	}
	settlement.Reset = s.reset
	for _, g := range s.Settle(settlement, time.UnixMicro(base+s.now)) {
		given += g
	}
	return given
}

// The holes that two reviewers found in designs of the one log, each in numbers. The
// number before a name is that of the review: a of the first reviewer, b of the second.
func TestHoles(t *testing.T) {
	const hour = time.Hour
	tenASecond := exactly(10, time.Second)
	for _, c := range []struct {
		name  string
		right any
		play  func(s *scene) any
	}{
		{"a1 a day is not forgotten after one call under another list", 0, func(s *scene) any {
			s.passed(100, time.Microsecond, exactly(100, day))
			s.call(1, tenASecond)
			s.wait(3 * time.Second)
			return s.passed(100, time.Microsecond, exactly(100, day))
		}},
		{"a2 nor while calls go on under it", 0, func(s *scene) any {
			s.passed(1000, time.Microsecond, exactly(1000, day))
			s.passed(40, 100*time.Millisecond, tenASecond)
			return s.passed(1000, time.Microsecond, exactly(1000, day))
		}},
		{"a3 a small limit beside a large one is exact", 100, func(s *scene) any {
			return s.passed(200, 50*time.Millisecond, tenASecond, exactly(1_000_000, hour))
		}},
		{"a4 a cost above the limit never passes", "false true", func(s *scene) any {
			d := s.call(10, exactly(5, hour))
			return fmt.Sprint(d.Allowed, d.Limits[0].Never)
		}},
		{"a5 what was given back does not cut off what stays", 2, func(s *scene) any {
			l := exactly(20, hour)
			for range 9 {
				s.call(2, l)
				s.wait(time.Microsecond)
			}
			for range 40 {
				if d := s.call(2, l); d.Allowed {
					s.wait(time.Microsecond)
					s.refund(d)
				}
				s.wait(10 * time.Microsecond)
			}
			return s.passed(20, time.Microsecond, l)
		}},
		{"a6 costs in turns never exceed a large limit", true, func(s *scene) any {
			var got []event
			for i := range 9000 {
				if d := s.call(int64(1+i%2), exactly(2000, hour)); d.Allowed {
					got = append(got, event{at: s.now, cost: int64(1 + i%2)})
				}
				s.wait(1200 * time.Millisecond)
			}
			sum, first := int64(0), 0
			for _, e := range got {
				for sum += e.cost; got[first].at <= e.at-hour.Microseconds(); first++ {
					sum -= got[first].cost
				}
				if sum > 2000 {
					return false
				}
			}
			return true
		}},
		{"a7 b8 totals do not wrap", true, func(s *scene) any {
			l := exactly(1_000_000_000, time.Second)
			for range 4800 {
				s.call(500_000_000, l)
				s.wait(time.Microsecond)
				if s.call(500_000_000, l); s.call(1, l).Allowed {
					return false
				}
				s.wait(time.Second)
			}
			return true
		}},
		{"a8 a fixed window is not forgotten after a call under another list", 0, func(s *scene) any {
			l := kindOf(FixedWindow, 100, day)
			s.passed(100, time.Microsecond, l)
			s.call(1, kindOf(Counter, 10, time.Second))
			s.wait(3 * time.Second)
			return s.passed(100, time.Microsecond, l)
		}},
		{"a9 a denied attempt waits for itself", 10 * time.Second, func(s *scene) any {
			l := exactly(1, 10*time.Second)
			l.CountDenied = true
			s.call(1, l)
			s.wait(5 * time.Second)
			return s.call(1, l).Limits[0].RetryAfter
		}},
		{"a10 b9 a clock that steps back lengthens the wait", "1m5s true", func(s *scene) any {
			l := exactly(1, time.Minute)
			s.call(1, l)
			s.wait(-5 * time.Second)
			d := s.call(1, l)
			s.wait(d.Limits[0].RetryAfter)
			return fmt.Sprint(d.Limits[0].RetryAfter, s.call(1, l).Allowed)
		}},
		{"a11 a call before a reset takes nothing from one after it", 5, func(s *scene) any {
			l := exactly(10, hour)
			var before []Decision
			for range 5 {
				before = append(before, s.call(1, l))
				s.wait(time.Microsecond)
			}
			s.reset = base + s.now
			s.wait(time.Second)
			s.passed(5, time.Microsecond, l)
			for _, d := range before {
				s.refund(d)
			}
			return s.passed(20, time.Microsecond, l)
		}},
		{"a12 a shadow limit that was exceeded gives nothing back", int64(1), func(s *scene) any {
			shadow := exactly(1, hour)
			shadow.Shadow = true
			s.call(1, shadow)
			d := s.call(1, shadow)
			return int64(len(d.Taken))
		}},
		{"a13 what is charged after the log ended is owed for a window", "false 1h0m0s", func(s *scene) any {
			l := exactly(5, hour)
			d := s.call(1, l)
			s.wait(10 * hour)
			s.settle(d, 5)
			d = s.call(1, l)
			return fmt.Sprint(d.Allowed, d.Limits[0].RetryAfter)
		}},
		{"a14 a new, longer limit waits for the end of the log at most", "1.999s true", func(s *scene) any {
			s.passed(2, 0, exactly(2, time.Second))
			s.wait(time.Millisecond)
			d := s.call(1, exactly(2, day))
			s.wait(d.Limits[0].RetryAfter)
			return fmt.Sprint(d.Limits[0].RetryAfter, s.call(1, exactly(2, day)).Allowed)
		}},
		{"a15 an edited token bucket keeps its count", 90, func(s *scene) any {
			s.passed(10, 0, kindOf(TokenBucket, 10, time.Minute))
			return s.passed(200, 0, kindOf(TokenBucket, 100, time.Minute))
		}},
		{"a16 two calls of one instant are one entry", int64(7), func(s *scene) any {
			s.call(1, exactly(200, hour))
			return s.refund(s.call(7, exactly(200, hour)))
		}},
		{"a17 a call that is given back does not move an earlier one", 2000, func(s *scene) any {
			l := exactly(2000, hour)
			s.call(1, l)
			s.wait(hour / 2)
			d := s.call(1, l)
			s.wait(time.Millisecond)
			s.refund(d)
			s.wait(hour/2 + time.Second)
			return s.passed(2100, time.Microsecond, l)
		}},
		{"a19 units are counts of their own", "true true", func(s *scene) any {
			one := s.step(Applied{Limit: exactly(1, hour), Count: "calls", Cost: 1})
			nine := s.step(Applied{Limit: exactly(9, hour), Count: "tokens", Cost: 9})
			return fmt.Sprint(one.Allowed, nine.Allowed)
		}},
		{"b1 an idle log lives as long as what it named", 0, func(s *scene) any {
			s.passed(10, time.Microsecond, exactly(10, day))
			s.call(1, tenASecond)
			s.wait(2 * time.Second)
			return s.passed(10, time.Microsecond, exactly(10, day))
		}},
		{"b2 a log that is born again knows nothing of calls before", 0, func(s *scene) any {
			d := s.call(10, tenASecond)
			s.wait(10 * time.Second)
			s.passed(10, 0, tenASecond)
			s.refund(d)
			return s.passed(10, 0, tenASecond)
		}},
		{"b3 a reset that is ahead of the clock limits at once", 10, func(s *scene) any {
			s.call(1, exactly(10, hour))
			s.reset = base + s.now + 2_000_000
			return s.passed(1000, time.Millisecond, exactly(10, hour))
		}},
		{"b4 a call is settled once", 6, func(s *scene) any {
			s.call(4, exactly(10, time.Minute))
			s.wait(time.Microsecond)
			step, _ := NewStep([]Applied{{Limit: exactly(10, time.Minute), Count: "calls", Cost: 6}})
			step.Record, step.RecordFor = "record", time.Minute
			d, _ := s.Take(step, time.UnixMicro(base+s.now))
			settlement := d.Settle()
			settlement.Record = "record"
			for range 2 {
				s.Settle(settlement, time.UnixMicro(base+s.now))
			}
			return s.passed(12, 0, exactly(10, time.Minute))
		}},
		{"b5 the older of two windows that were named is dropped, not the younger", 0, func(s *scene) any {
			s.passed(1, 0, exactly(30, 64*time.Minute))
			for range 100 {
				s.wait(time.Minute)
				s.call(1, exactly(40, 20*time.Minute))
			}
			s.passed(40, time.Microsecond, exactly(1000, 64*time.Minute))
			s.wait(42 * time.Minute)
			return s.passed(30, 0, exactly(30, 64*time.Minute))
		}},
		{"b6 the end of a log goes by its newest entry", 0, func(s *scene) any {
			s.passed(9, time.Microsecond, exactly(10, time.Minute))
			s.wait(-30 * time.Second)
			s.call(1, exactly(10, time.Minute))
			s.wait(35 * time.Second)
			return s.passed(10, time.Microsecond, exactly(10, time.Minute))
		}},
		{"b7 a call that is longer than its window is charged", false, func(s *scene) any {
			d := s.call(1, tenASecond)
			s.wait(30 * time.Second)
			s.settle(d, 4999)
			return s.call(1, tenASecond).Allowed
		}},
		{"b10 attempts wait for themselves in a full window", 41 * time.Second, func(s *scene) any {
			l := exactly(10, time.Minute)
			l.CountDenied = true
			s.passed(20, time.Second, l)
			return s.call(1, l).Limits[0].RetryAfter.Round(time.Second) - 10*time.Second
		}},
		{"b11 slots have a bound in time: calls of a day are apart", 11 * hour, func(s *scene) any {
			l := exactly(2000, day)
			s.call(1, l)
			s.wait(12 * hour)
			s.passed(1, 0, l)
			s.wait(time.Minute)
			for range 1998 {
				s.call(1, l)
			}
			s.wait(hour - time.Minute)
			return s.call(1, l).Limits[0].RetryAfter
		}},
		{"b12 after a clock that jumped ahead and back, the window stays full", 9, func(s *scene) any {
			s.wait(hour)
			s.call(1, tenASecond)
			s.wait(-hour)
			return s.passed(100, time.Second, tenASecond)
		}},
		{"b13 no entry spans a reset", true, func(s *scene) any {
			s.call(1_000_000, exactly(1_000_000, hour))
			s.wait(time.Microsecond)
			s.reset = base + s.now
			s.wait(time.Microsecond)
			s.call(1, exactly(1_000_000, hour))
			return s.call(999_999, exactly(1_000_000, hour)).Allowed
		}},
		{"b15 what is outside a window is not joined to what is inside", true, func(s *scene) any {
			l := []Limit{exactly(3, time.Minute), exactly(1_000_000, 10*hour)}
			for _, at := range []int64{1, 21, 65} {
				s.now = at * second
				s.call(1, l...)
			}
			s.now = 66 * second
			return s.call(1, l...).Allowed
		}},
		{"b16 a shadow limit that is enforced has forgotten nothing", 0, func(s *scene) any {
			l := exactly(10, day)
			l.Shadow = true
			s.passed(10, time.Microsecond, l)
			l.Shadow = false
			return s.passed(10, time.Microsecond, l)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.play(&scene{Model: &Model{}}); got != c.right {
				t.Errorf("got %v, want %v", got, c.right)
			}
		})
	}
}
