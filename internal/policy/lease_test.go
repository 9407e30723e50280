package policy

import (
	"testing"
	"time"

	"tidegate/internal/limiter"
)

// A lease that ended lengthens windows until the calls that it admitted have left every
// window: reckoned from its end, however often limits are saved afterwards.
func TestShrinkingLeasesAfter(t *testing.T) {
	start := time.Date(2026, time.November, 26, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string][]struct {
		minutes       int // of the save
		window, lease time.Duration
		want          ShrinkingLease // none for the zero value
	}{
		"the window grows afterwards": {
			{0, time.Minute, 15 * time.Second, ShrinkingLease{}},
			{1, time.Minute, 0, shrinking(15*time.Second, start, 1, 2*time.Minute+15*time.Second)},
			{2, time.Minute, 0, shrinking(15*time.Second, start, 1, 2*time.Minute+15*time.Second)},
			{3, 10 * time.Minute, 0, shrinking(15*time.Second, start, 1, 11*time.Minute+15*time.Second)},
			{4, time.Hour, 0, shrinking(15*time.Second, start, 1, 61*time.Minute+15*time.Second)},
			{5, time.Minute, 0, shrinking(15*time.Second, start, 1, 61*time.Minute+15*time.Second)},
			{63, time.Minute, 0, ShrinkingLease{}},
		},
		"the lease comes back": {
			{0, 8 * time.Minute, 2 * time.Minute, ShrinkingLease{}},
			{1, 8 * time.Minute, time.Minute, shrinking(2*time.Minute, start, 1, 11*time.Minute)},
			{2, 8 * time.Minute, 2 * time.Minute, shrinking(2*time.Minute, start, 1, 11*time.Minute)},
			{3, 8 * time.Minute, 0, shrinking(2*time.Minute, start, 3, 11*time.Minute)},
		},
		"the limits leave meanwhile": {
			{0, time.Minute, 15 * time.Second, ShrinkingLease{}},
			{1, 0, 0, shrinking(15*time.Second, start, 1, 2*time.Minute+15*time.Second)},
			{2, 10 * time.Minute, 0, shrinking(15*time.Second, start, 1, 11*time.Minute+15*time.Second)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			set := &Set{}
			for _, save := range c {
				next := &Set{Global: Scope{Lease: Duration(save.lease)}}
				if save.window > 0 {
					next.Global.Limits = []limiter.Limit{{Requests: 10, Window: save.window}}
				}
				next.ShrinkingLeases = set.ShrinkingLeasesAfter(next, start.Add(
					time.Duration(save.minutes)*time.Minute))
				if got := next.ShrinkingLeases[GlobalID]; got != save.want {
					t.Errorf("after %d minutes: got %+v, want %+v", save.minutes, got, save.want)
				}
				set = next
			}
		})
	}
}

func shrinking(lease time.Duration, start time.Time, ended int, until time.Duration) ShrinkingLease {
	end := start.Add(time.Duration(ended) * time.Minute)
	return ShrinkingLease{Duration(lease), end, end.Add(until)}
}
