package denials

import (
	"context"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/chart"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/internal/usage/denylog"
	"tidegate/web/templates"
)

const topCount = 5 // values of a ranking

// stepFor returns the length of a bar in the chart of a period of up to a day.
func stepFor(span time.Duration) time.Duration {
	switch {
	case span <= 90*time.Minute:
		return time.Minute
	case span <= 8*time.Hour:
		return 5 * time.Minute
	}
	return 15 * time.Minute
}

// sum reads the summary of the filter's denials.
func (d *Pages) sum(ctx context.Context, f filter) (denylog.Summary, error) {
	return d.usage.SumDenials(ctx, f.Query, stepFor(f.To.Sub(f.From)))
}

// summaryView returns the chart and the rankings of a summary, or nil without denials.
// Every ranked value links to the list that the filter and the value select.
func (d *Pages) summaryView(ctx context.Context, s denylog.Summary, f filter, live int) (
	*templates.DenialsSummary, error) {
	if s.Calls == 0 {
		return nil, nil
	}
	path, values := d.Path("/denials"), f.values()
	unbounded := f.values()
	for _, name := range []string{"from", "to", "range"} {
		unbounded.Del(name)
	}
	v := &templates.DenialsSummary{Chart: chart.TimeSeries{
		ID: "denied", Title: "Denied calls", Begin: s.Begin, Step: stepFor(f.To.Sub(f.From)),
		Blocked: s.Steps, OnTrial: f.OnTrial,
		SelectIn: page.Address(path, page.WithLive(unbounded, live)),
	}.View()}
	if f.OnTrial {
		v.Chart.Title = "Calls that would be denied"
	}
	if s.Since.After(f.From) {
		v.Note = "The summary covers the calls since " + page.Instant(s.Since).Text +
			". Choose a shorter period for older ones."
	}
	callers := denylog.Most(s.Subjects, topCount)
	known, err := app.Records(ctx, d.keys, nil, callers, valueOf)
	if err != nil {
		return nil, err
	}
	name := func(id string) string {
		if k := known[id]; k.Name != "" {
			return k.Name
		}
		return id
	}
	asItIs := func(text string) string { return text }
	for _, top := range []struct {
		heading, field string
		counts         []denylog.Count
		words          func(string) string
	}{
		{"Limits", "limit", denylog.Most(s.Limits, topCount), asItIs},
		{"Callers", "key", callers, name},
		{"Calls", "call", denylog.Most(s.Routes, topCount), asItIs},
	} {
		list := templates.Top{Heading: top.heading}
		for _, c := range top.counts {
			list.Rows = append(list.Rows, templates.TopRow{
				Text: page.Clip(top.words(c.Value), page.MaxName), Calls: page.Number(c.Calls),
				Share:   page.Number(app.Percent(c.Calls, s.Calls)) + " %",
				Address: page.Filtered(path, values, top.field, c.Value),
			})
		}
		v.Tops = append(v.Tops, list)
	}
	return v, nil
}

// fold joins the entries of a page that are of one kind and minute to one row each, which
// has its first entry's place.
func fold(list []denylog.Entry) [][]denylog.Entry {
	type kind struct {
		subject string
		minute  time.Time
		denial  denylog.Denial
	}
	at := map[kind]int{}
	var rows [][]denylog.Entry
	for _, l := range list {
		k := kind{l.Subject, l.Time.Truncate(time.Minute), l.Denial}
		k.denial.Network, k.denial.RetryAfter, k.denial.Request = netip.Prefix{}, 0, ""
		i, found := at[k]
		if !found {
			i, at[k] = len(rows), len(rows)
			rows = append(rows, nil)
		}
		rows[i] = append(rows[i], l)
	}
	return rows
}

// denialRows returns the rows of a list. Their links keep the parameters in keep.
func (d *Pages) denialRows(ctx context.Context, list []denylog.Entry, keep url.Values) (
	[]templates.DenialRow, error) {
	known, err := app.Records(ctx, d.keys, nil, list, subjectOf)
	if err != nil {
		return nil, err
	}
	var rows []templates.DenialRow
	for _, entries := range fold(list) {
		row := d.denialRow(&entries[0], known[entries[0].Subject], keep)
		calls := int64(0)
		for _, l := range entries {
			calls += l.Calls
		}
		if calls > 1 {
			row.Calls = page.Number(calls) + " calls in this minute"
			for _, l := range entries {
				row.Samples = append(row.Samples, sampleOf(&l))
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func sampleOf(l *denylog.Entry) templates.DenialSample {
	s := templates.DenialSample{At: page.Instant(l.Time), Request: page.Clip(l.Request, 64),
		Network: "–", RetryAfter: "–"}
	if l.Network.IsValid() {
		s.Network = l.Network.String()
	}
	if l.NeverPasses() {
		s.RetryAfter = "never: the limit is below the call's cost"
	} else if l.RetryAfter > 0 {
		s.RetryAfter = page.Span(l.RetryAfter)
	}
	if l.Calls > 1 {
		s.More = "and " + page.Number(l.Calls-1) + " more"
	}
	return s
}

func (d *Pages) denialRow(l *denylog.Entry, k policy.Key, keep url.Values) templates.DenialRow {
	link := func(name, value string) templates.Choice {
		return templates.Choice{Text: page.Clip(value, page.MaxName),
			Address: page.Filtered(d.Path("/denials"), keep, name, value)}
	}
	row := templates.DenialRow{
		DenialSample: sampleOf(l), Caller: l.Subject, Plan: page.Clip(l.Plan, page.MaxName),
		Cause: strings.TrimPrefix(causeTexts[l.Cause], anyTrial+": "),
		Call:  l.Method + " " + page.Clip(l.Path, maxFilterText),
		API:   l.API + "/" + l.Stage, Reason: l.Reason,
	}
	switch {
	case k.ID != "":
		row.Caller, row.Address = page.Clip(k.Name, page.MaxName), d.Path("/keys/"+k.ID)
	case l.Subject == "":
		row.Caller = "unverified"
	case app.IsID(l.Subject):
		row.Address = d.Path("/callers/" + l.Subject)
	}
	if l.Method == "" { // a caller that proved no key: nothing that it sent is logged
		row.Call, row.API = "–", ""
	}
	if l.Limit != "" {
		row.Limit = link("limit", l.Limit)
	}
	if l.Rule != "" {
		row.Route = link("route", l.Rule)
	}
	return row
}
