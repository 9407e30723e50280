package dashboard

import (
	"net/http"
	"net/url"
	"strconv"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

const (
	keysPerPage = 50
	maxCursor   = 1000
)

var keyOrders = []templates.Option{
	{Value: string(app.ByName), Text: "by name"},
	{Value: string(app.Busiest), Text: "most calls this hour"},
	{Value: string(app.MostBlocked), Text: "most blocked this hour"},
	{Value: string(app.LastUsed), Text: "last used first"},
}

// keysQuery is the state of the list, all of it in the address.
type keysQuery struct {
	app.KeyFilter
	order app.Order
	after string
	live  int
}

func readKeysQuery(r *http.Request) (keysQuery, bool) {
	q := r.URL.Query()
	f, ok := changes.ReadKeyFilter(q)
	k := keysQuery{KeyFilter: f, order: app.Order(q.Get("order")), after: q.Get("after"),
		live: page.LiveSeconds(r)}
	return k, ok && len(k.after) <= maxCursor && app.IsOrder(k.order)
}

func (k keysQuery) none() bool { return k.KeyFilter == app.KeyFilter{} && k.order == "" }

// values are the query's fields of an address, but for where it goes on.
func (k keysQuery) values() url.Values {
	v := changes.FilterValues(k.KeyFilter)
	v.Set("order", string(k.order))
	return v
}

func (d *dashboard) keySearch(set *policy.Set, q keysQuery) templates.Search {
	s := templates.Search{
		Action: d.Path("/search"), Text: q.Prefix, Anywhere: q.Anywhere, Tag: q.Tag,
		Group: q.Group, State: string(q.State),
		States: changes.KeyStates,
		Order:  string(q.order), Orders: keyOrders,
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

// sortLink is the head of a column that the list can be sorted by.
func (d *dashboard) sortLink(text string, o app.Order, k keysQuery) templates.Choice {
	current := k.order == o
	k.order = o
	return templates.Choice{Text: text, Current: current,
		Address: page.Address(d.Path("/keys"), page.WithLive(k.values(), k.live))}
}
