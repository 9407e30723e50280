package answer

import (
	"testing"
	"time"

	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/limits"
	"tidegate/internal/testing/registrytest"
)

// state returns the state of a limit in words, of which nothing is used.
func state(text string) enforce.LimitState {
	l := registrytest.Limits(text)[0]
	return enforce.LimitState{Applied: limits.Applied{Limit: l, Cost: 1}, Remaining: l.Requests}
}

// full returns the state of a limit that frees a call after a time.
func full(text string, after time.Duration) enforce.LimitState {
	l := state(text)
	l.Remaining, l.RetryAfter, l.Next = 0, after, after
	return l
}

// Retry-After of a limit that callers share is never early, at most half a window and a
// minute late, and varies. That of a caller's own limit is exact.
func TestSpread(t *testing.T) {
	for marks, own := range map[string]bool{", each caller": true, ", on search": true,
		", on messages, each caller and {channel}": true, ", on search, each caller and pattern": true,
		", each group": false, ", each address": false, ", together": false,
		", on messages, each {channel}": false} {
		for window, late := range map[string]int64{"10 seconds": 5, "hour": 60} {
			seen := map[int64]bool{}
			text := "10 per " + window + marks
			for range 500 {
				a := To(enforce.Result{Limits: []enforce.LimitState{full(text, 3*time.Second)}})
				seen[a.Denial.RetryAfter] = true
				if got := a.Denial.RetryAfter; got < 3 || got > 3+late || own && got != 3 {
					t.Fatalf("%s: got Retry-After %d, want 3 to %d", text, got, 3+late)
				}
			}
			if !own && len(seen) < 3 {
				t.Errorf("%s: got %v, want a spread", text, seen)
			}
		}
	}
}

// 200 obedient callers of a limit of 10 per 10 seconds pass with fewer than half of the
// calls, and far fewer at once, than if all were told the same instant.
func TestSpreadOfManyCallers(t *testing.T) {
	play := func(text string) (calls, most int) {
		var model limiter.Model
		l := registrytest.Limits(text)[0]
		step, err := limiter.NewStep([]limiter.Applied{{Limit: l.Step(), Count: "all", Cost: 1}})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Unix(1_800_000_000, 0)
		next := make([]int64, 200) // second of each caller's next call; -1 once it has passed
		for second, open := int64(0), len(next); open > 0; second++ {
			now := 0
			for i, at := range next {
				if at != second {
					continue
				}
				now++
				since := time.Duration(second)*time.Second + time.Duration(i)*time.Millisecond
				d, err := model.Take(step, start.Add(since))
				if err != nil {
					t.Fatal(err)
				}
				if next[i] = -1; d.Allowed {
					open--
					continue
				}
				denied := enforce.Result{Limits: []enforce.LimitState{full(text, d.RetryAfter())}}
				next[i] = second + To(denied).Denial.RetryAfter
			}
			calls += now
			if second > 0 {
				most = max(most, now)
			}
		}
		return calls, most
	}
	together, peak := play("10 per 10 seconds, counter")
	calls, most := play("10 per 10 seconds, together, counter")
	t.Logf("without a spread %d calls, at most %d in a second; with it %d and %d", together, peak, calls,
		most)
	if calls > together/2 || most > peak*2/3 {
		t.Errorf("got %d calls and at most %d in a second, want half of %d and two thirds of %d", calls, most,
			together, peak)
	}
}
