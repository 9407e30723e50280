package simulate

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"tidegate/functions/admin/dashboard/chart"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/accuracy"
	"tidegate/internal/limiter"
	"tidegate/web/templates"
)

// resultView returns the result of a simulation for the page. passed is the number of
// recorded calls that were allowed; any other text means unknown.
func resultView(r accuracy.Result, passed string) *templates.Simulation {
	limit := r.Scenario.Limit
	s := &templates.Simulation{
		Verdict: verdict(r, passed),
		Traffic: shapeNotes[r.Scenario.Traffic.Shape], Chart: resultChart(r),
	}
	for _, o := range r.Outcomes {
		row := templates.SimulationRow{
			Series:       seriesClass(o.Name),
			Algorithm:    o.Title,
			Admitted:     page.Number(o.Admitted),
			FalseAllows:  page.Number(o.FalseAllows),
			FalseDenials: page.Number(o.FalseDenials),
			Worst:        page.Number(o.Worst),
			Over:         overLimit(o.Worst, limit),
			At:           "nothing admitted",
			Level:        "kept",
		}
		if o.Worst > 0 {
			row.At = page.Offset(time.Duration(o.WorstAt-r.From) * time.Microsecond)
		}
		if o.Worst > limit {
			row.Level = "broken"
		}
		s.Rows = append(s.Rows, row)
		s.Notes = append(s.Notes, templates.AlgorithmNote{
			Title: o.Title, Text: algorithmNotes[o.Name]})
	}
	return s
}

// verdict describes how many calls an exact log admits, and how many recorded calls were
// allowed if passed is a number.
func verdict(r accuracy.Result, passed string) string {
	limit := policydoc.Rate(limiter.Limit{Requests: r.Scenario.Limit, Window: r.Scenario.Window})
	for _, l := range r.Scenario.Beside {
		limit += " and " + policydoc.Rate(limiter.Limit{Requests: l.Limit, Window: l.Window})
	}
	of := page.Number(r.Exact.Admitted) + " of " + page.Number(r.Calls) + " calls pass"
	if r.Scenario.Traffic.Shape != accuracy.Recorded {
		return limit + " would let " + of + "."
	}
	words := limit + " would have let " + of
	if n, err := strconv.ParseInt(passed, 10, 64); err == nil && n >= 0 {
		words += "; " + page.Number(n) + " passed then"
	}
	return words + "."
}

// overLimit returns how far a rolling window exceeds the limit in percent, rounded up to
// a tenth, so that only a window within the limit is shown as 0.
func overLimit(worst, limit int64) string {
	if worst <= limit {
		return "0 %"
	}
	tenths := (1000*(worst-limit) + limit - 1) / limit
	if tenths%10 == 0 {
		return "+" + page.Number(tenths/10) + " %"
	}
	return "+" + page.Number(tenths/10) + "." + strconv.FormatInt(tenths%10, 10) + " %"
}

// resultChart draws the calls admitted in the rolling window that ends at each moment: by
// the exact log, by each algorithm, and the limit.
func resultChart(r accuracy.Result) templates.Lines {
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
	if len(r.Scenario.Beside) > 0 {
		c.Caption += " The window and the limit are those of the first limit."
	}
	data := chart.Data{Kind: "lines", From: begin.Seconds(), Step: length.Seconds() / plotPoints}
	add := func(class, title string, values []int64) {
		values = values[idle:]
		c.Lines = append(c.Lines, templates.Line{Class: class, Title: title, Path: chart.Stairs(values, top)})
		data.Series = append(data.Series, values)
	}
	add("exact", r.Exact.Title, r.Exact.Series)
	for _, o := range r.Outcomes {
		add(seriesClass(o.Name), o.Title, o.Series)
	}
	add("limit", "the limit, "+page.Number(limit), slices.Repeat([]int64{limit}, plotPoints))
	c.Data = data.Encode()
	return c
}

// idlePoints returns the number of points to leave out at the beginning: those without
// calls, except for a moment before the first call.
func idlePoints(demand []int64) int {
	first := slices.IndexFunc(demand, func(calls int64) bool { return calls > 0 })
	return max(0, first-plotPoints/20)
}

// algorithmNotes explains the line of each algorithm in the chart.
var algorithmNotes = map[string]string{
	accuracy.Log: "Stores the time of every admitted call. Its line equals that of the exact log: it " +
		"rises to the limit, and a call is admitted as soon as an earlier one has left the rolling " +
		"window.",
	accuracy.LogGrouped: "A log with few slots: each slot counts several calls and has the time of " +
		"the latest. The line never exceeds the limit, and may stay below it by less than one slot. " +
		"Limits up to 64 have a slot for each call and equal the exact log.",
	accuracy.LogCountDenied: "Denied calls are stored too, so a caller that keeps calling stays " +
		"denied. Above the limit the line sinks towards zero. It rises only when the caller pauses.",
	accuracy.Counter: "Counts calls in two aligned windows. The older count is weighted by its overlap " +
		"with the rolling window, as if its calls were spread evenly. After a burst at the end of a " +
		"window this estimate is too low: up to twice the limit minus one passes.",
	accuracy.TokenBucket: "Also known as leaky bucket (as a meter) and GCRA, which make the same " +
		"decisions. A full bucket admits the whole limit at once and keeps refilling evenly, so the " +
		"first rolling window can hold twice the limit minus one. After that the rate is even.",
	accuracy.FixedWindow: "Counts from zero at every boundary. A burst just before a boundary and one " +
		"just after it both pass: twice the limit in an instant, as the first preset shows.",
}

// shapeNotes describes the simulated traffic.
var shapeNotes = map[accuracy.Shape]string{
	accuracy.Boundary: "Repeats every four windows: no calls; twice the limit in the last thousandth of " +
		"a window; twice the limit in the first thousandth of the next window, then calls at the rate " +
		"until it ends; no calls.",
	accuracy.Poisson: "Calls at independent random times.",
	accuracy.OnOff: "Calls at the rate for a third of a window, then none for 0.78 windows, so that " +
		"bursts shift across the boundaries.",
	accuracy.Greedy:   "Calls at equal intervals.",
	accuracy.Recorded: "As many calls in each minute as recorded, at random times within it.",
}

// seriesClass returns the CSS class of an algorithm's line, the same in every simulation.
func seriesClass(name string) string {
	i := slices.IndexFunc(accuracy.Algorithms(), func(c accuracy.Algorithm) bool { return c.Name == name })
	return "s" + strconv.Itoa(i+1)
}
