// Package chart draws calls over time: as SVG, as a table, and as data for the browser's
// script. The packages below dashboard import it. It reads nothing from Valkey.
package chart

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/web/templates"
)

// TimeSeries holds allowed and blocked calls over time, in equal steps from Begin.
type TimeSeries struct {
	ID, Title string
	Begin     time.Time
	Step      time.Duration
	Allowed   []int64 // nil for a chart of blocked calls only
	Blocked   []int64
	OnTrial   bool    // Blocked are calls that passed and that limits in shadow would have blocked
	Parts     []Part  // of Blocked: what blocked the calls; may be empty
	Would     []int64 // allowed calls that limits in shadow would have blocked; nil if unknown
	Marks     []TimeMark
	// SelectIn is an address of this dashboard. Selecting a range in the chart opens it
	// with the query parameters from and to, in RFC 3339. Empty turns selection off.
	SelectIn string
	Note     string // on the accuracy of the figures; may be empty
}

// Part is the blocked calls with one cause.
type Part struct {
	Name  string
	Calls []int64 // as long as Blocked
}

// TimeMark is an event, such as a change of limits.
type TimeMark struct {
	At      time.Time
	Text    string
	Address string // of the event; may be empty
}

// View draws the chart. It omits marks outside of the chart's time.
func (s TimeSeries) View() templates.TimeSeries {
	top := Headroom(s.busiest())
	v := templates.TimeSeries{
		ID: s.ID, Title: s.Title, Summary: s.summary(),
		Box: fmt.Sprintf("0 0 %d %d", max(1, len(s.Blocked)), top), Top: page.Number(top),
		Begin: page.Instant(s.Begin), End: page.Instant(s.end()),
		Layers: s.layers(), Selects: s.SelectIn != "", Note: s.Note,
	}
	data := Data{Begin: s.Begin.Unix(), Step: s.Step.Seconds(), Select: s.SelectIn}
	below := make([]int64, len(s.Blocked))
	for i := range v.Layers {
		l := &v.Layers[i]
		data.Series = append(data.Series, l.Calls)
		if l.Line {
			data.Lines++
			l.Path = Stairs(l.Calls, top)
			continue
		}
		l.Path = bars(l.Calls, below, top)
		for j, n := range l.Calls {
			below[j] += n
		}
	}
	v.Marks, data.Marks = s.marks(top)
	for i := range s.Blocked {
		row := templates.TimeSeriesRow{At: page.Instant(s.Begin.Add(s.Step * time.Duration(i)))}
		for _, l := range v.Layers {
			row.Calls = append(row.Calls, page.Number(l.Calls[i]))
		}
		v.Rows = append(v.Rows, row)
	}
	v.Data = data.Encode()
	return v
}

func (s TimeSeries) end() time.Time { return s.Begin.Add(s.Step * time.Duration(len(s.Blocked))) }

// marks returns the marks within the chart's time, for the SVG and for the script.
func (s TimeSeries) marks(top int64) (drawn []templates.TimeMark, data []Mark) {
	for _, m := range s.Marks {
		if m.At.Before(s.Begin) || !m.At.Before(s.end()) {
			continue
		}
		x := float64(m.At.Sub(s.Begin)) / float64(s.Step)
		drawn = append(drawn, templates.TimeMark{Path: fmt.Sprintf("M%.2f 0V%d", x, top),
			At: page.Instant(m.At), Text: m.Text, Address: m.Address})
		data = append(data, Mark{At: m.At.Unix(), Text: m.Text})
	}
	return drawn, data
}

// maxParts is how many causes have bars of their own.
const maxParts = 3

// layers returns the series of the chart from the axis up, and then the line of Would.
func (s TimeSeries) layers() []templates.TimeLayer {
	if s.OnTrial {
		return []templates.TimeLayer{{Class: "would", Title: "would block", Calls: s.Blocked}}
	}
	var all []templates.TimeLayer
	if s.Allowed != nil {
		all = append(all, templates.TimeLayer{Class: "allowed", Title: "allowed", Calls: s.Allowed})
	}
	all = append(all, s.blockedLayers()...)
	if Total(s.Would) > 0 {
		would := templates.TimeLayer{Class: "would", Title: "would block", Calls: s.Would, Line: true}
		all = append(all, would)
	}
	return all
}

// blockedLayers splits the blocked calls by cause, the most frequent first. Calls beyond
// maxParts causes, and those without a known cause, are one layer.
func (s TimeSeries) blockedLayers() []templates.TimeLayer {
	parts := slices.Clone(s.Parts)
	slices.SortStableFunc(parts, func(a, b Part) int { return cmp.Compare(Total(b.Calls), Total(a.Calls)) })
	rest := slices.Clone(s.Blocked)
	var all []templates.TimeLayer
	for i, p := range parts[:min(len(parts), maxParts)] {
		calls := make([]int64, len(rest))
		for j := range calls {
			calls[j] = min(p.Calls[j], rest[j]) // counts and causes lag apart
			rest[j] -= calls[j]
		}
		if Total(calls) > 0 {
			all = append(all, templates.TimeLayer{Class: "blocked by" + strconv.Itoa(i+1),
				Title: "blocked by " + p.Name, Calls: calls})
		}
	}
	switch {
	case len(all) == 0:
		return []templates.TimeLayer{{Class: "blocked", Title: "blocked", Calls: s.Blocked}}
	case Total(rest) > 0:
		all = append(all, templates.TimeLayer{Class: "blocked", Title: "blocked otherwise", Calls: rest})
	}
	return all
}

// busiest returns the number of calls in the busiest step.
func (s TimeSeries) busiest() int64 {
	highest := int64(0)
	for i, n := range s.Blocked {
		if s.Allowed != nil {
			n += s.Allowed[i]
		}
		highest = max(highest, n)
	}
	return highest
}

// summary describes the chart in a sentence.
func (s TimeSeries) summary() string {
	allowed, blocked := Total(s.Allowed), Total(s.Blocked)
	most := page.Number(s.busiest())
	switch {
	case s.Allowed == nil:
		verb := "denied"
		if s.OnTrial {
			verb = "would be denied"
		}
		return fmt.Sprintf("%s %s, at most %s in %s.", page.Number(blocked), verb, most, page.Offset(s.Step))
	case allowed+blocked == 0:
		return "No calls."
	}
	return fmt.Sprintf("%s allowed and %s blocked, at most %s calls in %s.", page.Number(allowed),
		page.Number(blocked), most, page.Offset(s.Step))
}

// Sparkline draws calls over time in the height of a line of text. blocked must be as
// long as allowed.
func Sparkline(allowed, blocked []int64) templates.Sparkline {
	s := TimeSeries{Step: time.Second, Allowed: allowed, Blocked: blocked}
	top := Headroom(s.busiest())
	calls := slices.Clone(allowed)
	for i, b := range blocked {
		calls[i] += b
	}
	return templates.Sparkline{
		Text: page.Number(Total(allowed)) + " allowed, " + page.Number(Total(blocked)) + " blocked",
		Box:  fmt.Sprintf("0 0 %d %d", max(1, len(calls)), top),
		Path: Stairs(calls, top), Blocked: bars(blocked, nil, top),
	}
}

// Total returns the sum of the values.
func Total(values []int64) int64 {
	sum := int64(0)
	for _, v := range values {
		sum += v
	}
	return sum
}

// Data is a chart for the browser's script, which draws it in place of the SVG.
type Data struct {
	Begin  int64     `json:"begin"`           // seconds of the Unix epoch
	Step   float64   `json:"step"`            // seconds between two points
	Series [][]int64 `json:"series"`          // all with the same number of points
	Lines  int       `json:"lines,omitempty"` // last series that are lines; the others are stacked bars
	Marks  []Mark    `json:"marks,omitempty"` // in time order
	// address to which a selection adds from and to; empty if nothing can be selected
	Select string `json:"select,omitempty"`
}

// Mark is a TimeMark for the script.
type Mark struct {
	At   int64  `json:"at"` // seconds of the Unix epoch
	Text string `json:"text"`
}

// Encode returns the data as JSON.
func (c Data) Encode() string {
	text, err := json.Marshal(c)
	if err != nil { // only if Step is infinite or not a number
		return ""
	}
	return string(text)
}

// Headroom returns the upper end of the value axis of a chart with the highest value
// most: about 5 % above it, at least 1.
func Headroom(most int64) int64 { return max(1, most+(most+19)/20) }

// Stairs returns the SVG path of a step line in a box of height top. Each value is one
// unit wide. Equal neighbors share a stroke.
func Stairs(values []int64, top int64) string {
	var b strings.Builder
	for i, v := range values {
		switch {
		case i == 0:
			fmt.Fprintf(&b, "M0 %d", top-v)
		case v != values[i-1]:
			fmt.Fprintf(&b, "H%dV%d", i, top-v)
		}
	}
	fmt.Fprintf(&b, "H%d", len(values))
	return b.String()
}

// bars returns the SVG path of bars in a box of height top, stacked on the bars of below.
// A nil below puts them on the axis.
func bars(values, below []int64, top int64) string {
	var b strings.Builder
	for i, v := range values {
		base := top
		if below != nil {
			base -= below[i]
		}
		if v > 0 {
			fmt.Fprintf(&b, "M%d %dv%dh.9v%dz", i, base, -v, v)
		}
	}
	return b.String()
}
