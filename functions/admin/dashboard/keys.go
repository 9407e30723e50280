package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/chart"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/internal/policy"
	"tidegate/internal/usage"
	"tidegate/web/templates"
)

func (d *dashboard) showKeys(w http.ResponseWriter, r *http.Request) {
	query, ok := readKeysQuery(r)
	if !ok {
		d.Fail(w, r, page.Problem{Status: http.StatusBadRequest, Heading: "Invalid filter",
			Advice: "Names have at most 100 characters."})
		return
	}
	if d.leadToSecret(w, r, query.Prefix) { // never shown, though an address has it already
		return
	}
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		d.FailStore(w, r, "read policy", err)
		return
	}
	list, err := app.FindOrdered(r.Context(), d.Keys, set, query.KeyFilter, query.order, query.after,
		keysPerPage)
	if err != nil {
		d.FailStore(w, r, "list keys", err)
		return
	}
	view := d.keysPage(r, set, query, list)
	if err := d.addActivity(r.Context(), view.Rows); err != nil {
		d.FailStore(w, r, "read calls", err)
		return
	}
	sortRows(view.Rows, query.order)
	d.Remember(w, r)
	if page.IsRefresh(r) {
		d.Render(w, r, http.StatusOK, templates.KeysLive(view))
		return
	}
	if view.Bulk, err = d.bulk.Bar(r, query.KeyFilter, view); err != nil {
		d.FailStore(w, r, "count keys", err)
		return
	}
	if view.Groups, err = d.groups.Links(r.Context(), query.Prefix); err != nil {
		d.FailStore(w, r, "find groups", err)
		return
	}
	view.Jobs = d.bulk.Unfinished(r)
	d.Render(w, r, http.StatusOK, templates.Keys(view))
}

func (d *dashboard) keysPage(r *http.Request, set *policy.Set, q keysQuery,
	list app.FoundKeys) templates.KeysPage {
	path, here := d.Path("/keys"), q.values()
	here.Set("after", q.after)
	p := templates.KeysPage{
		Page: d.Page(r, "Keys"),
		Live: d.Live(r, path, here, asOf(list.Subjects)),
		Sorts: templates.KeySorts{
			Name: d.sortLink("Key", app.ByName, q), Calls: d.sortLink("Calls", app.Busiest, q),
			Blocked: d.sortLink("Blocked", app.MostBlocked, q),
			Used:    d.sortLink("Last used", app.LastUsed, q),
		},
		Search:  d.keySearch(set, q),
		Empty:   emptyKeys(q, list),
		Export:  page.Address(d.Path("/keys.csv"), changes.FilterValues(q.KeyFilter)),
		Callers: d.Path("/callers"),
	}
	if page.CanEdit(r) {
		p.Create = d.Path("/keys/new")
	}
	if q.after != "" {
		p.First = page.Address(path, page.WithLive(q.values(), q.live))
	}
	if q.order == app.Busiest || q.order == app.MostBlocked {
		p.Scanned = rankingNote + " Sort by name for all keys."
	}
	if list.Next != "" {
		onward := q.values()
		onward.Set("after", list.Next)
		p.Next = page.Address(path, page.WithLive(onward, q.live))
		if q.Computed() && len(list.Subjects) < keysPerPage {
			p.Scanned = "Looked at " + page.Number(int64(list.Scanned)) +
				" keys so far. Continue on the next page."
		}
	}
	if q.State == app.Near && list.Next == "" {
		p.Scanned = "A key joins with its next call after a limit was lowered."
	}
	onward := page.Address("", page.WithLive(nil, q.live))
	for _, s := range list.Subjects {
		row := d.keyRow(s, onward)
		if page.CanEdit(r) && s.Status == policy.Active {
			row.Edit = d.keyPath(s.Key) + "/limits"
		}
		p.Rows = append(p.Rows, row)
	}
	p.Live.Summary = keysSummary(p.Rows)
	return p
}

// addActivity adds what each row's key did in the last hour.
func (d *dashboard) addActivity(ctx context.Context, rows []templates.KeyRow) error {
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	now := time.Now()
	all, err := app.Activities(ctx, d.Usage, ids, now)
	if err != nil {
		return err
	}
	for i, a := range all {
		rows[i].Activity = activity(a, now)
	}
	return nil
}

func activity(a app.Activity, now time.Time) templates.Activity {
	out := templates.Activity{
		Spark: chart.Sparkline(columns(a.Points)), Allowed: a.Calls.Allowed, Denied: a.Calls.Denied,
		Calls: page.Number(a.Calls.Calls()), Blocked: page.Number(a.Calls.Denied), Used: "over 24 h",
	}
	switch ago := now.Sub(a.Last).Truncate(time.Minute); {
	case a.Last.IsZero():
	case ago < time.Minute:
		out.Used = "just now"
	case ago >= time.Hour:
		out.Used = page.Span(ago.Truncate(time.Hour)) + " ago"
	default:
		out.Used = page.Span(ago) + " ago"
	}
	return out
}

// rankingNote says how long rankings are.
var rankingNote = "Only the " + page.Number(usage.MaxTalkers) + " callers with the most this hour are ranked."

// sortRows sorts a ranking by what its rows show.
func sortRows(rows []templates.KeyRow, o app.Order) {
	by := map[app.Order]func(templates.Activity) int64{
		app.Busiest:     func(a templates.Activity) int64 { return a.Allowed },
		app.MostBlocked: func(a templates.Activity) int64 { return a.Denied },
	}[o]
	if by == nil {
		return
	}
	slices.SortStableFunc(rows, func(a, b templates.KeyRow) int {
		return cmp.Compare(by(b.Activity), by(a.Activity))
	})
}

// columns takes a series of counts apart.
func columns(points []usage.Point) (allowed, blocked []int64) {
	allowed, blocked = make([]int64, len(points)), make([]int64, len(points))
	for i, p := range points {
		allowed[i], blocked[i] = p.Allowed, p.Denied
	}
	return allowed, blocked
}

// keysSummary counts what a screen reader says of each change.
func keysSummary(rows []templates.KeyRow) string {
	blocked := 0
	for _, row := range rows {
		for _, b := range row.Badges {
			if b.State == "blocked" {
				blocked++
			}
		}
	}
	return page.Number(int64(len(rows))) + " keys shown, " + page.Number(int64(blocked)) + " blocked now"
}

func emptyKeys(q keysQuery, list app.FoundKeys) templates.Empty {
	switch {
	case list.Next != "":
		return templates.Empty{
			Heading: "None yet",
			Advice: "None of the " + page.Number(int64(list.Scanned)) +
				" keys searched matches. Continue on the next page.",
		}
	case q.after != "":
		return templates.Empty{Heading: "No keys after this",
			Advice: "The list is shorter now. Go to its first page."}
	case q.order == app.LastUsed:
		return templates.Empty{Heading: "No calls in 24 hours",
			Advice: "No key that called matches. Sort by name to see all."}
	case q.order != app.ByName:
		return templates.Empty{Heading: "No calls this hour",
			Advice: "None of the keys with the most matches. Sort by name to see all."}
	case q.Prefix != "" && !q.Anywhere && q.State == "" && q.Plan == 0 && q.Tag == "" && q.Group == "":
		return templates.Empty{
			Heading: "No key found",
			Advice: "No name starts with “" + page.Clip(q.Prefix, changes.MaxSearch) +
				"”. To find any part of a name, tick Anywhere.",
		}
	case !q.none():
		return templates.Empty{Heading: "No key found", Advice: "No key matches all filters."}
	}
	return templates.Empty{
		Heading: "No keys yet",
		Advice:  "Create a key, then call with it:",
		Command: `curl -i -H "x-api-key: $KEY" "$API_URL"`,
	}
}

// keyRow is a key and what a call of it would get now.
func (d *dashboard) keyRow(s app.Subject, query string) templates.KeyRow {
	row := templates.KeyRow{
		ID:       s.ID,
		Name:     page.Clip(s.Name, page.MaxName),
		Address:  d.Path("/keys/"+s.ID) + query,
		Plan:     page.Clip(s.Plan, page.MaxName),
		Badges:   wording.Badges(s),
		Readable: s.Status != policy.Unreadable,
	}
	for _, tag := range s.Tags {
		row.Tags = append(row.Tags, page.Clip(tag, policy.MaxTagLen))
	}
	for _, u := range s.Now.Limits {
		row.Windows = append(row.Windows, wording.Window(u))
	}
	return row
}

// sortLink is the head of a column that the list can be sorted by.
func (d *dashboard) sortLink(text string, o app.Order, k keysQuery) templates.Choice {
	current := k.order == o
	k.order = o
	return templates.Choice{Text: text, Current: current,
		Address: page.Address(d.Path("/keys"), page.WithLive(k.values(), k.live))}
}
