package chart

import (
	"encoding/json"
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
			{begin.Add(35 * time.Minute), "100 → 200 per minute"}, {begin.Add(time.Hour), "later"},
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
		Allowed: "M0 2100v-100h.9v100zM2 2100v-1200h.9v1200zM3 2100v-40h.9v40z",
		Blocked: "M2 900v-800h.9v800zM3 2060v-3h.9v3z",
		Selects: true, ID: "requests",
	}
	got := v
	got.Rows, got.Marks, got.Data, got.Begin, got.End = nil, nil, "", templates.Instant{}, templates.Instant{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(v.Rows) != 4 || v.Rows[2].Allowed != "1,200" || v.Rows[2].Blocked != "800" ||
		v.Rows[2].At.Machine != "2026-11-21T10:30:00Z" {
		t.Errorf("got rows %+v, want 4, the third with 1,200 allowed and 800 blocked at 10:30", v.Rows)
	}
	if len(v.Marks) != 1 || v.Marks[0].Path != "M2.33 0V2100" || v.Marks[0].Text != "100 → 200 per minute" {
		t.Errorf("got marks %+v, want only the one within the hour", v.Marks)
	}
	var data Data
	if err := json.Unmarshal([]byte(v.Data), &data); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Data{
		Kind: "bars", Begin: 1795255200, Step: 900, Series: [][]int64{{100, 0, 1200, 40}, {0, 0, 800, 3}},
		Marks: []Mark{{1795257300, "100 → 200 per minute"}}, Select: "/keys?live=2",
	}, data); diff != "" {
		t.Error(diff)
	}
}

// A series without points, or without calls, gives a valid chart.
func TestTimeSeriesWithoutCalls(t *testing.T) {
	for _, s := range []TimeSeries{
		{Step: time.Minute}, {Step: time.Minute, Allowed: make([]int64, 3), Blocked: make([]int64, 3)},
	} {
		if v := s.View(); v.Summary != "No calls." || v.Allowed+v.Blocked != "" || v.Top != "1" ||
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
