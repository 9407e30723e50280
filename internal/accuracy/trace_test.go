package accuracy

import (
	"testing"
	"time"

	"tidegate/internal/limiter"
)

// Two calls per ten seconds: each algorithm's own timeline of when a call passes, what is
// left and when to come again.
func TestTraceTimeline(t *testing.T) {
	at := []time.Duration{0, 9 * time.Second, 9 * time.Second, 10 * time.Second, 11 * time.Second}
	type row struct {
		allowed   bool
		remaining int64
		retry     time.Duration
	}
	for algorithm, want := range map[limiter.Algorithm][]row{
		limiter.Log: {{true, 1, 0}, {true, 0, 0}, {false, 0, time.Second}, {true, 0, 0},
			{false, 0, 8 * time.Second}},
		limiter.FixedWindow: {{true, 1, 0}, {true, 0, 0}, {false, 0, time.Second}, {true, 1, 0},
			{true, 0, 0}},
		limiter.TokenBucket: {{true, 1, 0}, {true, 1, 0}, {true, 0, 0}, {false, 0, 4 * time.Second},
			{false, 0, 3 * time.Second}},
	} {
		decisions, err := Trace(limiter.Limit{Requests: 2, Window: 10 * time.Second,
			Algorithm: algorithm}, at)
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range decisions {
			if got := (row{d.Allowed, d.Limits[0].Remaining, d.RetryAfter()}); got != want[i] {
				t.Errorf("%s, call at %s: %+v, want %+v", algorithm, at[i], got, want[i])
			}
		}
	}
}

func TestTraceBounds(t *testing.T) {
	limit := limiter.Limit{Requests: 1, Window: time.Second}
	for name, at := range map[string][]time.Duration{
		"backwards": {2, 1}, "before the start": {-1}, "too many": make([]time.Duration, MaxCalls+1),
	} {
		if _, err := Trace(limit, at); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := Trace(limiter.Limit{}, nil); err == nil {
		t.Error("no limit is accepted")
	}
}
