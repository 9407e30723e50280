//go:build unix

package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"tidegate/local/bench/load/report"
)

// writeReport writes the result to a file, as an HTML page.
func (r *result) writeReport(name string) error {
	var page bytes.Buffer
	if err := r.page().Write(&page); err != nil {
		return err
	}
	return os.WriteFile(name, page.Bytes(), 0o600)
}

func (r *result) page() report.Page {
	return report.Page{
		Title: "Load: " + r.Scenario, Summary: r.about(), Verdict: r.verdict(), Good: r.good(),
		Facts: r.facts(), Latencies: []report.Latency{latencyRow(fromDue, r.Latency),
			latencyRow(fromSent, r.Service)},
		Windows: r.windows(), Plots: []report.Plot{r.callsPlot(), r.latencyPlot(), r.shapePlot(),
			r.windowsPlot()},
	}
}

func (r *result) about() string {
	return strings.ToUpper(r.About[:1]) + r.About[1:] + ". " + r.summary() + "."
}

func latencyRow(name string, q quantiles) report.Latency {
	return report.Latency{Name: name, P50: msOf(q.P50), P90: msOf(q.P90), P99: msOf(q.P99),
		P999: msOf(q.P999), Max: msOf(q.Max)}
}

func (r *result) windows() []report.Window {
	var rows []report.Window
	for _, w := range r.Proof.Windows {
		rows = append(rows, report.Window{
			Limit: w.Plan + ", " + w.Limit, Callers: thousands(w.Callers), Admitted: thousands(w.Admitted),
			Fullest:  thousands(w.Most),
			Possible: thousands(w.Possible), Most: thousands(int(w.Requests)),
			Above: thousands(w.Over + w.Early), Broken: w.Over+w.Early > 0,
		})
	}
	return rows
}

func (r *result) facts() []report.Fact {
	facts := []report.Fact{
		{Name: "When", Value: r.At.Format(time.RFC3339)}, {Name: "Machine", Value: r.Machine},
		{Name: "API", Value: map[string]string{"rest": "REST", "http": "HTTP"}[r.API]},
		{Name: "Statuses", Value: r.statuses()}, {Name: "Unexpected answers", Value: thousands(r.Unexpected)},
		{Name: "Due calls never sent", Value: thousands(int(r.Unsent))},
		{Name: "Denials although every limit had room", Value: thousands(r.Proof.Unfounded)},
	}
	if r.Store != "" {
		facts = append(facts, report.Fact{Name: "Store", Value: r.Store})
	}
	if r.Edits > 0 {
		facts = append(facts, report.Fact{Name: "Edits of limits", Value: thousands(r.Edits)})
	}
	return facts
}

// timeAxis returns the axis of the time since the start of the load.
func (r *result) timeAxis() report.Axis {
	return report.Until(float64(len(r.Series))*r.Step, func(x float64) string {
		return fmt.Sprintf("%g s", x)
	})
}

// line returns a series over time.
func (r *result) line(class, title string, figure func(step) float64) report.Line {
	l := report.Line{Class: class, Title: title}
	for i, s := range r.Series {
		l.Points = append(l.Points, report.Point{X: (float64(i) + .5) * r.Step, Y: figure(s)})
	}
	return l
}

func highest(lines []report.Line) float64 {
	most := 0.0
	for _, l := range lines {
		for _, p := range l.Points {
			most = max(most, p.Y)
		}
	}
	return most
}

func (r *result) callsPlot() report.Plot {
	var lines []report.Line
	for _, k := range []struct {
		class, title string
		kinds        []kind
	}{
		{"admitted", "admitted", []kind{admitted}}, {"denied", "denied", []kind{denied}},
		{"unauthorized", "unauthorized", []kind{unauthorized}},
		{"unexpected", "undecided, failed or no answer", []kind{undecided, failed, broken}},
	} {
		lines = append(lines, r.line(k.class, k.title, func(s step) float64 {
			n := 0
			for _, kind := range k.kinds {
				n += s.Kinds[kind.String()]
			}
			return float64(n) / r.Step
		}))
	}
	return report.Plot{
		ID: "calls", Title: "Calls a second",
		Caption: fmt.Sprintf("By answer, at the time when calls were due. Total: %s calls.",
			thousands(r.Calls)),
		X: r.timeAxis(), Y: report.Linear(highest(lines), func(y float64) string {
			return thousands(int(y))
		}), Lines: lines,
	}
}

func (r *result) latencyPlot() report.Plot {
	lines := []report.Line{
		r.line("p50", "p50", func(s step) float64 {
			return s.P50
		}), r.line("p99", "p99", func(s step) float64 { return s.P99 }),
		r.line("max", "max", func(s step) float64 { return s.Max }),
	}
	return report.Plot{
		ID: "latency-time", Title: "Latency over time",
		Caption: "From the time when calls were due, so that a stall shows in every call that it delayed.",
		X:       r.timeAxis(), Y: report.Decades(max(r.Shape[0].Service, .1), highest(lines),
			decade), Lines: lines,
	}
}

func decade(millis float64) string {
	if millis >= 1000 {
		return fmt.Sprintf("%g s", millis/1000)
	}
	return fmt.Sprintf("%g ms", millis)
}

// nines places a percentile on an axis where each further nine is equally wide.
func nines(percent float64) float64 { return -math.Log10(1 - percent/100) }

func (r *result) shapePlot() report.Plot {
	due, sent := report.Line{Class: "due", Title: fromDue}, report.Line{Class: "sent", Title: fromSent}
	axis := report.Axis{}
	for _, p := range r.Shape {
		if (1-p.Percent/100)*float64(r.Calls) < 1 {
			break // less than one call is slower
		}
		axis.Most = nines(p.Percent)
		due.Points = append(due.Points, report.Point{X: axis.Most, Y: p.Latency})
		sent.Points = append(sent.Points, report.Point{X: axis.Most, Y: p.Service})
	}
	for _, percent := range []float64{0, 90, 99, 99.9, 99.99, 99.999} {
		if nines(percent) <= axis.Most {
			axis.Marks = append(axis.Marks,
				report.Mark{At: nines(percent), Text: strconv.FormatFloat(percent, 'f', -1, 64) + "%"})
		}
	}
	lines := []report.Line{due, sent}
	return report.Plot{
		ID: "shape", Title: "Latency by percentile", X: axis,
		Y: report.Decades(max(r.Shape[0].Service, .1), highest(lines), decade), Lines: lines,
		Caption: "Where the lines differ, due calls waited to be sent. A load that waits for answers would " +
			"not show this.",
	}
}

func (r *result) windowsPlot() report.Plot {
	var lines []report.Line
	for i, w := range r.Proof.Windows {
		l := report.Line{Class: fmt.Sprintf("limit%d", i%3+1), Title: w.Plan + ", " + w.Limit}
		for rank, n := range w.Fullest {
			x := 100 * float64(rank) / float64(max(1, len(w.Fullest)-1))
			l.Points = append(l.Points, report.Point{X: x, Y: 100 * float64(n) / float64(w.Requests)})
		}
		lines = append(lines, l)
	}
	lines = append(lines, report.Line{Class: "bound", Title: "the limit",
		Points: []report.Point{{X: 0, Y: 100}, {X: 100, Y: 100}}})
	percent := func(x float64) string { return fmt.Sprintf("%g%%", x) }
	return report.Plot{
		ID: "fullest", Title: "Fullest rolling window of each caller", Lines: lines,
		X: report.Until(100, percent), Y: report.Linear(1.05*highest(lines), percent),
		Caption: "In percent of the limit; callers in descending order. No line may rise above the limit.",
	}
}
