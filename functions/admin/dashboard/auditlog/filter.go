package auditlog

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"time"
	"unicode/utf8"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/web/templates"
)

// filter is the query of the list of entries.
type filter struct {
	audit.Query
	typed    string                // subject as typed: an id, a name, or "policy"
	from, to string                // as typed
	span     string                // named range in place of from and to; empty for all
	after    string                // position in the address; Query.After may come from to instead
	problem  string                // error of from or to
	key      policy.Key            // subject, if it is an existing key
	choices  *templates.KeyChoices // keys with the typed name, if there are several
}

const maxSubject = policy.MaxNameLen // characters; ids are shorter

// readFilter reads the filter in the address. It reports false if a text is longer than
// any page would send.
func readFilter(r *http.Request) (filter, bool) {
	q := r.URL.Query()
	f := filter{typed: q.Get("subject"), from: q.Get("from"), to: q.Get("to"), after: q.Get("after"),
		span: q.Get("range"),
		Query: audit.Query{Action: q.Get("what"), By: q.Get("by"), Job: q.Get("job"),
			Count: entriesPerPage, Older: true}}
	f.After = f.after
	f.Fold = f.typed == "" && f.Action == "" && f.Job == ""
	if f.from != "" || f.to != "" || !form.IsOption(spans, f.span) {
		f.span = ""
	} else {
		f.within(time.Now())
	}
	if f.from != "" {
		f.Since = f.instant(f.from)
	}
	if f.to != "" {
		to := f.instant(f.to)
		if f.problem == "" && to.Before(f.Since) {
			f.problem = "From must be before To."
		}
		if f.after == "" {
			f.After = audit.Before(to)
		}
	}
	return f, utf8.RuneCountInString(f.typed) <= maxSubject && len(f.Job) <= 64 && len(f.Action) <= 40 &&
		len(f.By) <= 400 && len(f.After) <= 100
}

// spans are the named ranges.
var spans = []templates.Option{
	{Value: "", Text: "all"}, {Value: page.Today, Text: "today"},
	{Value: page.Yesterday, Text: "yesterday"}, {Value: "7d", Text: "7d"},
}

// within sets the bounds of the named range.
func (f *filter) within(now time.Time) {
	from, to, isDay := page.Day(f.span, now)
	switch {
	case f.span == "7d":
		f.Since = now.Add(-7 * 24 * time.Hour)
	case isDay:
		f.Since = from
		if f.after == "" && f.span == page.Yesterday {
			f.After = audit.Before(to)
		}
	}
}

func (f *filter) instant(text string) time.Time {
	t, err := page.ParseInstant(text)
	if err != nil {
		f.problem = "From and to: enter a date and a time."
	}
	return t
}

func (f *filter) values() url.Values {
	return url.Values{"subject": {f.typed}, "what": {f.Action}, "by": {f.By}, "job": {f.Job},
		"from": {f.from}, "to": {f.to}, "range": {f.span}}
}

// list returns the entries that match the filter. The typed subject is an id, the name of
// an existing key, or else a name that entries have.
func (d *Pages) list(ctx context.Context, f *filter) (audit.Page, error) {
	if err := d.resolve(ctx, f); err != nil || f.choices != nil {
		return audit.Page{}, err
	}
	list, err := d.keys.Audit().List(ctx, f.Query)
	if f.Subject != "" && f.Subject == f.typed && f.key.ID == "" && err == nil &&
		len(list.Entries) == 0 && list.Next == "" {
		f.Subject, f.Named = "", f.typed
		return d.keys.Audit().List(ctx, f.Query)
	}
	return list, err
}

// resolve sets the subject of the filter, or the choices if several keys have the name.
func (d *Pages) resolve(ctx context.Context, f *filter) error {
	switch f.typed {
	case "":
		return nil
	case policyset.SetID, token.Subject, audit.LoginSubject:
		f.Subject = f.typed
		return nil
	}
	set, err := d.keys.Set(ctx)
	if err != nil {
		return err
	}
	found, err := d.keys.ResolveKeys(ctx, set, f.typed)
	if err != nil {
		return err
	}
	switch {
	case len(found.Keys) == 1:
		f.key = found.Keys[0]
		f.Subject = f.key.ID
		f.typed = f.key.ID
	case len(found.Keys) > 1:
		f.choices = page.KeyChoices(found.Keys, found.More, func(k policy.Key) string {
			v := f.values()
			v.Set("subject", k.ID)
			return page.Address(d.Path("/audit"), v)
		})
	case app.IsID(f.typed):
		f.Subject = f.typed
	default:
		f.Named = f.typed
	}
	return nil
}

func (d *Pages) filterView(f *filter) templates.AuditFilter {
	v := templates.AuditFilter{
		Action: d.Path("/search"), Subject: page.Clip(f.typed, maxSubject),
		What: f.Action, Whats: auditActions, By: page.Clip(f.By, 200), Problem: f.problem,
	}
	if f.key.ID != "" {
		v.Of = templates.Choice{Text: page.Clip(f.key.Name, page.MaxName),
			Address: d.Path("/keys/" + f.key.ID)}
	}
	if f.from != "" && !f.Since.IsZero() {
		v.From = f.Since.UTC().Format(form.UntilForm)
	}
	if t, err := page.ParseInstant(f.to); err == nil {
		v.To = t.UTC().Format(form.UntilForm)
	}
	path, values := d.Path("/audit"), f.values()
	v.Clear, v.Span, v.Job = path, f.span, f.Job
	v.Chips = page.Chips(path, values, func(name, value string) string {
		switch {
		case name == "what":
			return cmp.Or(form.OptionText(auditActions, value), value)
		case name == "subject" && f.key.ID != "":
			return f.key.Name
		}
		return value
	}, []templates.Option{
		{Value: "subject", Text: "Key"}, {Value: "what", Text: "Change"}, {Value: "by", Text: "By"},
		{Value: "job", Text: "Job"}, {Value: "from", Text: "From"}, {Value: "to", Text: "To"},
	}...)
	v.Spans = page.Spans(path, values, spans, f.span)
	return v
}
