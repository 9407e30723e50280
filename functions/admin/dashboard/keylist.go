package dashboard

import (
	"net/http"
	"tidegate/functions/admin/policydoc"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/command"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/list"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

const keysPerPage = 50

func (d *dashboard) showKeys(w http.ResponseWriter, r *http.Request) error {
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		return page.Failed("read policy", err)
	}
	query, err := readKeyQuery(set, r)
	if err != nil {
		return err
	}
	if app.LooksLikeSecret(query.Prefix) {
		return d.redirectSecret(w, r, query.Prefix)
	}
	list, err := app.FindOrdered(r.Context(), d.Keys, set, query.KeyFilter, query.order, query.after,
		keysPerPage)
	if err != nil {
		return page.Failed("list keys", err)
	}
	view := d.keyListPage(r, set, query, list)
	all, err := d.readActivity(r.Context(), app.IDsOf(list.Subjects, subjectID))
	if err != nil {
		return page.Failed("read calls", err)
	}
	for i, a := range all {
		if a.Used == notLately && time.Since(list.Subjects[i].Created) < lately {
			a.Used = "never"
		}
		view.Rows[i].Activity = a
	}
	d.Remember(w, r)
	if page.IsRefresh(r) {
		return d.Render(w, r, http.StatusOK, templates.KeysLive(view))
	}
	if !query.Computed() {
		n, err := d.Keys.Count(r.Context(), query.KeyFilter)
		if err != nil {
			return page.Failed("count keys", err)
		}
		view.Matching, view.Total = page.Number(n), app.KeyCount(n)
	}
	view.Bulk = command.Bar(d.Renderer, r, query.KeyFilter, view)
	if view.Groups, err = d.groups.Links(r.Context(), query.Prefix); err != nil {
		return page.Failed("find groups", err)
	}
	return d.Render(w, r, http.StatusOK, templates.Keys(view))
}

func (d *dashboard) keyListPage(r *http.Request, set *policy.Set, q keyQuery,
	list app.FoundKeys) templates.KeysPage {
	path := d.Path("/keys")
	here := q.values()
	here.Set("after", q.after)
	p := templates.KeysPage{
		Page: d.Page(r, "Keys"),
		Live: d.Live(r, path, here, asOf(list.Subjects)),
		Sorts: templates.KeySorts{
			Name:   d.sortLink("Key", app.ByName, q),
			Calls:  d.sortLink("Calls", app.Busiest, q),
			Denied: d.sortLink("Denied", app.MostDenied, q),
		},
		Search:    d.keySearch(set, q),
		Overrides: q.State == app.Overridden,
		Empty:     d.emptyKeys(q, list),
		Export:    page.Address(d.Path("/keys.csv"), changes.FilterValues(q.KeyFilter)),
	}
	if page.CanEdit(r) {
		p.Create = d.Path("/keys/new")
	}
	if q.after != "" {
		p.First = page.Address(path, page.WithLive(q.values(), q.live))
	}
	p.Scanned = scannedNote(q, list)
	if list.Next != "" {
		next := q.values()
		next.Set("after", list.Next)
		p.Next = page.Address(path, page.WithLive(next, q.live))
	}
	query := page.Address("", page.WithLive(nil, q.live))
	blocked := 0
	for _, s := range list.Subjects {
		row := d.keyRow(s)
		row.Address += query
		if page.CanEdit(r) && s.Status == policy.Active {
			row.Edit = d.keyPath(s.Key) + "/limits"
		}
		if p.Overrides && s.Override != nil {
			row.Override = d.overrideCell(set, s.Key, page.CanEdit(r))
		}
		if isBlocked(row) {
			blocked++
		}
		p.Rows = append(p.Rows, row)
	}
	p.Live.Summary = page.Number(int64(len(p.Rows))) + " keys shown, " + page.Number(int64(blocked)) +
		" denied now"
	return p
}

// scannedNote says which keys the list covers, if not all that match.
func scannedNote(q keyQuery, list app.FoundKeys) string {
	switch {
	case app.IsRanking(q.order):
		return app.RankingNote + " Sort by name for all keys."
	case list.Next != "" && q.Computed() && len(list.Subjects) < keysPerPage:
		return "Searched " + page.Number(int64(list.Scanned)) + " keys so far. Continue on the next page."
	case q.State == app.Near && list.Next == "":
		return "After a limit is lowered, a key is listed from its next call on."
	}
	return ""
}

// sortLink returns the header of a column that sorts the list.
func (d *dashboard) sortLink(text string, o app.Order, q keyQuery) templates.Choice {
	current := q.order == o
	q.order = o
	return templates.Choice{Text: text, Current: current,
		Address: page.Address(d.Path("/keys"), page.WithLive(q.values(), q.live))}
}

func (d *dashboard) emptyKeys(q keyQuery, list app.FoundKeys) templates.Empty {
	switch {
	case list.Next != "":
		return templates.Empty{
			Heading: "No keys on this page",
			Advice: "None of the " + page.Number(int64(list.Scanned)) +
				" keys searched matches. Continue on the next page.",
		}
	case q.after != "":
		return templates.Empty{Heading: "No more keys",
			Advice: "The list is shorter now. Go to the first page."}
	case q.order == app.Today:
		return templates.Empty{Heading: "No calls today",
			Advice: "No key used today (UTC) matches. Sort by name to see all keys."}
	case app.IsRanking(q.order):
		return templates.Empty{Heading: "No calls in the last hour",
			Advice: "None of its top callers matches. Sort by name to see all keys."}
	case q.Prefix != "" && q.KeyFilter == (app.KeyFilter{Prefix: q.Prefix, Anywhere: true}):
		return templates.Empty{
			Heading: "No key found",
			Advice:  "No name contains “" + page.Clip(q.Prefix, changes.MaxSearch) + "”.",
		}
	case q.KeyFilter == (app.KeyFilter{State: app.Overridden}):
		return templates.Empty{Heading: "No overrides",
			Advice: "Every key has its plan's limits. Override them on a key's page."}
	case !q.isZero():
		return templates.Empty{Heading: "No key found", Advice: "No key matches all filters."}
	}
	return templates.Empty{
		Heading: "No keys yet",
		Advice:  "Create a key, then call with it:",
		Command: d.exampleCall(exampleWithKey),
	}
}

// keyRow returns a key with its badges and the use of its limits.
func (d *dashboard) keyRow(s app.Subject) templates.KeyRow {
	row := templates.KeyRow{
		ID:       s.ID,
		Name:     page.Clip(s.Name, page.MaxName),
		Address:  d.keyPath(s.Key),
		Plan:     page.Clip(s.Plan, page.MaxName),
		Badges:   wording.Badges(s),
		Readable: s.Status != policy.Unreadable,
	}
	for _, tag := range s.Tags {
		row.Tags = append(row.Tags, page.Clip(tag, policy.MaxTagLen))
	}
	for _, l := range s.Limits {
		if l.Unread {
			continue
		}
		w := wording.Window(l)
		if l.Shared() {
			w.Marks = append(w.Marks, w.For)
		}
		row.Windows = append(row.Windows, w)
	}
	return row
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

// exportKeys sends the keys that match the filter as CSV, up to the bounds of list.File.
// The last row of a full file, and a Link header, lead to the rest.
func (d *dashboard) exportKeys(w http.ResponseWriter, r *http.Request) error {
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		return page.Failed("read policy", err)
	}
	query, err := readKeyQuery(set, r)
	if err != nil {
		return err
	}
	file, place := list.NewFile[app.ListedKey](), list.Paging{After: query.after, Count: list.CSVRows}
	for {
		found, err := d.Keys.Keys(r.Context(), set, query.KeyFilter, app.ByName, place)
		if err != nil {
			return page.Failed("export keys", err)
		}
		for _, k := range found.Items {
			file.Row(k)
		}
		if place.After = found.Next; place.After == "" || file.Ends() {
			break
		}
	}
	next := ""
	if place.After != "" {
		values := changes.FilterValues(query.KeyFilter)
		values.Set("after", place.After)
		next = page.Address(d.Path("/keys.csv"), values)
	}
	file.Send(w, "tidegate-keys.csv", next)
	return nil
}

func subjectID(s app.Subject) string { return s.ID }

// redirectOverrides redirects the address of a former page to the list of keys.
func (d *dashboard) redirectOverrides(w http.ResponseWriter, r *http.Request) error {
	http.Redirect(w, r, d.Path("/keys?state="+string(app.Overridden)), http.StatusMovedPermanently)
	return nil
}

// overrideCell describes the override of a key, which is not nil.
func (d *dashboard) overrideCell(set *policy.Set, k policy.Key, canEdit bool) *templates.OverrideCell {
	endless := *k.Override
	endless.Until = time.Time{} // a badge has the end
	plan, _ := set.Plan(k.Plan)
	cell := &templates.OverrideCell{
		Name:   page.Clip(k.Name, page.MaxName),
		Before: policydoc.LimitsText(plan.Limits),
		After:  wording.Override(&endless),
		Reason: page.Clip(endless.Reason, policy.MaxReasonLen),
	}
	if canEdit && k.Status == policy.Active {
		cell.End = d.keyPath(k) + "/end"
	}
	return cell
}
