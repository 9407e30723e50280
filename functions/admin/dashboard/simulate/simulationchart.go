package simulate

import (
	"fmt"
	"slices"
	"time"

	"tidegate/functions/admin/dashboard/chart"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/accuracy"
	"tidegate/internal/limiter"
	"tidegate/web/templates"
)

// simulationChart draws the fullest rolling window of each moment: the exact log's, each
// algorithm's, and the limit.
func simulationChart(r accuracy.Result) templates.Lines {
	limit, length := r.Scenario.Limit, time.Duration(r.To-r.From)*time.Microsecond
	most := limit
	for _, o := range r.Outcomes {
		most = max(most, o.Worst)
	}
	top, idle := chart.Headroom(most), idlePoints(r.Demand)
	begin := length * time.Duration(idle) / plotPoints
	c := templates.Lines{
		ID:      "admissions",
		Title:   "Calls admitted in the rolling window of " + limiter.FormatWindow(r.Scenario.Window),
		Caption: "Calls admitted in the rolling window that ends at each moment.",
		Box:     fmt.Sprintf("0 0 %d %d", plotPoints-idle, top), Top: page.Number(top),
		Begin: page.Offset(begin.Round(time.Millisecond)),
		End:   page.Offset(length.Round(time.Millisecond)),
	}
	data := chart.Data{Kind: "lines", From: begin.Seconds(), Step: length.Seconds() / plotPoints}
	add := func(class, title string, values []int64) {
		values = values[idle:]
		c.Lines = append(c.Lines, templates.Line{Class: class, Title: title, Path: chart.Stairs(values, top)})
		data.Series = append(data.Series, values)
	}
	add("exact", r.Exact.Title, r.Exact.Series)
	for _, o := range r.Outcomes {
		add(seriesOf(o.Name), o.Title, o.Series)
	}
	level := make([]int64, plotPoints)
	for i := range level {
		level[i] = limit
	}
	add("limit", "the limit, "+page.Number(limit), level)
	c.Data = data.Encode()
	return c
}

// idlePoints returns how many points at the beginning can be left out: nobody called yet,
// but for a moment before the first call.
func idlePoints(demand []int64) int {
	first := slices.IndexFunc(demand, func(calls int64) bool { return calls > 0 })
	return max(0, first-plotPoints/20)
}
