package chart

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidegate/web/templates"
)

// sampleHour returns an hour in steps of 15 min, with a mark in the third step and a mark
// after the end.
func sampleHour() TimeSeries {
	begin := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	return TimeSeries{
		ID: "requests", Title: "Requests", Begin: begin, Step: 15 * time.Minute,
		Allowed: []int64{100, 0, 1200, 40}, Blocked: []int64{0, 0, 800, 3},
		Marks: []TimeMark{
			{begin.Add(35 * time.Minute), "100 → 200 per minute", "/audit?subject=x"},
			{At: begin.Add(time.Hour), Text: "later"},
		},
		SelectIn: "/keys?live=2",
	}
}

// The SVG, the table and the script's data have the same figures. Blocked calls are
// stacked on allowed ones.
func TestTimeSeries(t *testing.T) {
	v := sampleHour().View()
	want := templates.TimeSeries{
		Title: "Requests", Summary: "1,340 allowed and 803 blocked, at most 2,000 calls in 15\u00a0min.",
		Box: "0 0 4 2100", Top: "2,100",
		Layers: []templates.TimeLayer{
			{Class: "allowed", Title: "allowed", Calls: []int64{100, 0, 1200, 40},
				Path: "M0 2100v-100h.9v100zM2 2100v-1200h.9v1200zM3 2100v-40h.9v40z"},
			{Class: "blocked", Title: "blocked", Calls: []int64{0, 0, 800, 3},
				Path: "M2 900v-800h.9v800zM3 2060v-3h.9v3z"},
		},
		Selects: true, ID: "requests",
	}
	got := v
	got.Rows, got.Marks, got.Data, got.Begin, got.End = nil, nil, "", templates.Instant{}, templates.Instant{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(v.Rows) != 4 || !slices.Equal(v.Rows[2].Calls, []string{"1,200", "800"}) ||
		v.Rows[2].At.Machine != "2026-11-21T10:30:00Z" {
		t.Errorf("got rows %+v, want 4, the third with 1,200 allowed and 800 blocked at 10:30", v.Rows)
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

// Blocked calls are split by cause, the most frequent nearest to the allowed ones. Calls
// without a known cause, or of a cause beyond the third, are on top; a cause that is ahead
// of the counts adds none. The calls that would be blocked are a line.
func TestTimeSeriesParts(t *testing.T) {
	s := sampleHour()
	s.Parts = []Part{{"a", []int64{0, 0, 100, 0}}, {"b", []int64{5, 0, 500, 2}},
		{"c", []int64{0, 0, 50, 0}}, {"d", []int64{0, 0, 1, 0}}}
	s.Would = []int64{7, 0, 0, 1}
	v := s.View()
	want := []templates.TimeLayer{
		{Class: "allowed", Title: "allowed", Calls: s.Allowed},
		{Class: "blocked by1", Title: "blocked by b", Calls: []int64{0, 0, 500, 2}},
		{Class: "blocked by2", Title: "blocked by a", Calls: []int64{0, 0, 100, 0}},
		{Class: "blocked by3", Title: "blocked by c", Calls: []int64{0, 0, 50, 0}},
		{Class: "blocked", Title: "blocked otherwise", Calls: []int64{0, 0, 150, 1}},
		{Class: "would", Title: "would block", Calls: s.Would, Line: true},
	}
	var data Data
	if err := json.Unmarshal([]byte(v.Data), &data); err != nil || data.Lines != 1 || len(data.Series) != 6 {
		t.Errorf("got data with %d series, %d of them lines, and %v, want 6 and 1", len(data.Series),
			data.Lines, err)
	}
	if got := v.Layers[2].Path; got != "M2 400v-100h.9v100z" {
		t.Errorf("got path %s of a, want it on 1,200 allowed calls and 500 of b", got)
	}
	for i := range v.Layers {
		v.Layers[i].Path = ""
	}
	if diff := cmp.Diff(want, v.Layers); diff != "" {
		t.Error(diff)
	}
	s.Parts = []Part{{"b", s.Blocked}}
	if v := s.View(); len(v.Layers) != 3 || v.Layers[1].Title != "blocked by b" {
		t.Errorf("got layers %+v, want all blocked calls by b", v.Layers)
	}
}

// A series without points, or without calls, gives a valid chart.
func TestTimeSeriesWithoutCalls(t *testing.T) {
	for _, s := range []TimeSeries{
		{Step: time.Minute, Allowed: []int64{}},
		{Step: time.Minute, Allowed: make([]int64, 3), Blocked: make([]int64, 3)},
	} {
		if v := s.View(); v.Summary != "No calls." || v.Layers[0].Path+v.Layers[1].Path != "" ||
			v.Top != "1" ||
			strings.Contains(v.Box, " 0 0") {
			t.Errorf("got %+v, want an empty chart with a box", v)
		}
	}
}

func TestSparkline(t *testing.T) {
	got := Sparkline([]int64{5, 5, 0, 20}, []int64{0, 0, 0, 20})
	want := templates.Sparkline{Text: "30 allowed, 20 blocked", Box: "0 0 4 42", Path: "M0 37H2V42H3V2H4",
		Blocked: "M3 42v-20h.9v20z"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
