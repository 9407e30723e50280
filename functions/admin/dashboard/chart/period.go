package chart

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/list"
	"tidegate/internal/records"
	"tidegate/web/templates"
)

// Period is the time that a page shows: a named range that ends now, or a custom range.
type Period struct {
	From, To time.Time
	Step     time.Duration // of a bar
	Name     string        // of the named range; empty for a custom range
	Problem  string        // error of the custom range; empty if it is valid
}

var ranges = []struct {
	name, text string
	span, step time.Duration
}{
	{"5m", "last 5 minutes", 5 * time.Minute, time.Minute},
	{"1h", "last hour", time.Hour, time.Minute},
	{"24h", "last 24 hours", 24 * time.Hour, 15 * time.Minute},
	{"7d", "last 7 days", 7 * 24 * time.Hour, time.Hour},
	{"30d", "last 30 days", records.HoursKept, 6 * time.Hour},
}

// defaultRange is the index of the range of a page whose address names none.
const defaultRange = 1

const (
	maxBars  = 200
	fineSpan = 26 * time.Hour // the longest period that is read by the minute
	maxAhead = time.Hour      // a custom range ends at most this long after now
)

// ReadPeriod reads the period of a page's view: its range, or its from and to. If from
// and to are invalid, it returns the range, and Problem says why.
func ReadPeriod(view url.Values, now time.Time) Period {
	problem := ""
	if view.Has("from") || view.Has("to") {
		p := readCustom(view, now)
		if p.Problem == "" {
			return p
		}
		problem = p.Problem
	}
	if from, to, ok := list.Day(view.Get("range"), now); ok {
		p := Period{From: from, To: to, Name: view.Get("range"), Problem: problem}
		p.Step = stepOf(p, now)
		p.To = later(p.To, from.Add(p.Step))
		return p
	}
	chosen := ranges[defaultRange]
	for _, r := range ranges {
		if r.name == view.Get("range") {
			chosen = r
		}
	}
	last := records.Last(chosen.span, chosen.step, now)
	return Period{From: last.From, To: last.To, Step: chosen.step, Name: chosen.name, Problem: problem}
}

// readCustom reads from and to. Problem is set if they are invalid.
func readCustom(view url.Values, now time.Time) Period {
	from, fromErr := list.ParseInstant(view.Get("from"))
	to, toErr := list.ParseInstant(view.Get("to"))
	p := Period{From: from, To: to}
	if latest := now.Add(maxAhead); to.After(latest) {
		p.To = latest
	}
	switch {
	case fromErr != nil:
		p.Problem = "From needs a date and a time."
	case toErr != nil:
		p.Problem = "To needs a date and a time."
	case !from.Before(to):
		p.Problem = "From must be before To."
	case now.Sub(from) >= records.HoursKept+time.Hour:
		p.Problem = "From must be within the last 30 days."
	case from.After(now):
		p.Problem = "From must be in the past."
	default:
		p.Step = stepOf(p, now)
		p.To = later(p.To, p.From.Add(p.Step))
	}
	return p
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// stepOf returns the shortest step for which counts of the whole period are kept and
// which needs at most maxBars bars; 6 h if there is none.
func stepOf(p Period, now time.Time) time.Duration {
	span := p.To.Sub(p.From)
	byMinute := span <= fineSpan && now.Sub(p.From) < records.MinutesKept
	for _, step := range []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour} {
		if (byMinute || step == time.Hour) && span/step <= maxBars {
			return step
		}
	}
	return 6 * time.Hour
}

// Recorded returns the range of the records that the period shows.
func (p Period) Recorded() records.Range { return records.Range{From: p.From, To: p.To, Step: p.Step} }

// Values returns the query parameters of the period.
func (p Period) Values() url.Values {
	if p.Name != "" {
		return url.Values{"range": {p.Name}}
	}
	return url.Values{"from": {p.From.UTC().Format(time.RFC3339)}, "to": {p.To.UTC().Format(time.RFC3339)}}
}

// inputTime is the layout of a time in a form's field, in UTC.
const inputTime = "2006-01-02T15:04:05"

// Range returns the control that chooses the period of the page at path. seconds is the
// time between the page's refreshes.
func (p Period) Range(path string, seconds int) templates.Range {
	r := templates.Range{
		Action: path, Hidden: []templates.Hidden{{Name: "live", Value: strconv.Itoa(seconds)}},
		Text: "Own range", Problem: p.Problem,
		From: p.From.UTC().Format(inputTime), To: p.To.UTC().Format(inputTime),
	}
	var names []string
	for _, choice := range ranges {
		names = append(names, choice.name)
	}
	for _, name := range append(names, list.Today, list.Yesterday) {
		at := Period{Name: name}
		c := templates.Choice{Text: at.title(), Current: name == p.Name,
			Address: page.Address(path, page.WithLive(at.Values(), seconds))}
		if c.Current {
			r.Text = c.Text
		}
		r.Choices = append(r.Choices, c)
	}
	return r
}

// title names the period in a menu.
func (p Period) title() string {
	words := p.Words()
	return strings.ToUpper(words[:1]) + words[1:]
}

// In says when, in a sentence: "in the last hour", "today, UTC".
func (p Period) In() string {
	words := p.Words()
	switch {
	case strings.HasPrefix(words, "last "):
		return "in the " + words
	case p.Name == "":
		return "in this range"
	}
	return words
}

// Each says in a heading how long a bar is: "a minute".
func (p Period) Each() string {
	if p.Step == time.Minute {
		return "a minute"
	}
	if p.Step == time.Hour {
		return "an hour"
	}
	return "in " + page.Span(p.Step)
}

// Words names the period in a sentence: "last hour".
func (p Period) Words() string {
	for _, r := range ranges {
		if r.name == p.Name {
			return r.text
		}
	}
	if p.Name != "" {
		return p.Name + ", UTC"
	}
	return "custom range"
}
