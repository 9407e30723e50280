package dashboard

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/a-h/templ"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/command"
	"tidegate/functions/admin/dashboard/chart"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/table"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/list"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

func (d *dashboard) showKeys(w http.ResponseWriter, r *http.Request) error {
	if typed := r.URL.Query().Get("q"); app.LooksLikeSecret(typed) {
		return d.redirectSecret(w, r, typed)
	}
	return d.keyList(r).Show(w, r)
}

func (d *dashboard) exportKeys(w http.ResponseWriter, r *http.Request) error {
	return d.keyList(r).Export(w, r)
}

// keyList returns the list of keys, for a request.
func (d *dashboard) keyList(r *http.Request) *table.Of[app.KeyQuery, app.ListedKey] {
	return &table.Of[app.KeyQuery, app.ListedKey]{
		Renderer: d.Renderer, Path: "/keys", Title: "Keys", File: "keys", Live: true,
		Caption: "Keys with the usage of each limit", Read: d.Keys.Keys,
		RowID:   func(k *app.ListedKey) string { return "key-" + k.ID },
		Order:   func(q *app.KeyQuery) string { return q.Order },
		Columns: func(q *app.KeyQuery) []table.Column[app.ListedKey] { return d.keyColumns(r, q) },
		Filters: d.keyFilters, Empty: d.emptyKeys, Add: d.addToKeys,
	}
}

func (d *dashboard) keyColumns(r *http.Request, q *app.KeyQuery) []table.Column[app.ListedKey] {
	edits, ticked, now := page.CanEdit(r), command.Ticked(r), time.Now()
	live := page.Address("", page.WithLive(nil, page.LiveSeconds(r)))
	activity := func(k *app.ListedKey) templates.Activity { return activityView(&k.Activity, now) }
	columns := []table.Column[app.ListedKey]{
		{Head: "Key", Class: "name", Order: string(app.ByName), Up: true,
			Top: table.ForEditors(templates.TickAll()),
			Cell: func(k *app.ListedKey) templ.Component {
				row := templates.KeyName(d.keyName(k.Subject), d.keyPath(k.Key)+live)
				if !edits {
					return row
				}
				return templates.Tickable(k.ID, page.Clip(k.Name, page.MaxName), ticked(k.ID), row)
			}},
		{Head: "Plan", Class: "plan", Cell: func(k *app.ListedKey) templ.Component {
			return templates.Text(page.Clip(k.Plan, page.MaxName))
		}},
		{Head: "Status", Cell: func(k *app.ListedKey) templ.Component {
			return templates.Badges(wording.Badges(k.Subject))
		}},
	}
	if q.Filter.State == app.Overridden {
		columns = append(columns, table.Column[app.ListedKey]{Head: "Override",
			Cell: func(k *app.ListedKey) templ.Component { return d.overrideCell(k.Subject, edits) }})
	}
	return append(columns, []table.Column[app.ListedKey]{
		{Head: "Last hour", Class: "hour", Cell: func(k *app.ListedKey) templ.Component {
			return templates.SparklineChart(chart.Sparkline(k.Series))
		}},
		{Head: "Calls", Class: "number calls", Order: string(app.Busiest),
			Cell: func(k *app.ListedKey) templ.Component { return templates.Number(activity(k).Calls) }},
		{Head: "Denied", Class: "number", Order: string(app.MostDenied),
			Cell: func(k *app.ListedKey) templ.Component { return templates.DeniedCell(activity(k)) }},
		{Head: "Last used", Class: "number idle", Cell: func(k *app.ListedKey) templ.Component {
			used := activity(k).Used
			if used == notLately && now.Sub(k.Created) < lately {
				used = "never"
			}
			return templates.Number(used)
		}},
		{Head: "Limit", Class: "limit", Lines: func(k *app.ListedKey) []templ.Component {
			return d.limitCells(k, edits)
		}},
		{Head: "Used", Class: "used", Lines: eachWindow(templates.Usage)},
		{Head: "Frees in", Class: "number idle", Lines: eachWindow(func(w templates.Window) templ.Component {
			return templates.Number(w.Frees)
		})},
	}...)
}

// eachWindow makes a cell of each limit of a key.
func eachWindow(cell func(templates.Window) templ.Component) func(*app.ListedKey) []templ.Component {
	return func(k *app.ListedKey) []templ.Component {
		var cells []templ.Component
		for _, w := range windows(k.Subject) {
			cells = append(cells, cell(w))
		}
		return cells
	}
}

// limitCells returns the names of a key's limits, or why it has none.
func (d *dashboard) limitCells(k *app.ListedKey, edits bool) []templ.Component {
	address := ""
	if edits && k.Status == policy.Active {
		address = d.keyPath(k.Key) + "/limits"
	}
	cells := eachWindow(func(w templates.Window) templ.Component {
		return templates.LimitName(w, address, page.Clip(k.Name, page.MaxName))
	})(k)
	switch {
	case cells != nil:
		return cells
	case k.Status == policy.Unreadable:
		return []templ.Component{templates.Number(
			"Written by another Tidegate version. Its calls are denied.")}
	}
	return []templ.Component{templates.Number("Nothing is counted.")}
}

// overrideCell describes the override of a key; a badge has its end.
func (d *dashboard) overrideCell(s app.Subject, edits bool) templ.Component {
	endless := *s.Override
	endless.Until = time.Time{}
	end := ""
	if edits && s.Status == policy.Active {
		end = d.keyPath(s.Key) + "/end"
	}
	return templates.Replaced(policydoc.LimitsText(s.Effective.Plan.Limits), wording.Override(&endless),
		page.Clip(endless.Reason, policy.MaxReasonLen),
		"End override of "+page.Clip(s.Name, page.MaxName), end)
}

// keyFilters returns the form above the list.
func (d *dashboard) keyFilters(ctx context.Context, q *app.KeyQuery) ([]templates.Filter, error) {
	set, err := d.Keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	plans := []templates.Option{{Text: "any plan"}}
	for _, p := range set.Plans {
		plans = append(plans, templates.Option{
			Value: strconv.Itoa(p.Number), Text: page.Clip(p.Name, page.MaxName)})
	}
	filters := []templates.Filter{
		{Name: "q", Label: "Name", Hint: "Name, id or key"}, {Name: "tag", Label: "Tag"},
		{Name: "group", Label: "Group"}, {Name: "plan", Label: "Plan", Options: plans},
		{Name: "state", Label: "State", Options: wording.KeyStates},
		{Name: "order", Label: "Order", Options: keyOrders},
	}
	if q.Prefix != "" {
		filters = append(filters, templates.Filter{Name: "prefix", Label: "Name begins with"})
	}
	return filters, nil
}

var keyOrders = []templates.Option{
	{Text: "by name"},
	{Value: string(app.Busiest), Text: "most calls, last hour"},
	{Value: string(app.MostDenied), Text: "most denied, last hour"},
	{Value: string(app.Today), Text: "busiest today"},
}

// addToKeys adds the number of keys, the groups that a search finds, and what changes keys.
func (d *dashboard) addToKeys(r *http.Request, v *templates.List, q *app.KeyQuery,
	found *list.Page[app.ListedKey]) error {
	v.Search = d.Path("/search")
	if page.CanEdit(r) {
		v.Actions = templates.MainLink("Create a key", d.Path("/keys/new"))
	}
	if found == nil {
		return nil
	}
	denied := 0
	for _, k := range found.Items {
		if k.Subject.Is(app.Blocked) {
			denied++
		}
	}
	v.Live.Summary = page.Number(int64(len(found.Items))) + " keys shown, " + page.Number(int64(denied)) +
		" denied now"
	groups, err := d.groups.Links(r.Context(), q.Name)
	if err != nil {
		return page.Failed("find groups", err)
	}
	if len(groups) > 0 {
		v.Above = templates.NamedLinks("Groups", groups)
	}
	if page.IsRefresh(r) {
		return nil
	}
	matching := ""
	if !q.Filter.Computed() {
		n, err := d.Keys.Count(r.Context(), q.Filter)
		if err != nil {
			return page.Failed("count keys", err)
		}
		matching, v.Count = page.Number(n), app.KeyCount(n)
	}
	if page.CanEdit(r) && len(found.Items) > 0 {
		v.After = command.Bar(d.Renderer, r, list.Values(q), v, matching)
	}
	return nil
}

func (d *dashboard) emptyKeys(q *app.KeyQuery, found *list.Page[app.ListedKey]) templates.Empty {
	f, o := q.Filter, app.Order(q.Order)
	switch {
	case found.Next != "":
		return templates.Empty{Heading: "No keys on this page",
			Advice: "None of the keys searched matches. Continue on the next page."}
	case q.After != "":
		return templates.Empty{Heading: "No more keys",
			Advice: "The list is shorter now. Go to the first page."}
	case o == app.Today:
		return templates.Empty{Heading: "No calls today",
			Advice: "No key used today (UTC) matches. Sort by name to see all keys."}
	case app.IsRanking(o):
		return templates.Empty{Heading: "No calls in the last hour",
			Advice: "None of its top callers matches. Sort by name to see all keys."}
	case q.Name != "" && f == (app.KeyFilter{Prefix: q.Name, Anywhere: true}):
		return templates.Empty{Heading: "No key found", Advice: "No name contains “" + q.Name + "”."}
	case f == app.KeyFilter{State: app.Overridden}:
		return templates.Empty{Heading: "No overrides",
			Advice: "Every key has its plan's limits. Override them on a key's page."}
	case f != app.KeyFilter{}:
		return templates.Empty{Heading: "No key found", Advice: "No key matches all filters."}
	}
	return templates.Empty{
		Heading: "No keys yet",
		Advice:  "Create a key, then call with it:",
		Command: d.exampleCall(exampleWithKey),
	}
}

// keyRow names a key, with its badges and the use of its limits.
func (d *dashboard) keyRow(s app.Subject) templates.KeyRow {
	row := d.keyName(s)
	row.Badges, row.Windows = wording.Badges(s), windows(s)
	return row
}

// keyName names a key.
func (d *dashboard) keyName(s app.Subject) templates.KeyRow {
	row := templates.KeyRow{ID: s.ID, Name: page.Clip(s.Name, page.MaxName), Address: d.keyPath(s.Key)}
	for _, tag := range s.Tags {
		row.Tags = append(row.Tags, page.Clip(tag, policy.MaxTagLen))
	}
	return row
}

// windows describes the limits of a key whose counts are known.
func windows(s app.Subject) []templates.Window {
	var all []templates.Window
	for _, l := range s.Limits {
		if l.Unread {
			continue
		}
		w := wording.Window(l)
		if l.Shared() {
			w.Marks = append(w.Marks, w.For)
		}
		all = append(all, w)
	}
	return all
}

func isBlocked(row templates.KeyRow) bool {
	for _, b := range row.Badges {
		if b.State == "blocked" {
			return true
		}
	}
	return false
}

// asOf returns the time at which the usage of keys was read.
func asOf(subjects []app.Subject) time.Time {
	for _, s := range subjects {
		return s.At
	}
	return time.Now()
}

// redirectOverrides redirects the address of a former page to the list of keys.
func (d *dashboard) redirectOverrides(w http.ResponseWriter, r *http.Request) error {
	http.Redirect(w, r, d.Path("/keys?state="+string(app.Overridden)), http.StatusMovedPermanently)
	return nil
}
