package simulate

import (
	"strconv"
	"time"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/accuracy"
	"tidegate/internal/limiter"
	"tidegate/web/templates"
)

// simulated puts what the lab measured into words. passed is how many of the calls passed
// in fact, as text; anything but a number is unknown.
func simulated(r accuracy.Result, passed string) *templates.Simulation {
	limit := r.Scenario.Limit
	s := &templates.Simulation{
		Verdict: verdict(r, passed),
		Traffic: shapeNotes[r.Scenario.Traffic.Shape], Chart: simulationChart(r),
	}
	for _, o := range r.Outcomes {
		row := templates.SimulationRow{
			Series:       seriesOf(o.Name),
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
		s.Notes = append(s.Notes, templates.AlgorithmNote{Title: o.Title, Text: algorithmNotes[o.Name],
			Source: o.Source})
	}
	return s
}

// verdict says what the limit would do, as its exact log has it.
func verdict(r accuracy.Result, passed string) string {
	limit := policydoc.Rate(limiter.Limit{Requests: r.Scenario.Limit, Window: r.Scenario.Window})
	of := page.Number(r.Exact.Admitted) + " of " + page.Number(r.Calls) + " calls pass"
	if r.Scenario.Traffic.Shape != accuracy.Recorded {
		return limit + " would let " + of + "."
	}
	words := limit + " would have let " + of
	if n, err := strconv.ParseInt(passed, 10, 64); err == nil && n >= 0 {
		words += "; today " + page.Number(n) + " passed"
	}
	return words + "."
}

// overLimit is how far a rolling window is over the limit, rounded up so that only what
// is not shows as 0.
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
