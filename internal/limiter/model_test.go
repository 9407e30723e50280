package limiter

import (
	"testing"
	"time"
)

// event is one line of a timeline: a call of cost 1 and its decision.
type event struct {
	second     float64
	allowed    bool
	remaining  int64
	retryAfter time.Duration
}

// at returns the time of a second of a timeline.
func at(second float64) time.Time {
	return time.Unix(1_800_000_000, 0).Add(time.Duration(second * float64(time.Second)))
}

// playModel makes the calls of a timeline with a new Model and checks the decisions.
func playModel(t *testing.T, limit Limit, timeline []event) {
	t.Helper()
	var m Model
	for _, e := range timeline {
		d, err := m.Take(at(e.second), []Limit{limit}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if d.Allowed != e.allowed || d.Limits[0].Remaining != e.remaining || d.RetryAfter() != e.retryAfter {
			t.Errorf("at %gs: got allowed %t, remaining %d, retry after %s, want %+v", e.second, d.Allowed,
				d.Limits[0].Remaining, d.RetryAfter(), e)
		}
	}
}

// In a log of 3 per minute, the call at 50 s is denied until the first call, at 10 s, has
// left the window.
func TestLogTimeline(t *testing.T) {
	playModel(t, Limit{Requests: 3, Window: time.Minute}, []event{
		{10, true, 2, 0},
		{25, true, 1, 0},
		{45, true, 0, 0},
		{50, false, 0, 20 * time.Second},
		{69.999999, false, 0, time.Microsecond},
		{70, true, 0, 0},
		{80, false, 0, 5 * time.Second},
		{85, true, 0, 0},
	})
	playModel(t, Limit{Requests: 3, Window: time.Minute}, []event{
		{10, true, 2, 0},
		{25, true, 1, 0},
		{45, true, 0, 0},
		{50, false, 0, 20 * time.Second},
		{80, true, 0, 0},
	})
}

// Around a minute's boundary, only the fixed window admits 200 calls of a limit of 100
// per minute in two seconds.
func TestBoundaryBurst(t *testing.T) {
	for _, algorithm := range Algorithms() {
		var m Model
		limits := []Limit{{Requests: 100, Window: time.Minute, Algorithm: algorithm}}
		start := at(0).Truncate(time.Minute)
		admitted := 0
		for _, burst := range []time.Duration{59 * time.Second, 61 * time.Second} {
			for range 100 {
				if d, _ := m.Take(start.Add(burst), limits, 1); d.Allowed {
					admitted++
				}
			}
		}
		// The counter admits one more, because a sixtieth of the previous window has left
		// the rolling window. The bucket admits three more, which two seconds refill.
		want := map[Algorithm]int{Log: 100, Counter: 101, TokenBucket: 103, FixedWindow: 200}[algorithm]
		if admitted != want {
			t.Errorf("%s: got %d calls admitted in two seconds, want %d", algorithm, admitted, want)
		}
	}
}

// After a quarter of the window, 80 calls in the previous window and 20 in this one have
// the weighted count 80 x 0.75 + 20 = 80.
func TestWeightedCount(t *testing.T) {
	var m Model
	limits := []Limit{{Requests: 100, Window: time.Minute, Algorithm: Counter}}
	start := at(0).Truncate(time.Minute)
	for range 80 {
		take(t, &m, start.Add(30*time.Second), limits)
	}
	for range 20 {
		take(t, &m, start.Add(70*time.Second), limits)
	}
	d := m.Peek(start.Add(75*time.Second), limits)
	if used := d.Limits[0].Used(); used != 80 {
		t.Errorf("got weighted count %d, want 80", used)
	}
}

// take makes a call that must be allowed.
func take(t *testing.T, m *Model, now time.Time, limits []Limit) {
	t.Helper()
	if d, err := m.Take(now, limits, 1); err != nil || !d.Allowed {
		t.Fatalf("Take at %s: got %+v, %v; want allowed", now, d, err)
	}
}

func TestMuldiv(t *testing.T) {
	year := MaxWindow.Microseconds()
	for _, c := range []struct{ a, b, d, quotient, remainder int64 }{
		{0, 5, 3, 0, 0},
		{7, 5, 35, 1, 0},
		{7, 5, 36, 0, 35},
		{MaxRequests, year, year, MaxRequests, 0},
		{MaxRequests, year - 1, year, MaxRequests - 1, year - MaxRequests},
	} {
		if q, r := muldiv(c.a, c.b, c.d); q != c.quotient || r != c.remainder {
			t.Errorf("muldiv(%d, %d, %d) = %d, %d, want %d, %d", c.a, c.b, c.d, q, r, c.quotient, c.remainder)
		}
	}
}
