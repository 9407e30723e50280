package limiter

import (
	"math"
	"testing"
	"time"
)

// A large limit never admits too much, withholds less than a 500th, and keeps few entries.
func TestLargeLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		n      int64
		gap    time.Duration
		calls  int
		limits []Limit
	}{
		{"10,000 an hour", 10_000, 100 * time.Millisecond, 120_000,
			[]Limit{exactly(10_000, time.Hour)}},
		{"100,000 an hour", 100_000, 20 * time.Millisecond, 400_000,
			[]Limit{exactly(100_000, time.Hour)}},
		{"beside 10 a second", 20_000, 50 * time.Millisecond, 200_000,
			[]Limit{exactly(20_000, time.Hour), exactly(10, time.Second)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &scene{Model: &Model{}}
			var got []int64
			first, longest, withheld := 0, 0, int64(0)
			for range c.calls {
				for first < len(got) && got[first] <= s.now-time.Hour.Microseconds() {
					first++
				}
				used := int64(len(got) - first)
				if d := s.call(1, c.limits...); d.Allowed {
					got = append(got, s.now)
					used++
				} else if d.Limits[0].Denies() {
					withheld = max(withheld, c.n-used)
				}
				if used > c.n {
					t.Fatalf("%d calls in an hour", used)
				}
				longest = max(longest, len(s.states["calls"].(*log).times))
				s.wait(c.gap)
			}
			most := 2*1000*(2+math.Log(float64(c.n)/1000)) + least
			t.Logf("withheld %d of %d; at most %d entries", withheld, c.n, longest)
			if withheld > c.n/part {
				t.Errorf("withheld %d of %d", withheld, c.n)
			}
			if float64(longest) > most {
				t.Errorf("%d entries, at most %.0f are right", longest, most)
			}
		})
	}
}
