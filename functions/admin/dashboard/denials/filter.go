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
	"tidegate/internal/cause"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/usage/denylog"
	"tidegate/web/templates"
)

// filter is the query of the page.
type filter struct {
	denylog.Query
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

// readFilter reads the filter in the address; the default period is the last 24 hours.
func readFilter(r *http.Request, now time.Time) filter {
	q := r.URL.Query()
	f := filter{from: q.Get("from"), to: q.Get("to"), span: q.Get("range")}
	f.Subject, f.Plan, f.Rule = strings.TrimSpace(q.Get("key")), q.Get("plan"), q.Get("route")
	f.Limit, f.Route, f.Request = q.Get("limit"), q.Get("call"), q.Get("request")
	f.After, f.Count = q.Get("after"), denialsPerPage
	f.Group = strings.TrimSpace(q.Get("group"))
	known := f.SetCause(q.Get("cause"))
	oldest, newest := period(now)
	from, to := oldest, newest
	if f.from != "" || f.to != "" || !form.IsOption(spans, f.span) {
		f.span = ""
	} else if f.span == "1h" {
		from = now.Add(-time.Hour)
	} else if begin, end, ok := page.Day(f.span, now); ok {
		from, to = begin, end
	}
	length := utf8.RuneCountInString
	var fromOK, toOK bool
	f.From, fromOK = instantOr(f.from, from)
	f.To, toOK = instantOr(f.to, to)
	switch {
	case max(length(f.Subject), length(f.Plan), length(f.Group), length(f.Rule), length(f.Limit),
		length(f.Route)-20, length(f.Request)) > maxFilterText:
		f.problem = "Key, plan, group, route, limit, call and request: at most 200 characters."
	case !known:
		f.problem = "Cause: choose one from the list."
	case !fromOK || !toOK:
		f.problem = "From and to: enter a date and a time."
	case !f.From.Before(f.To) || !f.To.After(oldest):
		f.problem = "From: must be before to, within 24 hours."
	}
	if f.From.Before(oldest) {
		f.From = oldest
	}
	if f.To.After(newest) {
		f.To = newest
	}
	return f
}

// resolve returns the filter with the id of a key in place of its name. The id of a caller
// without a record stays. The problem is set if no key, or more than one, has the name, and
// for a secret, which would stay in the address.
func (f filter) resolve(ctx context.Context, keys *app.Registry, set *policy.Set) (filter, error) {
	if f.Subject == "" || f.problem != "" {
		return f, nil
	}
	found, err := keys.ResolveKeys(ctx, set, f.Subject)
	switch {
	case err != nil:
		return f, err
	case found.Secret:
		f.Subject = ""
		f.problem = "Key: you pasted a whole secret. Its id is enough. Consider rotating the key."
	case len(found.Keys) == 1:
		f.Subject, f.name = found.Keys[0].ID, found.Keys[0].Name
	case len(found.Keys) > 1:
		f.problem = "Key: several names begin with this. Enter a whole name or an id."
	case !app.IsCaller(f.Subject):
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
	t, err := page.ParseInstant(text)
	if err != nil {
		return fallback, false
	}
	return t.UTC(), true
}

func (f filter) values() url.Values {
	return url.Values{"key": {f.Subject}, "plan": {f.Plan}, "group": {f.Group}, "route": {f.Rule},
		"limit": {f.Limit}, "call": {f.Route}, "request": {f.Request}, "cause": {f.CauseName()},
		"from": {f.from}, "to": {f.to}, "range": {f.span}}
}

// words puts the value of a parameter into words.
func (f filter) words(name, value string) string {
	switch name {
	case "key":
		return cmp.Or(f.name, value)
	case "cause":
		return cmp.Or(causeTexts[f.Cause], anyTrial)
	}
	return value
}

const anyTrial = "Would block" // all causes of the log of limits in shadow

// logs returns the links to the two logs, with the same filter but for the cause.
func (f filter) logs(path string) []templates.Choice {
	values := f.values()
	return []templates.Choice{
		{Text: "Denied", Address: page.Filtered(path, values, "cause", ""), Current: !f.OnTrial},
		{Text: anyTrial, Address: page.Filtered(path, values, "cause", denylog.AnyTrial), Current: f.OnTrial},
	}
}

// view returns the form. Its selects offer what the set has, and what the summary found.
func (f filter) view(path string, set *policy.Set, found denylog.Summary) templates.DenialsFilter {
	values := f.values()
	v := templates.DenialsFilter{
		Action: path, Key: page.Clip(f.Subject, 64), Group: page.Clip(f.Group, maxFilterText),
		Plan: f.Plan, Route: f.Rule, Limit: f.Limit, Call: f.Route,
		Request: f.Request, Cause: f.CauseName(),
		Span: f.span, Problem: f.problem, Clear: path,
		Plans:  options("any plan", f.Plan, set.Plans, func(p policy.Plan) string { return p.Name }),
		Routes: options("any route", f.Rule, set.Routes, func(r limits.Route) string { return r.Name }),
		Limits: options("any limit", f.Limit, mostOf(found.Limits), valueOf),
		Calls:  options("any call", f.Route, mostOf(found.Routes), valueOf),
		Causes: []templates.Option{{Text: "any cause"}},
		Chips: page.Chips(path, values, f.words, []templates.Option{
			{Value: "key", Text: "Key"}, {Value: "group", Text: "Group"}, {Value: "plan", Text: "Plan"},
			{Value: "route", Text: "Route"}, {Value: "limit", Text: "Limit"},
			{Value: "call", Text: "Call"}, {Value: "request", Text: "Request"},
			{Value: "cause", Text: "Cause"},
			{Value: "from", Text: "From"}, {Value: "to", Text: "To"},
		}...),
	}
	for _, c := range cause.All() {
		if c == cause.Shadow {
			v.Causes = append(v.Causes, templates.Option{Value: denylog.AnyTrial, Text: anyTrial})
		}
		v.Causes = append(v.Causes, templates.Option{Value: c.String(), Text: causeTexts[c]})
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

const maxOptions = 50 // of a select that offers what a summary found

func mostOf(counts map[string]int64) []denylog.Count { return denylog.Most(counts, maxOptions) }

func valueOf(c denylog.Count) string { return c.Value }

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
