package dashboard

import (
	"fmt"
	"slices"
	"time"

	"tidegate/web/templates"
)

// timeSeries is allowed and blocked calls over time, in equal steps from begin.
type timeSeries struct {
	id, title string
	begin     time.Time
	step      time.Duration
	allowed   []int64
	blocked   []int64 // as many as allowed
	marks     []timeMark
	// selectIn is an address of this dashboard. Dragging over the chart goes there with
	// from and to, in RFC 3339, set in its query. Empty for none.
	selectIn string
}

// timeMark is what happened at an instant, such as a change of limits.
type timeMark struct {
	at   time.Time
	text string
}

// view draws the chart. Marks outside of it are left out.
func (s timeSeries) view() templates.TimeSeries {
	top := headroom(s.most())
	end := s.begin.Add(s.step * time.Duration(len(s.allowed)))
	v := templates.TimeSeries{
		ID: s.id, Title: s.title, Summary: s.words(),
		Box: fmt.Sprintf("0 0 %d %d", max(1, len(s.allowed)), top), Top: number(top),
		Begin: instant(s.begin), End: instant(end),
		Allowed: bars(s.allowed, nil, top), Blocked: bars(s.blocked, s.allowed, top),
		Selects: s.selectIn != "",
	}
	data := chartData{Kind: "bars", Begin: s.begin.Unix(), Step: s.step.Seconds(), Series: [][]int64{s.allowed, s.blocked}, Select: s.selectIn}
	for _, m := range s.marks {
		if m.at.Before(s.begin) || !m.at.Before(end) {
			continue
		}
		x := float64(m.at.Sub(s.begin)) / float64(s.step)
		v.Marks = append(v.Marks, templates.TimeMark{Path: fmt.Sprintf("M%.2f 0V%d", x, top), At: instant(m.at), Text: m.text})
		data.Marks = append(data.Marks, chartMark{At: m.at.Unix(), Text: m.text})
	}
	for i := range s.allowed {
		at := instant(s.begin.Add(s.step * time.Duration(i)))
		v.Rows = append(v.Rows, templates.TimeSeriesRow{At: at, Allowed: number(s.allowed[i]), Blocked: number(s.blocked[i])})
	}
	v.Data = data.encode()
	return v
}

func (s timeSeries) most() int64 {
	most := int64(0)
	for i := range s.allowed {
		most = max(most, s.allowed[i]+s.blocked[i])
	}
	return most
}

// words says the chart in a sentence.
func (s timeSeries) words() string {
	allowed, blocked := total(s.allowed), total(s.blocked)
	if allowed+blocked == 0 {
		return "No calls."
	}
	return fmt.Sprintf("%s allowed and %s blocked, at most %s calls in %s.", number(allowed), number(blocked), number(s.most()), offset(s.step))
}

func total(values []int64) int64 {
	sum := int64(0)
	for _, v := range values {
		sum += v
	}
	return sum
}

// sparkline draws a row's calls over time in the size of a word. blocked is as long as
// allowed.
func sparkline(allowed, blocked []int64) templates.Sparkline {
	s := timeSeries{step: time.Second, allowed: allowed, blocked: blocked}
	top := headroom(s.most())
	calls := slices.Clone(allowed)
	for i, b := range blocked {
		calls[i] += b
	}
	return templates.Sparkline{
		Text: number(total(allowed)) + " allowed, " + number(total(blocked)) + " blocked",
		Box:  fmt.Sprintf("0 0 %d %d", max(1, len(calls)), top),
		Path: stairs(calls, top), Blocked: bars(blocked, nil, top),
	}
}
