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
	"tidegate/internal/cause"
	"tidegate/internal/records"
	"tidegate/web/templates"
)

// TimeSeries draws what was recorded of calls over time.
type TimeSeries struct {
	ID, Title string
	records.Series

	Admitted bool // whether it draws the allowed calls too
	Marks    []TimeMark
	// SelectIn is an address of this dashboard. Selecting a range in the chart opens it
	// with the query parameters from and to, in RFC 3339. Empty turns selection off.
	SelectIn string
}

// TimeMark is an event, such as a change of limits.
type TimeMark struct {
	At      time.Time
	Text    string
	Address string // of the event; may be empty
}

// View draws the chart. It omits marks outside of the chart's time.
func (s TimeSeries) View() templates.TimeSeries {
	layers := s.layers()
	top := Headroom(busiest(layers))
	v := templates.TimeSeries{
		ID: s.ID, Title: s.Title, Summary: s.summary(busiest(layers)),
		Box: fmt.Sprintf("0 0 %d %d", max(1, len(s.Points)), top), Top: page.Number(top),
		Begin: page.Instant(s.From), End: page.Instant(s.end()), Layers: layers,
	}
	data := Data{Begin: s.From.Unix(), Step: s.step().Seconds(), Select: s.SelectIn}
	below := make([]int64, len(s.Points))
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
	for i, p := range s.Points {
		row := templates.TimeSeriesRow{At: page.Instant(p.Start)}
		for _, l := range v.Layers {
			text := page.AtLeast(l.Calls[i], p.AtLeast)
			if p.NotKept {
				text = "not kept"
			}
			row.Calls = append(row.Calls, text)
		}
		v.Rows = append(v.Rows, row)
	}
	v.Data = data.Encode()
	return v
}

// step returns the length of a bar.
func (s TimeSeries) step() time.Duration { return cmp.Or(s.Step, s.To.Sub(s.From)) }

func (s TimeSeries) end() time.Time { return s.From.Add(s.step() * time.Duration(len(s.Points))) }

// marks returns the marks within the chart's time, for the SVG and for the script.
func (s TimeSeries) marks(top int64) (drawn []templates.TimeMark, data []Mark) {
	all := append(s.gaps(), s.Marks...)
	slices.SortStableFunc(all, func(a, b TimeMark) int { return a.At.Compare(b.At) })
	for _, m := range all {
		if m.At.Before(s.From) || !m.At.Before(s.end()) {
			continue
		}
		x := float64(m.At.Sub(s.From)) / float64(s.step())
		drawn = append(drawn, templates.TimeMark{Path: fmt.Sprintf("M%.2f 0V%d", x, top),
			At: page.Instant(m.At), Text: m.Text, Address: m.Address})
		data = append(data, Mark{At: m.At.Unix(), Text: m.Text})
	}
	return drawn, data
}

// gaps returns marks where the records begin, and where calls may be missing.
func (s TimeSeries) gaps() []TimeMark {
	var all []TimeMark
	if s.Began.After(s.From) {
		all = append(all, TimeMark{At: s.Began, Text: "Records begin: earlier calls are not kept"})
	}
	for i, p := range s.Points {
		if p.AtLeast && !p.NotKept && (i == 0 || !s.Points[i-1].AtLeast) {
			all = append(all, TimeMark{At: p.Start, Text: "Outage: calls may be missing"})
		}
	}
	return all
}

// maxParts is how many limits have bars of their own.
const maxParts = 3

// layers returns the series of the chart from the axis up, and then the line of calls that
// limits in shadow would have denied.
func (s TimeSeries) layers() []templates.TimeLayer {
	var allowed, denied, refused, would []int64
	for _, p := range s.Points {
		allowed, denied = append(allowed, p.Allowed), append(denied, p.Denied)
		refused, would = append(refused, p.Refused), append(would, p.Shadow)
	}
	var all []templates.TimeLayer
	if s.Admitted {
		all = append(all, templates.TimeLayer{Class: "allowed", Title: "allowed", Calls: allowed})
	}
	all = append(all, s.deniedLayers(denied)...)
	if Total(refused) > 0 {
		all = append(all, templates.TimeLayer{Class: "refused", Title: "refused", Calls: refused})
	}
	if Total(would) > 0 {
		all = append(all,
			templates.TimeLayer{Class: "would", Title: "would be denied in shadow", Calls: would, Line: true})
	}
	return all
}

// deniedLayers splits the denied calls by limit, the most frequent first. Calls beyond
// maxParts limits, and those whose limit is not known, are one layer.
func (s TimeSeries) deniedLayers(denied []int64) []templates.TimeLayer {
	rest := slices.Clone(denied)
	var all []templates.TimeLayer
	for _, k := range s.ByKind() {
		if k.Cause != cause.Limit || k.Limit == "" || len(all) == maxParts {
			continue
		}
		calls := s.Kinds[k.Kind]
		for i := range rest {
			rest[i] -= calls[i]
		}
		all = append(all, templates.TimeLayer{Class: "denied by" + strconv.Itoa(len(all)+1),
			Title: "denied by " + k.Limit, Calls: calls})
	}
	switch {
	case len(all) == 0:
		return []templates.TimeLayer{{Class: "denied", Title: "denied", Calls: denied}}
	case Total(rest) > 0:
		all = append(all, templates.TimeLayer{Class: "denied", Title: "denied by others", Calls: rest})
	}
	return all
}

// busiest returns the height of the highest bar.
func busiest(layers []templates.TimeLayer) int64 {
	highest := int64(0)
	for i := range layers[0].Calls {
		bar := int64(0)
		for _, l := range layers {
			if l.Line {
				highest = max(highest, l.Calls[i])
			} else {
				bar += l.Calls[i]
			}
		}
		highest = max(highest, bar)
	}
	return highest
}

// summary describes the chart in a sentence.
func (s TimeSeries) summary(most int64) string {
	sum := s.Sum()
	counted := sum.Calls()
	if !s.Admitted {
		counted -= sum.Allowed
	}
	if counted == 0 {
		return "No calls."
	}
	text := page.Number(sum.Denied) + " denied and " + page.Number(sum.Refused) + " refused"
	if s.Admitted {
		text = page.Number(sum.Allowed) + " allowed, " + text
	}
	if s.Incomplete() {
		text = "at least " + text
	}
	return fmt.Sprintf("%s, up to %s calls in %s.", text, page.Number(most), page.Offset(s.step()))
}

// Sparkline draws calls over time in the height of a line of text.
func Sparkline(series records.Series) templates.Sparkline {
	allowed, denied := make([]int64, len(series.Points)), make([]int64, len(series.Points))
	top := int64(1)
	for i, p := range series.Points {
		allowed[i], denied[i] = p.Allowed, p.Denied+p.Refused
		top = max(top, p.Calls())
	}
	top = Headroom(top)
	sum := series.Sum()
	return templates.Sparkline{
		Text: page.Number(sum.Allowed) + " allowed, " + page.Number(sum.Denied) + " denied, " +
			page.Number(sum.Refused) + " refused",
		Box:  fmt.Sprintf("0 0 %d %d", max(1, len(allowed)), top),
		Path: bars(allowed, nil, top), Denied: bars(denied, allowed, top),
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
