package dashboard

import (
	"net/http"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/internal/policy"
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

// asOf is the instant of the usage on the store's clock, or now by ours when there is
// none.
func asOf(subjects []app.Subject) time.Time {
	for _, s := range subjects {
		if !s.Now.Now.IsZero() {
			return s.Now.Now
		}
	}
	return time.Now()
}
