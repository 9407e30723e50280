package accuracy

import (
	"testing"
	"time"
)

func boundaryWithClock(clock time.Duration) Result {
	return mustRun(Scenario{Limit: 100, Window: time.Minute,
		Traffic: Traffic{Shape: Boundary, Rate: 1000, Windows: 8}, Clock: clock})
}

func flood(rate int64) Result {
	return mustRun(Scenario{
		Limit: 100, Window: time.Minute, Traffic: Traffic{Shape: Greedy, Rate: rate, Windows: 2},
		Algorithms: []string{ZSETScript, ZSETPipeline, ZSETAll},
	})
}

// Where the time is the member, calls of one tick are one entry: all of them pass. The
// times of our logs may be equal.
func TestEqualTimes(t *testing.T) {
	const limit = 100
	tick := Traffic{Shape: Recorded}
	for range 10 * limit {
		tick.Calls = append(tick.Calls, Call{At: 60_000_000, Cost: 1})
	}
	r := mustRun(Scenario{Limit: limit, Window: time.Minute, Traffic: tick})
	for name, want := range map[string]int64{
		Log: limit, LogGrouped: limit, LogCountDenied: limit, Counter: limit, TokenBucket: limit,
		FixedWindow: limit,
		TwoWindow:   limit, TwoWindowAll: limit, ZSETScript: limit, ZSETPipeline: 10 * limit,
		ZSETAll: 10 * limit,
	} {
		if o := r.of(t, name); o.Admitted != want {
			t.Errorf("%s admitted %d of %d calls in one tick, want %d", name, o.Admitted, 10*limit, want)
		}
	}
}

// On a clock of milliseconds the boundary attack gets past the logs whose members are
// times, even further than past a counter.
func TestCoarseClock(t *testing.T) {
	fine, coarse := boundaryWithClock(0), boundaryWithClock(time.Millisecond)
	for _, name := range []string{ZSETPipeline, ZSETAll} {
		if worst := fine.of(t, name).Worst; worst > 100 {
			t.Errorf("%s admitted %d in a rolling window by a clock of microseconds", name, worst)
		}
		if worst := coarse.of(t, name).Worst; worst <= 200 {
			t.Errorf("%s admitted %d in a rolling window by a clock of milliseconds, want more than twice "+
				"the limit", name, worst)
		}
	}
	for _, clock := range coarseClocks {
		r := boundaryWithClock(clock)
		for _, name := range []string{Log, LogGrouped, LogCountDenied} {
			if worst := r.of(t, name).Worst; worst > 100 {
				t.Errorf("%s admitted %d in a rolling window by a clock of %s", name, worst, clock)
			}
		}
	}
}

// A log that stores denied calls grows with the flood, not with the limit, and lets the
// caller in only once.
func TestDeniedFlood(t *testing.T) {
	r := flood(100_000)
	for name, want := range map[string]int64{ZSETScript: 100, ZSETPipeline: 100_000, ZSETAll: 100_000} {
		if o := r.of(t, name); o.Stored != want {
			t.Errorf("%s stored %d entries at most, want %d", name, o.Stored, want)
		}
	}
	for _, name := range []string{ZSETPipeline, ZSETAll} {
		if o := r.of(t, name); o.Admitted != 100 || r.Exact.Admitted != 200 {
			t.Errorf("%s admitted %d in two windows of flood, the exact log %d; want 100 and 200", name,
				o.Admitted, r.Exact.Admitted)
		}
	}
}
