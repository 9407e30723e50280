package accuracy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var ten = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// Every recorded call is played in its own minute, in time order, and the seed alone
// decides where in it.
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
		t.Errorf("played %d calls, exact log %d, log %d", result.Calls, result.Exact.Admitted,
			result.Outcomes[0].Admitted)
	}
	again, _ := r.Traffic(7)
	other, _ := r.Traffic(8)
	if !slices.Equal(again.Calls, traffic.Calls) || slices.Equal(other.Calls, traffic.Calls) {
		t.Error("the seed does not decide")
	}
}

// A recording that no usage can be is refused, naming the minute.
func TestRecordingBounds(t *testing.T) {
	most := Recording{{ten, MaxCalls}}
	if _, err := most.Traffic(1); err != nil {
		t.Error(err)
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
			t.Errorf("%v, want %q", err, want)
		}
	}
}
