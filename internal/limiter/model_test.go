package limiter

import (
	"testing"
	"time"
)

// event is one line of a timeline: at second, what a call of cost 1 gets.
type event struct {
	second     float64
	allowed    bool
	remaining  int64
	retryAfter time.Duration
}

func at(second float64) time.Time {
	return time.Unix(1_800_000_000, 0).Add(time.Duration(second * float64(time.Second)))
}

func playModel(t *testing.T, limit Limit, timeline []event) {
	t.Helper()
	var m Model
	for _, e := range timeline {
		d, err := m.Take(at(e.second), []Limit{limit}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if d.Allowed != e.allowed || d.Limits[0].Remaining != e.remaining || d.RetryAfter() != e.retryAfter {
			t.Errorf("T=%gs: got allowed=%t remaining=%d retry after %s, want %+v", e.second, d.Allowed,
				d.Limits[0].Remaining, d.RetryAfter(), e)
		}
	}
}

// A log of 3 per 60 s: the call at 50 s is denied until the first one, at 10 s, has left
// the window.
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

// 100 per minute never yields 200 in the two seconds around a minute's boundary, as a
// fixed window would.
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
		// The counter lets through what has slid out of the weighted previous window by
		// then, one sixtieth of it; the bucket what two seconds refill.
		want := map[Algorithm]int{Log: 100, Counter: 101, TokenBucket: 103, FixedWindow: 200}[algorithm]
		if admitted != want {
			t.Errorf("%s admitted %d calls in two seconds, want %d", algorithm, admitted, want)
		}
	}
}

// 80 calls in the previous window and 20 in this one, a quarter into it, weigh 80 x 0.75
// + 20 = 80.
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
		t.Errorf("weighted count is %d, want 80", used)
	}
}

func take(t *testing.T, m *Model, now time.Time, limits []Limit) {
	t.Helper()
	if d, err := m.Take(now, limits, 1); err != nil || !d.Allowed {
		t.Fatalf("Take at %s: %+v, %v; want allowed", now, d, err)
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
			t.Errorf("muldiv(%d, %d, %d) = %d, %d; want %d, %d", c.a, c.b, c.d, q, r, c.quotient, c.remainder)
		}
	}
}
