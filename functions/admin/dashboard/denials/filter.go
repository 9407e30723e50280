package denials

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/list"
	"tidegate/internal/cause"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/web/templates"
)

// filter is the query of the page.
type filter struct {
	records.DenialQuery
	request  string // a reference, or API Gateway's id of a request; empty for a list
	from, to string // as typed
	span     string // named range in place of from and to; empty for a day
	name     string // of the key, if there is one
	problem  string // error of a field
}

// spans are the named ranges.
var spans = []templates.Option{
	{Value: "1h", Text: "1h"}, {Value: "", Text: "24h"},
	{Value: page.Today, Text: "today"}, {Value: page.Yesterday, Text: "yesterday"},
}

// readFilter reads the filter in the address; the default period is the last 24 hours. The
// period is whole minutes, so that the list and the counts cover the same calls.
func readFilter(r *http.Request, now time.Time) filter {
	q := r.URL.Query()
	f := filter{from: q.Get("from"), to: q.Get("to"), span: q.Get("range"),
		request: strings.TrimSpace(q.Get("request"))}
	f.Caller, f.Plan, f.Route = strings.TrimSpace(q.Get("key")), q.Get("plan"), q.Get("route")
	f.Limit, f.After, f.Count = q.Get("limit"), q.Get("after"), denialsPerPage
	f.Group, f.Cause = strings.TrimSpace(q.Get("group")), cause.Named(q.Get("cause"))
	g := records.Last(defaultSpan, 0, now)
	if f.from != "" || f.to != "" || !form.IsOption(spans, f.span) {
		f.span = ""
	} else if f.span == "1h" {
		g = records.Last(time.Hour, 0, now)
	} else if begin, end, ok := page.Day(f.span, now); ok {
		g.From, g.To = begin, end
	}
	length := utf8.RuneCountInString
	var fromOK, toOK bool
	f.From, fromOK = instantOr(f.from, g.From)
	f.To, toOK = instantOr(f.to, g.To)
	f.From, f.To = f.From.Truncate(time.Minute), f.To.Add(time.Minute-1).Truncate(time.Minute)
	oldest := now.Add(-records.MinutesKept)
	switch {
	case max(length(f.Caller), length(f.Plan), length(f.Group), length(f.Route), length(f.Limit),
		length(f.request)) > maxFilterText:
		f.problem = "Key, plan, group, route, limit and request: at most 200 characters."
	case f.Cause == 0 && q.Get("cause") != "" || f.Cause == cause.Shadow:
		f.problem = "Cause: choose one from the list."
	case !fromOK || !toOK:
		f.problem = "From and to: enter a date and a time."
	case !f.From.Before(f.To) || !f.To.After(oldest):
		f.problem = "From: must be before to, within 50 hours."
	case f.To.Sub(f.From) > maxSpan:
		f.problem = "From and to: at most 26 hours apart."
	}
	if f.From.Before(oldest) {
		f.From = oldest.Truncate(time.Minute)
	}
	if f.To.After(now.Add(aheadOfUs)) {
		f.To = records.Last(defaultSpan, 0, now).To
	}
	return f
}

// maxSpan is the longest period that is counted by the minute.
const maxSpan = 26 * time.Hour

// resolve returns the filter with the id of a key in place of its name. The id of a caller
// without a record stays. The problem is set if no key, or more than one, has the name, and
// for a secret, which would stay in the address.
func (f filter) resolve(ctx context.Context, keys *app.Registry, set *policy.Set) (filter, error) {
	if f.Caller == "" || f.problem != "" {
		return f, nil
	}
	found, err := keys.ResolveKeys(ctx, set, f.Caller)
	switch {
	case err != nil:
		return f, err
	case found.Secret:
		f.Caller = ""
		f.problem = "Key: you pasted a whole secret. Its id is enough. Consider rotating the key."
	case len(found.Keys) == 1:
		f.Caller, f.name = found.Keys[0].ID, found.Keys[0].Name
	case len(found.Keys) > 1:
		f.problem = "Key: several names begin with this. Enter a whole name or an id."
	case !app.IsCaller(f.Caller):
		f.problem = "Key: no key has this name or id."
	}
	return f, nil
}

// instantOr reads a UTC time from a datetime-local input or an address; fallback if the
// text is empty.
func instantOr(text string, fallback time.Time) (time.Time, bool) {
	if text == "" {
		return fallback, true
	}
	t, err := list.ParseInstant(text)
	if err != nil {
		return fallback, false
	}
	return t.UTC(), true
}

func (f filter) values() url.Values {
	return url.Values{"key": {f.Caller}, "plan": {f.Plan}, "group": {f.Group}, "route": {f.Route},
		"limit": {f.Limit}, "request": {f.request}, "cause": {f.Cause.String()},
		"from": {f.from}, "to": {f.to}, "range": {f.span}}
}

// words puts the value of a parameter into words.
func (f filter) words(name, value string) string {
	switch name {
	case "key":
		return cmp.Or(f.name, value)
	case "cause":
		return app.CauseWords[f.Cause]
	}
	return value
}

// view returns the form. Its selects offer what the set has, and the limits that were
// counted; nil for none.
func (f filter) view(path string, set *policy.Set, c *counted) templates.DenialsFilter {
	values := f.values()
	var denied []string
	if c != nil {
		for _, k := range c.limits {
			if k.Cause == cause.Limit && k.Limit != "" && !slices.Contains(denied, k.Limit) {
				denied = append(denied, k.Limit)
			}
		}
	}
	v := templates.DenialsFilter{
		Action: path, Key: page.Clip(f.Caller, 64), Group: page.Clip(f.Group, maxFilterText),
		Plan: f.Plan, Route: f.Route, Limit: f.Limit, Request: page.Clip(f.request, maxFilterText),
		Cause: f.Cause.String(), Span: f.span, Problem: f.problem, Clear: path,
		Plans:  options("any plan", f.Plan, set.Plans, func(p policy.Plan) string { return p.Name }),
		Routes: options("any route", f.Route, set.Routes, func(r limits.Route) string { return r.Name }),
		Limits: options("any limit", f.Limit, denied[:min(len(denied), maxOptions)],
			func(name string) string { return name }),
		Causes: []templates.Option{{Text: "any cause"}},
		Chips: page.Chips(path, values, f.words, []templates.Option{
			{Value: "key", Text: "Key"}, {Value: "group", Text: "Group"}, {Value: "plan", Text: "Plan"},
			{Value: "route", Text: "Route"}, {Value: "limit", Text: "Limit"},
			{Value: "request", Text: "Request"}, {Value: "cause", Text: "Cause"},
			{Value: "from", Text: "From"}, {Value: "to", Text: "To"},
		}...),
	}
	for _, c := range cause.All() {
		if c != cause.Shadow {
			v.Causes = append(v.Causes, templates.Option{Value: c.String(), Text: app.CauseWords[c]})
		}
	}
	if f.from != "" {
		v.From = f.From.Format(form.UntilForm)
	}
	if f.to != "" {
		v.To = f.To.Format(form.UntilForm)
	}
	v.Spans = page.Spans(path, values, spans, f.span)
	return v
}

const maxOptions = 50 // of a select that offers what was counted

// options returns the options of a select: any, then the values of items, and the chosen
// value if it is none of them.
func options[T any](anyText, chosen string, items []T, value func(T) string) []templates.Option {
	values := []string{""}
	for _, item := range items {
		values = append(values, value(item))
	}
	if !slices.Contains(values, chosen) {
		values = append(values, chosen)
	}
	all := make([]templates.Option, len(values))
	for i, v := range values {
		all[i] = templates.Option{Value: v, Text: page.Clip(v, page.MaxName)}
	}
	all[0].Text = anyText
	return all
}
