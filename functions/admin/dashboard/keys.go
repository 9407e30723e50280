package dashboard

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/chart"
	"tidegate/functions/admin/dashboard/page"
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
	list, err := d.findKeys(r.Context(), set, query)
	if err != nil {
		d.FailStore(w, r, "list keys", err)
		return
	}
	view := d.keysPage(r, set, query, list)
	if err := d.addSparklines(r.Context(), view.Rows); err != nil {
		d.FailStore(w, r, "read calls", err)
		return
	}
	d.Remember(w, r)
	if page.IsRefresh(r) {
		d.Render(w, r, http.StatusOK, templates.KeysLive(view))
		return
	}
	if view.Bulk, err = d.bulk.Bar(r, query.KeyFilter, view); err != nil {
		d.FailStore(w, r, "count keys", err)
		return
	}
	d.Render(w, r, http.StatusOK, templates.Keys(view))
}

func (d *dashboard) keysPage(r *http.Request, set *policy.Set, q keysQuery,
	list app.FoundKeys) templates.KeysPage {
	path := d.Path("/keys")
	p := templates.KeysPage{
		Page:    d.Page(r, "Keys"),
		Live:    d.Live(r, path, q.values(), asOf(list.Subjects)),
		Search:  d.keySearch(set, q),
		Empty:   emptyKeys(q, list),
		Export:  page.Address(d.Path("/keys.csv"), changes.FilterValues(q.KeyFilter)),
		Callers: d.Path("/callers"),
	}
	if page.CanEdit(r) {
		p.Create = d.Path("/keys/new")
	}
	if q.after != "" {
		p.First = page.Address(path, page.WithLive(changes.FilterValues(q.KeyFilter), q.live))
	}
	if list.Next != "" {
		onward := changes.FilterValues(q.KeyFilter)
		onward.Set("after", list.Next)
		p.Next = page.Address(path, page.WithLive(onward, q.live))
		if q.Computed() && len(list.Subjects) < keysPerPage {
			p.Scanned = "Looked at " + page.Number(int64(list.Scanned)) +
				" keys so far. Continue on the next page."
		}
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

func (d *dashboard) keySearch(set *policy.Set, q keysQuery) templates.Search {
	s := templates.Search{
		Action: d.Path("/search"), Text: q.Prefix, Anywhere: q.Anywhere, Tag: q.Tag, State: string(q.State),
		States: changes.KeyStates,
		Order:  q.order, Orders: keyOrders,
	}
	s.Plans = append(s.Plans, templates.Option{Text: "any plan"})
	for _, p := range set.Plans {
		s.Plans = append(s.Plans, templates.Option{
			Value: strconv.Itoa(p.Number), Text: page.Clip(p.Name, page.MaxName),
		})
	}
	if q.Plan > 0 {
		s.Plan = strconv.Itoa(q.Plan)
	}
	if q.live > 0 {
		s.Live = strconv.Itoa(q.live)
	}
	if !q.none() {
		s.Clear = page.Address(d.Path("/keys"), page.WithLive(nil, q.live))
	}
	return s
}

const (
	sparkSpan = time.Hour
	sparkStep = 2 * time.Minute
)

// addSparklines draws the last hour of each row.
func (d *dashboard) addSparklines(ctx context.Context, rows []templates.KeyRow) error {
	if len(rows) == 0 {
		return nil
	}
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	now := time.Now()
	series, err := d.Usage.Sparklines(ctx, ids, now.Add(-sparkSpan), now, sparkStep)
	if err != nil {
		return err
	}
	for i, points := range series {
		allowed, blocked := columns(points)
		rows[i].Spark = chart.Sparkline(allowed, blocked)
	}
	return nil
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
	case q.order != "":
		return templates.Empty{Heading: "No calls this hour",
			Advice: "None of the busiest keys matches. Sort by name to see all."}
	case q.Prefix != "" && !q.Anywhere && q.State == "" && q.Plan == 0 && q.Tag == "":
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
