// Package denials serves the pages of denied and refused calls, and describes denials for
// other pages: the latest ones of a key, caller or group. Package dashboard mounts it. It
// writes nothing.
package denials

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/a-h/templ"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/table"
	"tidegate/functions/admin/list"
	"tidegate/internal/cause"
	"tidegate/internal/records"
	"tidegate/web/templates"
)

// Pages serves the pages of denied and refused calls.
type Pages struct {
	*page.Renderer
	keys    *app.Registry
	records *records.Reader
}

// New returns the pages; r renders them.
func New(r *page.Renderer, keys *app.Registry, calls *records.Reader) *Pages {
	return &Pages{Renderer: r, keys: keys, records: calls}
}

// Routes returns the pages.
func (d *Pages) Routes() []auth.Route {
	return []auth.Route{
		{
			Pattern: "GET /denials",
			Role:    auth.Viewer,
			Handle: func(w http.ResponseWriter, r *http.Request) error {
				return d.list().Show(w, r)
			},
		},
		{Pattern: "GET /denials.csv", Role: auth.Viewer, Handle: d.list().Export, Deadline: auth.Slow},
	}
}

const recentDenials = 10 // latest denials that other pages list

// list returns the list of denials, for one request: it keeps what was counted.
func (d *Pages) list() *table.Of[app.DenialQuery, app.Denial] {
	var count *counted
	return &table.Of[app.DenialQuery, app.Denial]{
		Renderer: d.Renderer, Path: "/denials", Title: "Denials", File: "denials", Live: true,
		Caption: "Denied and refused calls by minute, newest first", Read: d.keys.Denials,
		Columns: func(q *app.DenialQuery) []table.Column[app.Denial] { return d.columns(q) },
		Ranges: []templates.Option{
			{Value: "1h", Text: "Last hour"}, {Value: "", Text: "Last 24 hours"},
			{Value: "today", Text: "Today, UTC"}, {Value: "yesterday", Text: "Yesterday, UTC"},
		},
		Filters: func(ctx context.Context, q *app.DenialQuery) (_ []templates.Filter, err error) {
			if count, err = d.counts(ctx, q); err != nil {
				return nil, err
			}
			return d.filters(ctx, q, count)
		},
		Empty: func(q *app.DenialQuery, found *list.Page[app.Denial]) templates.Empty {
			switch {
			case q.Request != "":
				return templates.Empty{Heading: "No denial found"}
			case found.Next != "":
				return templates.Empty{Heading: "No denials",
					Advice: "No match among the latest entries. The next page searches older ones."}
			}
			return templates.Empty{Heading: "No denials", Advice: "No denied or refused call matches."}
		},
		Add: func(r *http.Request, v *templates.List, q *app.DenialQuery,
			found *list.Page[app.Denial]) error {
			v.Page.Chart = d.ChartScript()
			if found == nil {
				return nil
			}
			calls := int64(0)
			for i := range found.Items {
				calls += found.Items[i].Calls
			}
			v.Live.Summary = page.Number(calls) + " calls shown"
			if q.Request != "" {
				v.Export, v.Below = "", requests(found.Items)
				return nil
			}
			if q.After != "" || count == nil {
				return nil
			}
			summary, err := d.summaryView(r.Context(), count, q, v.Live.Seconds)
			if err != nil {
				return page.Failed("read denials", err)
			}
			v.Above = templates.SummaryOfDenials(*summary)
			return nil
		},
	}
}

// requests lists the ids of the calls of the one denial that was found.
func requests(found []app.Denial) templ.Component {
	if len(found) == 0 || len(found[0].Requests) == 0 {
		return nil
	}
	one, of := found[0], "1 call in this minute"
	if one.Calls != 1 {
		of = page.Number(one.Calls) + " calls in this minute"
	}
	if n := int64(len(one.Requests)); n < one.Calls {
		of += ", the ids of " + page.Number(n)
	}
	return templates.RequestIDs(of, one.Requests)
}

const maxOptions = 20 // limits to choose from

// filters returns the fields of the form. Its selects offer what the policy has, and the
// limits that were counted.
func (d *Pages) filters(ctx context.Context, q *app.DenialQuery, c *counted) ([]templates.Filter, error) {
	set, err := d.keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	causes := []templates.Option{{Text: "any cause"}}
	for _, one := range cause.All() {
		if one != cause.Shadow {
			causes = append(causes, templates.Option{Value: one.String(), Text: app.CauseWords[one]})
		}
	}
	var plans, routes, limits []string
	for _, p := range set.Plans {
		plans = append(plans, p.Name)
	}
	for _, r := range set.Routes {
		routes = append(routes, r.Name)
	}
	if c != nil {
		for _, k := range c.limits {
			if k.Cause == cause.Limit && k.Limit != "" && !slices.Contains(limits, k.Limit) {
				limits = append(limits, k.Limit)
			}
		}
	}
	return []templates.Filter{
		{Name: "key", Label: "Key", Hint: "Name or id", Shown: q.KeyName},
		{Name: "group", Label: "Group"},
		{Name: "plan", Label: "Plan", Options: options("any plan", q.Plan, plans)},
		{
			Name:    "limit",
			Label:   "Limit",
			Options: options("any limit", q.Limit, limits[:min(len(limits), maxOptions)]),
		},
		{Name: "route", Label: "Route", Options: options("any route", q.Route, routes)},
		{Name: "cause", Label: "Cause", Options: causes},
		{Name: "request", Label: "Request", Hint: "Reference or request id"},
	}, nil
}

// options returns the options of a select: any, then values, and the chosen value if it is
// none of them.
func options(anyText, chosen string, values []string) []templates.Option {
	all := []templates.Option{{Text: anyText}}
	if chosen != "" && !slices.Contains(values, chosen) {
		values = append(values, chosen)
	}
	for _, v := range values {
		all = append(all, templates.Option{Value: v, Text: page.Clip(v, page.MaxName)})
	}
	return all
}

// columns returns the columns of a list. Links to more of a limit or a route keep its
// parameters. The denials of one id do not repeat the caller.
func (d *Pages) columns(q *app.DenialQuery) []table.Column[app.Denial] {
	keep := list.Values(q)
	filtered := func(name, value string) templ.Component {
		return templates.Link(page.Clip(value, page.MaxName),
			page.Filtered(d.Path("/denials"), keep, name, value))
	}
	columns := []table.Column[app.Denial]{
		{Head: "First call", Cell: func(l *app.Denial) templ.Component { return templates.At(l.Time) }},
	}
	if !q.IsID {
		columns = append(columns, table.Column[app.Denial]{Head: "Caller",
			Cell: func(l *app.Denial) templ.Component {
				return table.Caller(d.Renderer, l.Caller, l.Name, l.Plan)
			}})
	}
	return append(columns, []table.Column[app.Denial]{
		{Head: "Cause", Cell: func(l *app.Denial) templ.Component {
			parts := []templ.Component{templates.Text(app.CauseWords[l.Cause]), templates.Soft(l.Reason)}
			if l.Limit != "" {
				parts = append(parts, filtered("limit", l.Limit))
			}
			if l.Route != "" {
				parts = append(parts, templates.Soft("route"), filtered("route", l.Route))
			}
			return templates.Parts(parts...)
		}},
		{Head: "Call", Class: "narrow", Cell: func(l *app.Denial) templ.Component {
			if l.Method == "" { // a caller that proved no key: nothing that it sent is recorded
				return templates.Text("–")
			}
			return templates.Parts(templates.Code(l.Method+" "+page.Clip(l.Path, 200)),
				templates.Soft(l.API+"/"+l.Stage))
		}},
		{Head: "From", Class: "narrow", Cell: func(l *app.Denial) templ.Component {
			if !l.Network.IsValid() {
				return templates.Text("–")
			}
			return templates.Text(l.Network.String())
		}},
		{Head: "Retry after", Class: "num narrow", Cell: func(l *app.Denial) templ.Component {
			switch {
			case l.NeverPasses():
				return templates.Text("never: the limit is below the call's cost")
			case l.RetryAfter == 0:
				return templates.Text("–")
			}
			return templates.Text(page.Span(time.Duration(l.RetryAfter) * time.Millisecond))
		}},
		{Head: "Calls in this minute", Class: "num", Cell: func(l *app.Denial) templ.Component {
			calls := page.Number(l.Calls)
			if l.Calls == 0 {
				calls = "not kept"
			}
			if l.Reference == "" {
				return templates.Text(calls)
			}
			return templates.LabelledLink(calls, calls+" calls: "+l.Reference,
				page.Address(d.Path("/denials"), url.Values{"request": {l.Reference}}))
		}},
	}...)
}

// Summary describes the latest denials of a key, caller or group.
type Summary struct {
	Latest []app.Denial    // newest first
	Table  templates.Table // of them
	All    string          // address of all denials
}

// Recent returns the summary of a key or caller, by its id.
func (d *Pages) Recent(ctx context.Context, id string) (Summary, error) {
	return d.latest(ctx, &app.DenialQuery{Key: id, IsID: true})
}

// OfGroup returns the summary of the keys of a group.
func (d *Pages) OfGroup(ctx context.Context, name string) (Summary, error) {
	return d.latest(ctx, &app.DenialQuery{Group: name})
}

// latest returns the latest denials of a query within the last 24 hours.
func (d *Pages) latest(ctx context.Context, q *app.DenialQuery) (Summary, error) {
	q.Count = recentDenials
	found, err := d.keys.Denials(ctx, q)
	return Summary{
		Latest: found.Items, All: page.Address(d.Path("/denials"), list.Values(q)),
		Table: table.Rows("Recent denials, newest first", d.columns(q), found.Items, nil),
	}, err
}
