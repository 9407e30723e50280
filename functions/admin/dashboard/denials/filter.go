package denials

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/cause"
	"tidegate/internal/usage/denylog"
	"tidegate/web/templates"
)

// filter is the query of the page.
type filter struct {
	denylog.Query
	from, to string // as typed
	problem  string // error of a field
}

// readFilter reads the filter in the address; the default period is the last 24 hours.
func readFilter(r *http.Request, now time.Time) filter {
	q := r.URL.Query()
	f := filter{from: q.Get("from"), to: q.Get("to")}
	f.Subject, f.Plan, f.Rule = strings.TrimSpace(q.Get("key")), q.Get("plan"), q.Get("rule")
	f.Limit, f.After, f.Count = q.Get("limit"), q.Get("after"), denialsPerPage
	f.Group, f.Cause = strings.TrimSpace(q.Get("group")), cause.Named(q.Get("cause"))
	oldest, newest := period(now)
	var fromOK, toOK bool
	f.From, fromOK = instantOr(f.from, oldest)
	f.To, toOK = instantOr(f.to, newest)
	switch {
	case max(len(f.Subject), len(f.Plan), len(f.Group), len(f.Rule), len(f.Limit)) > maxFilterText:
		f.problem = "Key, plan, group, rule and limit: at most 200 characters."
	case q.Get("cause") != "" && f.Cause == 0:
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
func (f filter) resolve(ctx context.Context, keys *app.Registry) (filter, error) {
	if f.Subject == "" || f.problem != "" {
		return f, nil
	}
	set, err := keys.Set(ctx)
	if err != nil {
		return f, err
	}
	found, err := keys.ResolveKeys(ctx, set, f.Subject)
	switch {
	case err != nil:
		return f, err
	case found.Secret:
		f.Subject = ""
		f.problem = "Key: you pasted a whole secret. Its id is enough. Consider rotating the key."
	case len(found.Keys) == 1:
		f.Subject = found.Keys[0].ID
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
	return url.Values{"key": {f.Subject}, "plan": {f.Plan}, "group": {f.Group}, "rule": {f.Rule},
		"limit": {f.Limit}, "cause": {f.Cause.String()}, "from": {f.from}, "to": {f.to}}
}

func (f filter) view(path string) templates.DenialsFilter {
	v := templates.DenialsFilter{
		Action: path, Key: page.Clip(f.Subject, 64), Plan: page.Clip(f.Plan, maxFilterText),
		Group: page.Clip(f.Group, maxFilterText), Rule: page.Clip(f.Rule, maxFilterText),
		Limit: page.Clip(f.Limit, maxFilterText),
		Cause: f.Cause.String(), Causes: []templates.Option{{Text: "all"}}, Problem: f.problem,
	}
	for _, c := range cause.All() {
		v.Causes = append(v.Causes, templates.Option{Value: c.String(), Text: causeTexts[c]})
	}
	if f.from != "" {
		v.From = f.From.Format(form.UntilForm)
	}
	if f.to != "" {
		v.To = f.To.Format(form.UntilForm)
	}
	if page.Address("", f.values()) != "" {
		v.Clear = path
	}
	return v
}
