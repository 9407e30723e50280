package chart

import (
	"fmt"
	"slices"
	"time"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/web/templates"
)

// TimeSeries counts allowed and blocked calls over time, in equal steps from Begin.
type TimeSeries struct {
	ID, Title string
	Begin     time.Time
	Step      time.Duration
	Allowed   []int64
	Blocked   []int64 // as long as Allowed
	Marks     []TimeMark
	// SelectIn is an address of this dashboard. Selecting a range in the chart opens it
	// with the query parameters from and to, in RFC 3339. Empty turns selection off.
	SelectIn string
	Note     string // what else to know about the figures
}

// TimeMark is an event at an instant, such as a change of limits.
type TimeMark struct {
	At   time.Time
	Text string
}

// View draws the chart. Marks outside of it are left out.
func (s TimeSeries) View() templates.TimeSeries {
	top := Headroom(s.most())
	end := s.Begin.Add(s.Step * time.Duration(len(s.Allowed)))
	v := templates.TimeSeries{
		ID: s.ID, Title: s.Title, Summary: s.words(),
		Box: fmt.Sprintf("0 0 %d %d", max(1, len(s.Allowed)), top), Top: page.Number(top),
		Begin: page.Instant(s.Begin), End: page.Instant(end),
		Allowed: bars(s.Allowed, nil, top), Blocked: bars(s.Blocked, s.Allowed, top),
		Selects: s.SelectIn != "", Note: s.Note,
	}
	data := Data{
		Kind: "bars", Begin: s.Begin.Unix(), Step: s.Step.Seconds(), Series: [][]int64{s.Allowed, s.Blocked},
		Select: s.SelectIn,
	}
	for _, m := range s.Marks {
		if m.At.Before(s.Begin) || !m.At.Before(end) {
			continue
		}
		x := float64(m.At.Sub(s.Begin)) / float64(s.Step)
		v.Marks = append(v.Marks, templates.TimeMark{
			Path: fmt.Sprintf("M%.2f 0V%d", x, top), At: page.Instant(m.At), Text: m.Text,
		})
		data.Marks = append(data.Marks, Mark{At: m.At.Unix(), Text: m.Text})
	}
	for i := range s.Allowed {
		at := page.Instant(s.Begin.Add(s.Step * time.Duration(i)))
		v.Rows = append(v.Rows, templates.TimeSeriesRow{
			At: at, Allowed: page.Number(s.Allowed[i]), Blocked: page.Number(s.Blocked[i]),
		})
	}
	v.Data = data.Encode()
	return v
}

func (s TimeSeries) most() int64 {
	most := int64(0)
	for i := range s.Allowed {
		most = max(most, s.Allowed[i]+s.Blocked[i])
	}
	return most
}

// words describes the chart in a sentence.
func (s TimeSeries) words() string {
	allowed, blocked := Total(s.Allowed), Total(s.Blocked)
	if allowed+blocked == 0 {
		return "No calls."
	}
	return fmt.Sprintf(
		"%s allowed and %s blocked, at most %s calls in %s.", page.Number(allowed), page.Number(blocked),
		page.Number(s.most()), page.Offset(s.Step),
	)
}

// Total returns the sum of the values.
func Total(values []int64) int64 {
	sum := int64(0)
	for _, v := range values {
		sum += v
	}
	return sum
}

// Sparkline returns a chart of calls over time in the height of a line of text. blocked
// is as long as allowed.
func Sparkline(allowed, blocked []int64) templates.Sparkline {
	s := TimeSeries{Step: time.Second, Allowed: allowed, Blocked: blocked}
	top := Headroom(s.most())
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
