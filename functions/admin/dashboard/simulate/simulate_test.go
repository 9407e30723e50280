package simulate

import (
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tidegate/functions/admin/dashboard/chart"
	"tidegate/internal/accuracy"
	"tidegate/internal/limiter"
)

// Any address comes back as it went: what is read of it writes the same.
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
		again, err := url.ParseQuery(first.values().Encode())
		if err != nil {
			t.Fatal(err)
		}
		second := readSimulation(again)
		if diff := cmp.Diff(first.values(), second.values()); diff != "" {
			t.Errorf("%v: %s", q, diff)
		}
		// Whatever it is, it is refused field by field or within the bounds of the lab.
		sc := first.scenario()
		if first.errorCount() == 0 && (sc.Validate() != nil || sc.Count() > maxSimulated) {
			t.Errorf("%v is played: %v, %d calls", q, sc.Validate(), sc.Count())
		}
	})
}

// Every algorithm, traffic and line that can be chosen is explained.
func TestEverythingIsExplained(t *testing.T) {
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
			t.Errorf("%d of %d: %q, want %q", row.worst, row.limit, got, row.want)
		}
	}
}

// A key's recorded minutes can be played to its limit, by an address that the page reads
// as it was meant.
func TestRecordedSimulation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		minutes := rapid.SliceOfN(rapid.Int64Range(0, 3), 1, 300).Draw(t, "minutes")
		s, ok := recordedSimulation(limiter.Limit{Requests: 50, Window: 90 * time.Second}, minutes)
		again := readSimulation(s.values())
		sc := again.scenario()
		if !ok || sc.Limit != 50 || sc.Window != 90*time.Second ||
			chart.Total(minutes) != int64(len(sc.Traffic.Calls)) {
			t.Fatalf("%v: %+v, %d calls", minutes, again, len(sc.Traffic.Calls))
		}
		for i, m := range again.recording(time.Unix(0, 0)) {
			if m.Calls != minutes[i] {
				t.Fatalf("%v came back as %v", minutes, again.minutes.Text)
			}
		}
	})
	for _, l := range []limiter.Limit{
		{Requests: 1000, Algorithm: limiter.FixedWindow, Calendar: limiter.Month},
		{Requests: accuracy.MaxLimit + 1, Window: time.Minute},
	} {
		if _, ok := recordedSimulation(l, nil); ok {
			t.Errorf("%v is played", l)
		}
	}
}

// The longest window and the most calls of a rule are the limiter's own.
func TestCallsBounds(t *testing.T) {
	if d, ok := parseOffset("8784h"); !ok || d != limiter.MaxWindow {
		t.Errorf("%v, %v", d, ok)
	}
}

// Every rule that can be played is offered.
func TestRulesAreOffered(t *testing.T) {
	if len(ruleOptions()) != len(rules) {
		t.Errorf("%d rules are offered, %d are known", len(ruleOptions()), len(rules))
	}
}
