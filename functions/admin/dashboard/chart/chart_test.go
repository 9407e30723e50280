package chart

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidegate/internal/cause"
	"tidegate/internal/records"
	"tidegate/web/templates"
)

// sampleHour returns an hour in steps of 15 min, with a mark in the third step and a mark
// after the end.
func sampleHour() TimeSeries {
	begin := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	return TimeSeries{
		ID: "requests", Title: "Requests", Admitted: true,
		Series: seriesOf(begin, []int64{100, 0, 1200, 40}, []int64{0, 0, 800, 3}),
		Marks: []TimeMark{
			{begin.Add(35 * time.Minute), "100 → 200 per minute", "/audit?subject=x"},
			{At: begin.Add(time.Hour), Text: "later"},
		},
		SelectIn: "/keys?live=2",
	}
}

func seriesOf(begin time.Time, allowed, denied []int64) records.Series {
	const step = 15 * time.Minute
	s := records.Series{Kinds: map[records.Kind][]int64{{Cause: cause.Limit}: denied},
		Range: records.Range{From: begin, To: begin.Add(step * time.Duration(len(allowed))), Step: step},
		Began: begin.Add(-time.Hour)}
	for i := range allowed {
		s.Points = append(s.Points, records.Point{Start: begin.Add(step * time.Duration(i)),
			Counts: records.Counts{Allowed: allowed[i], Denied: denied[i]}})
	}
	return s
}

// The SVG, the table and the script's data have the same figures. Denied calls are
// stacked on allowed ones.
func TestTimeSeries(t *testing.T) {
	v := sampleHour().View()
	want := templates.TimeSeries{
		Title:   "Requests",
		Summary: "1,340 allowed, 803 denied and 0 refused, up to 2,000 calls in 15\u00a0min.",
		Box:     "0 0 4 2100", Top: "2,100",
		Layers: []templates.TimeLayer{
			{Class: "allowed", Title: "allowed", Calls: []int64{100, 0, 1200, 40},
				Path: "M0 2100v-100h.9v100zM2 2100v-1200h.9v1200zM3 2100v-40h.9v40z"},
			{Class: "denied", Title: "denied", Calls: []int64{0, 0, 800, 3},
				Path: "M2 900v-800h.9v800zM3 2060v-3h.9v3z"},
		},
		ID: "requests",
	}
	got := v
	got.Rows, got.Marks, got.Data = nil, nil, ""
	got.Begin, got.End = templates.Instant{}, templates.Instant{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(v.Rows) != 4 || !slices.Equal(v.Rows[2].Calls, []string{"1,200", "800"}) ||
		v.Rows[2].At.Machine != "2026-11-21T10:30:00Z" {
		t.Errorf("got rows %+v, want 4, the third with 1,200 allowed and 800 denied at 10:30", v.Rows)
	}
	if len(v.Marks) != 1 || v.Marks[0].Path != "M2.33 0V2100" || v.Marks[0].Text != "100 → 200 per minute" ||
		v.Marks[0].Address != "/audit?subject=x" {
		t.Errorf("got marks %+v, want only the one within the hour", v.Marks)
	}
	var data Data
	if err := json.Unmarshal([]byte(v.Data), &data); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Data{
		Begin: 1795255200, Step: 900, Series: [][]int64{{100, 0, 1200, 40}, {0, 0, 800, 3}},
		Marks: []Mark{{1795257300, "100 → 200 per minute"}}, Select: "/keys?live=2",
	}, data); diff != "" {
		t.Error(diff)
	}
}

// Denied calls are split by limit, the most frequent nearest to the allowed ones; those of a
// limit beyond the third are above, and refused calls on top. The calls that limits in shadow
// would have denied are a line.
func TestTimeSeriesParts(t *testing.T) {
	s := sampleHour()
	s.Kinds = map[records.Kind][]int64{
		{Cause: cause.Limit, Limit: "a"}: {0, 0, 100, 0}, {Cause: cause.Limit, Limit: "b"}: {0, 0, 650, 2},
		{Cause: cause.Limit, Limit: "c"}: {0, 0, 49, 0}, {Cause: cause.Limit, Limit: "d"}: {0, 0, 1, 1},
	}
	s.Points[0].Shadow, s.Points[3].Shadow, s.Points[3].Refused = 7, 1, 5
	v := s.View()
	want := []templates.TimeLayer{
		{Class: "allowed", Title: "allowed", Calls: []int64{100, 0, 1200, 40}},
		{Class: "denied by1", Title: "denied by b", Calls: []int64{0, 0, 650, 2}},
		{Class: "denied by2", Title: "denied by a", Calls: []int64{0, 0, 100, 0}},
		{Class: "denied by3", Title: "denied by c", Calls: []int64{0, 0, 49, 0}},
		{Class: "denied", Title: "denied by others", Calls: []int64{0, 0, 1, 1}},
		{Class: "refused", Title: "refused", Calls: []int64{0, 0, 0, 5}},
		{Class: "would", Title: "would be denied in shadow", Calls: []int64{7, 0, 0, 1}, Line: true},
	}
	var data Data
	if err := json.Unmarshal([]byte(v.Data), &data); err != nil || data.Lines != 1 || len(data.Series) != 7 {
		t.Errorf("got data with %d series, %d of them lines, and %v, want 7 and 1", len(data.Series),
			data.Lines, err)
	}
	if got := v.Layers[2].Path; got != "M2 250v-100h.9v100z" {
		t.Errorf("got path %s of a, want it on 1,200 allowed calls and 650 of b", got)
	}
	for i := range v.Layers {
		v.Layers[i].Path = ""
	}
	if diff := cmp.Diff(want, v.Layers); diff != "" {
		t.Error(diff)
	}
}

// Points before the records say "not kept", points that may lack calls "at least", and marks
// show both.
func TestTimeSeriesGaps(t *testing.T) {
	s := sampleHour()
	s.Marks, s.Began = nil, s.From.Add(20*time.Minute)
	s.Points[0].NotKept, s.Points[2].AtLeast = true, true
	v := s.View()
	if v.Rows[0].Calls[0] != "not kept" || v.Rows[1].Calls[0] != "0" ||
		v.Rows[2].Calls[0] != "at least 1,200" ||
		!strings.HasPrefix(v.Summary, "at least 1,340 allowed") {
		t.Errorf("got rows %v and %q", v.Rows, v.Summary)
	}
	if len(v.Marks) != 2 || !strings.Contains(v.Marks[0].Text, "not kept") ||
		!strings.Contains(v.Marks[1].Text, "may be missing") {
		t.Errorf("got marks %+v, want one for each gap", v.Marks)
	}
}

// A series without points, or without calls, gives a valid chart.
func TestTimeSeriesWithoutCalls(t *testing.T) {
	for _, s := range []TimeSeries{
		{Admitted: true, Series: seriesOf(time.Now(), nil, nil)},
		{Admitted: true, Series: seriesOf(time.Now(), make([]int64, 3), make([]int64, 3))},
	} {
		if v := s.View(); v.Summary != "No calls." || v.Layers[0].Path+v.Layers[1].Path != "" ||
			v.Top != "1" || strings.Contains(v.Box, " 0 0") {
			t.Errorf("got %+v, want an empty chart with a box", v)
		}
	}
}

func TestSparkline(t *testing.T) {
	got := Sparkline(seriesOf(time.Now(), []int64{5, 5, 0, 20}, []int64{0, 0, 0, 20}))
	want := templates.Sparkline{Text: "30 allowed, 20 denied, 0 refused", Box: "0 0 4 42",
		Path: "M0 42v-5h.9v5zM1 42v-5h.9v5zM3 42v-20h.9v20z", Denied: "M3 22v-20h.9v20z"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
