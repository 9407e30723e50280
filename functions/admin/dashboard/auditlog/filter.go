package auditlog

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/list"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/web/templates"
)

// filter is the query of the list of entries.
type filter struct {
	registry.AuditQuery

	typed    string                // subject as typed: an id, a name, or "policy"
	from, to string                // as typed
	span     string                // named range in place of from and to; empty for all
	before   string                // position in the address
	change   string                // number of the only change to list; empty for all
	problem  string                // error of from or to
	key      policy.Key            // subject, if it is an existing key
	choices  *templates.KeyChoices // keys with the typed name, if there are several
}

const maxSubject = policy.MaxNameLen // characters; ids are shorter

// readFilter reads the filter in the address. It reports false for a text that no page
// would send.
func readFilter(r *http.Request) (filter, bool) {
	q := r.URL.Query()
	f := filter{typed: q.Get("subject"), from: q.Get("from"), to: q.Get("to"), before: q.Get("before"),
		span: q.Get("range"), change: q.Get("change"),
		AuditQuery: registry.AuditQuery{Action: q.Get("what"), By: q.Get("by"), Count: entriesPerPage}}
	var err error
	switch {
	case f.change != "":
		f.Before, err = strconv.ParseUint(f.change, 10, 63)
		f.Before++
		f.Count = 1
	case f.before != "":
		f.Before, err = strconv.ParseUint(f.before, 10, 64)
	}
	if f.from != "" || f.to != "" || !form.IsOption(spans, f.span) {
		f.span = ""
	} else {
		f.within(time.Now())
	}
	if f.from != "" {
		f.Since = f.instant(f.from)
	}
	if f.to != "" {
		if f.Until = f.instant(f.to); f.problem == "" && f.Until.Before(f.Since) {
			f.problem = "From must be before To."
		}
	}
	return f, err == nil && utf8.RuneCountInString(f.typed) <= maxSubject && len(f.Action) <= 40 &&
		len(f.By) <= 400
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
		if f.span == page.Yesterday {
			f.Until = to
		}
	}
}

func (f *filter) instant(text string) time.Time {
	t, err := list.ParseInstant(text)
	if err != nil {
		f.problem = "From and to: enter a date and a time."
	}
	return t
}

func (f *filter) values() url.Values {
	return url.Values{"subject": {f.typed}, "what": {f.Action}, "by": {f.By}, "change": {f.change},
		"from": {f.from}, "to": {f.to}, "range": {f.span}}
}

// searchTime is how long one page searches for entries.
const searchTime = time.Second

// list returns the entries that match the filter. The typed subject is an id, the name of
// an existing key, or else a name that entries have.
func (d *Pages) list(ctx context.Context, f *filter) (registry.AuditPage, error) {
	if err := d.resolve(ctx, f); err != nil || f.choices != nil {
		return registry.AuditPage{}, err
	}
	list, err := d.search(ctx, f)
	if f.Subject != "" && f.Subject == f.typed && f.key.ID == "" && err == nil &&
		len(list.Entries) == 0 && list.Next == 0 {
		f.Subject, f.Named = "", f.typed
		list, err = d.search(ctx, f)
	}
	if f.change != "" {
		list.Next = 0
	}
	return list, err
}

// search reads pages until one has entries.
func (d *Pages) search(ctx context.Context, f *filter) (registry.AuditPage, error) {
	q := f.AuditQuery
	for began := time.Now(); ; {
		list, err := d.keys.Audit(ctx, q)
		if err != nil {
			return list, err
		}
		if q.Before = list.Next; len(list.Entries) > 0 || list.Next == 0 || time.Since(began) > searchTime {
			return list, nil
		}
	}
}

// resolve sets the subject of the filter, or the choices if several keys have the name.
func (d *Pages) resolve(ctx context.Context, f *filter) error {
	switch f.typed {
	case "":
		return nil
	case app.PolicyRecord:
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
	if t, err := list.ParseInstant(f.to); err == nil {
		v.To = t.UTC().Format(form.UntilForm)
	}
	path, values := d.Path("/audit"), f.values()
	v.Clear, v.Span = path, f.span
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
		{Value: "change", Text: "Number"}, {Value: "from", Text: "From"}, {Value: "to", Text: "To"},
	}...)
	v.Spans = page.Spans(path, values, spans, f.span)
	return v
}
