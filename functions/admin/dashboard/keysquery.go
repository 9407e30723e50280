package dashboard

import (
	"net/http"
	"net/url"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
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

// sortLink is the head of a column that the list can be sorted by.
func (d *dashboard) sortLink(text string, o app.Order, k keysQuery) templates.Choice {
	current := k.order == o
	k.order = o
	return templates.Choice{Text: text, Current: current,
		Address: page.Address(d.Path("/keys"), page.WithLive(k.values(), k.live))}
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
