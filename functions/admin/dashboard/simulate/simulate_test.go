package simulate

import (
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tidegate/functions/admin/dashboard/chart"
	"tidegate/internal/accuracy"
	"tidegate/internal/limiter"
)

// The address of a simulation is read back as the same simulation. Its fields have
// errors, or the scenario is within the bounds.
func TestSimulationRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := url.Values{}
		for name := range new(simulation).fields() {
			if rapid.Bool().Draw(t, "has "+name) {
				q.Set(name, rapid.OneOf(rapid.StringMatching(`[0-9., x]{0,12}`),
					rapid.String()).Draw(t, name))
			}
		}
		for _, c := range accuracy.Algorithms() {
			if rapid.Bool().Draw(t, c.Name) {
				q.Add("algorithm", c.Name)
			}
		}
		first := readSimulation(q)
		address, err := url.ParseQuery(first.values().Encode())
		if err != nil {
			t.Fatal(err)
		}
		second := readSimulation(address)
		if diff := cmp.Diff(first.values(), second.values()); diff != "" {
			t.Errorf("%v: %s", q, diff)
		}
		sc := first.scenario()
		if first.errorCount() == 0 && (sc.Validate() != nil || sc.Count() > accuracy.MaxPlayed) {
			t.Errorf("%v has no error, but its scenario is out of bounds: %v, %d calls",
				q, sc.Validate(), sc.Count())
		}
	})
}

// Every algorithm and shape of traffic has a note, and every shape a name.
func TestNotes(t *testing.T) {
	for _, c := range accuracy.Algorithms() {
		if algorithmNotes[c.Name] == "" {
			t.Errorf("%s has no note", c.Name)
		}
	}
	for _, shape := range accuracy.Shapes() {
		if shapeNotes[shape] == "" {
			t.Errorf("%s has no note", shape)
		}
	}
	for _, o := range shapeOptions() {
		if o.Text == "" {
			t.Errorf("shape %s has no name", o.Value)
		}
	}
}

func TestOverLimit(t *testing.T) {
	for _, row := range []struct {
		worst, limit int64
		want         string
	}{
		{100, 100, "0 %"},
		{3, 100, "0 %"},
		{101, 100, "+1 %"},
		{100_001, 100_000, "+0.1 %"},
		{2000, 1000, "+100 %"},
		{15, 9, "+66.7 %"},
	} {
		if got := overLimit(row.worst, row.limit); got != row.want {
			t.Errorf("%d of %d: got %q, want %q", row.worst, row.limit, got, row.want)
		}
	}
}

// The address of a key's recorded minutes is read back as the same minutes and limits,
// without those that cannot be simulated. There is none if no limit can.
func TestRecordedSimulation(t *testing.T) {
	impossible := []limiter.Limit{
		{Requests: 1000, Algorithm: limiter.FixedWindow, Calendar: limiter.Month},
		{Requests: accuracy.MaxLimit + 1, Window: time.Minute},
		{Requests: 5, Window: time.Minute, Shadow: true},
	}
	if query := Recorded(impossible, []int64{1}, 1); query != "" {
		t.Errorf("got address %s for limits that cannot be simulated", query)
	}
	limits := slices.Concat(impossible, []limiter.Limit{{Requests: 50, Window: 90 * time.Second},
		{Requests: 70, Window: time.Hour, Algorithm: limiter.Counter}})
	rapid.Check(t, func(t *rapid.T) {
		minutes := rapid.SliceOfN(rapid.Int64Range(0, 3), 1, 300).Draw(t, "minutes")
		q, err := url.ParseQuery(Recorded(limits, minutes, 0))
		if err != nil || len(q) == 0 != (chart.Total(minutes) == 0) {
			t.Fatalf("%v: got query %v, %v", minutes, q, err)
		}
		if len(q) == 0 {
			return
		}
		got := readSimulation(q)
		sc := got.scenario()
		if sc.Limit != 50 || sc.Window != 90*time.Second ||
			!slices.Equal(sc.Beside, []accuracy.Limit{{Limit: 70, Window: time.Hour}}) ||
			chart.Total(minutes) != int64(len(sc.Traffic.Calls)) {
			t.Fatalf("%v: got %+v with %d calls", minutes, got, len(sc.Traffic.Calls))
		}
		for i, m := range got.recording(time.Unix(0, 0)) {
			if m.Calls != minutes[i] {
				t.Fatalf("got minutes %v, want %v", got.minutes.Text, minutes)
			}
		}
	})
}

// A call may be as late as the longest window of the limiter.
func TestLatestCall(t *testing.T) {
	if d, ok := parseOffset("8784h"); !ok || d != limiter.MaxWindow {
		t.Errorf("got %v, %v, want %v, true", d, ok, limiter.MaxWindow)
	}
}
