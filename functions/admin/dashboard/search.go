package dashboard

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

const maxCursor = 1000 // bytes of a list's cursor

var keyOrders = []templates.Option{
	{Value: string(app.ByName), Text: "by name"},
	{Value: string(app.Closest), Text: "closest to a limit"},
	{Value: string(app.Busiest), Text: "most calls, last hour"},
	{Value: string(app.MostDenied), Text: "most denied, last hour"},
	{Value: string(app.Today), Text: "busiest today"},
}

// keyQuery is the filter, the order and the page of the key list, all from its address.
type keyQuery struct {
	app.KeyFilter
	order app.Order
	after string // cursor; empty for the first page
	live  int    // seconds between refreshes
}

// readKeyQuery reads the query. The error is the answer to an invalid one.
func readKeyQuery(set *policy.Set, r *http.Request) (keyQuery, error) {
	values := r.URL.Query()
	f, problem := changes.ReadKeyFilter(set, values)
	q := keyQuery{KeyFilter: f, order: app.Order(values.Get("order")), after: values.Get("after"),
		live: page.LiveSeconds(r)}
	if problem == "" && (len(q.after) > maxCursor || !app.IsOrder(q.order)) {
		problem = "The address may be mistyped."
	}
	if problem != "" {
		return q, page.Problem{Status: http.StatusBadRequest, Heading: "Invalid filter", Advice: problem}
	}
	return q, nil
}

// isZero reports whether the query has no filter and the default order.
func (q keyQuery) isZero() bool { return q.KeyFilter == app.KeyFilter{} && q.order == app.ByName }

// values returns the query parameters of the filter and the order.
func (q keyQuery) values() url.Values {
	v := changes.FilterValues(q.KeyFilter)
	v.Set("order", string(q.order))
	return v
}

// keyFilters are the parameters that are chips, with their names.
var keyFilters = []templates.Option{
	{Value: "q", Text: "Name"}, {Value: "tag", Text: "Tag"}, {Value: "group", Text: "Group"},
	{Value: "plan", Text: "Plan"}, {Value: "state", Text: "State"},
}

// keySearch returns the search form of the key list.
func (d *dashboard) keySearch(set *policy.Set, q keyQuery) templates.Search {
	s := templates.Search{
		Action: d.Path("/search"), Text: q.Prefix, Tag: q.Tag, Group: q.Group,
		State: string(q.State), States: changes.KeyStates,
		Order: string(q.order), Orders: keyOrders,
		Plans: []templates.Option{{Text: "any plan"}},
	}
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
	s.Clear = page.Address(d.Path("/keys"), page.WithLive(nil, q.live))
	s.Chips = page.Chips(d.Path("/keys"), page.WithLive(q.values(), q.live), func(name, value string) string {
		switch name {
		case "plan":
			return set.PlanName(q.Plan)
		case "state":
			return changes.StateText(q.State)
		}
		return value
	}, keyFilters...)
	return s
}

// searches holds the pages with a form that searches for a key, by the form's name. field
// is the form field with the key; others are the remaining fields. The forms are posted
// to search, so that a pasted secret appears in no address and no browser history.
var searches = map[string]struct {
	path, field string
	others      []string
}{
	"":        {"/keys", "q", []string{"tag", "group", "plan", "state", "order", "live"}},
	"explain": {"/explain", "key", []string{"method", "path", "api", "stage", "address", "forwarded"}},
	"audit":   {"/audit", "subject", []string{"action", "by", "change", "from", "to", "range"}},
	"find":    {"/search", "q", nil},
}

// search redirects to the form's page with the typed text, or with the key's id if the
// text is an id or a secret. From the key list and the search for anything, it redirects to
// the page of such a key. The palette gets the results in place of a redirect.
func (d *dashboard) search(w http.ResponseWriter, r *http.Request) error {
	if err := page.ParseForm(r); err != nil {
		return err
	}
	on := r.PostForm.Get("on")
	s, known := searches[on]
	if !known {
		return page.Problem{Status: http.StatusBadRequest}
	}
	typed := strings.TrimSpace(r.PostForm.Get(s.field))
	if on == "find" && page.IsRefresh(r) {
		results, err := d.find(r, typed)
		if err != nil {
			return page.Failed("search", err)
		}
		return d.Render(w, r, http.StatusOK, templates.Results(results))
	}
	found, err := d.Keys.ResolveKey(r.Context(), typed)
	if err != nil {
		return page.Failed("find key", err)
	}
	if note := secretNote(found); note != "" {
		d.Flash(r, note, "")
	}
	if found.Key.ID != "" && (on == "" || on == "find") {
		return page.Redirect(w, r, d.keyPath(found.Key))
	}
	query := url.Values{s.field: {typed}}
	switch {
	case found.Key.ID != "":
		query.Set(s.field, found.Key.ID)
	case found.Secret:
		d.Flash(r, noSuchKey, "")
		query.Del(s.field)
	}
	for _, name := range s.others {
		query.Set(name, r.PostForm.Get(name))
	}
	return page.Redirect(w, r, page.Address(d.Path(s.path), query))
}

const noSuchKey = "No key has this secret."

// redirectSecret redirects from an address that contains a secret to the page of its key,
// or to the key list if no key has it.
func (d *dashboard) redirectSecret(w http.ResponseWriter, r *http.Request, secret string) error {
	found, err := d.Keys.ResolveKey(r.Context(), secret)
	to := d.Path("/keys")
	switch {
	case err != nil:
		return page.Failed("find key", err)
	case found.Key.ID != "":
		to = d.keyPath(found.Key)
		if note := secretNote(found); note != "" {
			d.Flash(r, note, "")
		}
	default:
		d.Flash(r, noSuchKey, "")
	}
	return page.Redirect(w, r, to)
}
