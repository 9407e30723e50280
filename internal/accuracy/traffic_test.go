package accuracy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var ten = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// Every recorded call stays in its minute, in time order. Its time within the minute
// depends only on the seed.
func TestRecordingKeepsItsMinutes(t *testing.T) {
	r := Recording{{ten, 300}, {ten.Add(time.Minute), 0}, {ten.Add(5 * time.Minute), 20}}
	traffic, err := r.Traffic(7)
	if err != nil {
		t.Fatal(err)
	}
	got := map[time.Time]int64{}
	for _, c := range traffic.Calls {
		got[time.UnixMicro(c.At).UTC().Truncate(time.Minute)] += c.Cost
	}
	if diff := cmp.Diff(map[time.Time]int64{ten: 300, ten.Add(5 * time.Minute): 20}, got); diff != "" {
		t.Error(diff)
	}
	result, err := Run(Scenario{Limit: 100, Window: time.Minute, Traffic: traffic, Algorithms: []string{Log}})
	if err != nil {
		t.Fatal(err)
	}
	if result.Calls != 320 || result.Exact.Admitted != result.Outcomes[0].Admitted ||
		result.Exact.Admitted < 120 {
		t.Errorf("got %d calls, exact log %d, log %d; want 320 calls, and equal results of at least 120",
			result.Calls, result.Exact.Admitted, result.Outcomes[0].Admitted)
	}
	again, _ := r.Traffic(7)
	other, _ := r.Traffic(8)
	if !slices.Equal(again.Calls, traffic.Calls) || slices.Equal(other.Calls, traffic.Calls) {
		t.Error("got different calls with the same seed, or the same calls with another seed")
	}
}

// The error for an invalid recording names the minute. MaxCalls in one minute are valid.
func TestRecordingBounds(t *testing.T) {
	most := Recording{{ten, MaxCalls}}
	if _, err := most.Traffic(1); err != nil {
		t.Errorf("MaxCalls calls: got error %v", err)
	}
	for want, r := range map[string]Recording{
		"minutes[0] has -1":           {{ten, -1}},
		"minutes[1] has 1 calls":      {{ten, MaxCalls}, {ten.Add(time.Minute), 1}},
		"minutes[1] begins":           {{ten, 1}, {ten, 1}},
		"minutes[0] begins":           {{ten.Add(time.Second), 1}},
		"10081 minutes":               make(Recording, MaxMinutes+1),
		"1969-12-31T23:59:00Z: must ": {{time.Unix(-60, 0), 1}},
	} {
		if _, err := r.Traffic(1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %q", err, want)
		}
	}
}
