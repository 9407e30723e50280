package chart

import (
	"cmp"
	"net/url"
	"time"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/usage"
	"tidegate/web/templates"
)

// Period is the time that a page shows: one of the ranges, which end now, or a part of
// the past that somebody chose.
type Period struct {
	From, To time.Time
	Step     time.Duration // of a bar
	Name     string        // of the range; empty for a chosen part
	Problem  string        // why the chosen part cannot be shown; empty if it can
}

// Finest is the least step. Only the call times of a subject are as fine.
const Finest = 5 * time.Second

var ranges = []struct {
	name       string
	span, step time.Duration
}{
	{"5m", 5 * time.Minute, Finest},
	{"1h", time.Hour, time.Minute},
	{"24h", 24 * time.Hour, 15 * time.Minute},
	{"7d", 7 * 24 * time.Hour, time.Hour},
	{"30d", usage.HoursKept, 6 * time.Hour},
}

// usualRange is what a page shows that is asked for none.
const usualRange = 1

const (
	mostBars = 200
	// fineFor is how far back call times go for sure.
	fineFor = time.Hour
	// maxAhead is how far a chosen part may reach into the future: it fills while time
	// passes.
	maxAhead = time.Hour
)

// ReadPeriod reads range, or from and to, of a page's view.
func ReadPeriod(view url.Values, now time.Time) Period {
	problem := ""
	if view.Has("from") || view.Has("to") {
		p := readChosen(view, now)
		if p.Problem == "" {
			return p
		}
		problem = p.Problem
	}
	chosen := ranges[usualRange]
	for _, r := range ranges {
		if r.name == view.Get("range") {
			chosen = r
		}
	}
	return Period{From: now.Add(-chosen.span), To: now, Step: chosen.step, Name: chosen.name,
		Problem: problem}
}

func readChosen(view url.Values, now time.Time) Period {
	from, fromErr := page.ParseInstant(view.Get("from"))
	to, toErr := page.ParseInstant(view.Get("to"))
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
	case now.Sub(from) >= usage.HoursKept+time.Hour:
		p.Problem = "From must be within the last 30 days."
	case from.After(now):
		p.Problem = "From must be in the past."
	default:
		p.Step = stepOf(p, now)
		if p.To.Sub(p.From) < p.Step {
			p.To = p.From.Add(p.Step)
		}
	}
	return p
}

// stepOf is the finest step that is kept for a time and draws few enough bars.
func stepOf(p Period, now time.Time) time.Duration {
	age, span := now.Sub(p.From), p.To.Sub(p.From)
	for _, s := range []struct{ step, kept time.Duration }{
		{Finest, fineFor}, {time.Minute, usage.MinutesKept - time.Hour},
		{5 * time.Minute, usage.MinutesKept - time.Hour}, {15 * time.Minute, usage.MinutesKept - time.Hour},
		{time.Hour, usage.HoursKept + time.Hour},
	} {
		if age < s.kept && span/s.step <= mostBars {
			return s.step
		}
	}
	return 6 * time.Hour
}

// ByMinute is the step where no call times are known.
func (p Period) ByMinute() time.Duration { return max(p.Step, time.Minute) }

// Values are the period's fields of an address.
func (p Period) Values() url.Values {
	if p.Name != "" {
		return url.Values{"range": {p.Name}}
	}
	return url.Values{"from": {p.From.UTC().Format(time.RFC3339)}, "to": {p.To.UTC().Format(time.RFC3339)}}
}

// inputTime is how a field of a form has a time, in UTC.
const inputTime = "2006-01-02T15:04:05"

// Range is the choice of the period on a page of that path. seconds is the page's
// refresh.
func (p Period) Range(path string, seconds int) templates.Range {
	r := templates.Range{
		Action: path, Live: seconds, Chosen: p.Name == "", Problem: p.Problem,
		From: p.From.UTC().Format(inputTime), To: p.To.UTC().Format(inputTime),
	}
	for _, choice := range ranges {
		at := Period{Name: choice.name}
		r.Choices = append(r.Choices, templates.Choice{
			Text: choice.name, Address: page.Address(path, page.WithLive(at.Values(), seconds)),
			Current: choice.name == p.Name,
		})
	}
	return r
}

// Words names the period for a heading.
func (p Period) Words() string {
	return cmp.Or(map[string]string{
		"5m": "last 5 minutes", "1h": "last hour", "24h": "last 24 hours", "7d": "last 7 days",
		"30d": "last 30 days",
	}[p.Name], "chosen time")
}
