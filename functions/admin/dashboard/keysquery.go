package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/internal/usage"
	"tidegate/web/templates"
)

const (
	keysPerPage = 50
	maxCursor   = 1000
)

// The orders of the list other than by name. They have the keys with the most calls of
// the last hour alone.
const (
	busiestFirst = "busiest"
	blockedFirst = "blocked"
)

var keyOrders = []templates.Option{
	{Text: "by name"}, {Value: busiestFirst, Text: "most allowed this hour"},
	{Value: blockedFirst, Text: "most blocked this hour"},
}

// keysQuery is the state of the list, all of it in the address.
type keysQuery struct {
	app.KeyFilter
	order string
	after string
	live  int
}

func readKeysQuery(r *http.Request) (keysQuery, bool) {
	q := r.URL.Query()
	f, ok := changes.ReadKeyFilter(q)
	k := keysQuery{KeyFilter: f, order: q.Get("order"), after: q.Get("after"), live: page.LiveSeconds(r)}
	return k, ok && len(k.after) <= maxCursor &&
		(k.order == "" || k.order == busiestFirst || k.order == blockedFirst)
}

// findKeys answers the query.
func (d *dashboard) findKeys(ctx context.Context, set *policy.Set, q keysQuery) (app.FoundKeys, error) {
	rank := map[string]func(context.Context, time.Time, time.Time, int) ([]usage.Talker, error){
		busiestFirst: d.Usage.Busiest, blockedFirst: d.Usage.MostDenied,
	}[q.order]
	if rank == nil {
		return app.FindKeys(ctx, d.Keys, set, q.KeyFilter, q.after, keysPerPage)
	}
	now := time.Now()
	talkers, err := rank(ctx, now.Add(-time.Hour), now, usage.MaxTalkers)
	if err != nil {
		return app.FoundKeys{}, err
	}
	ids := make([]string, len(talkers))
	for i, t := range talkers {
		ids[i] = t.ID
	}
	return app.PickKeys(ctx, d.Keys, set, q.KeyFilter, ids)
}

func (k keysQuery) none() bool { return k.KeyFilter == app.KeyFilter{} && k.order == "" }

func (k keysQuery) values() url.Values {
	v := changes.FilterValues(k.KeyFilter)
	v.Set("after", k.after)
	v.Set("order", k.order)
	return v
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
