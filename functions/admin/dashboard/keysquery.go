package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"tidegate/functions/admin/keylist"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

const (
	keysPerPage = 50
	maxSearch   = 100 // characters of a search
	maxCursor   = 1000
)

// keysQuery is the state of the list, all of it in the address.
type keysQuery struct {
	keylist.Filter
	after string
	live  int
}

func readKeysQuery(r *http.Request) (keysQuery, bool) {
	q := r.URL.Query()
	f, ok := readKeyFilter(q)
	k := keysQuery{Filter: f, after: q.Get("after"), live: liveSeconds(q)}
	return k, ok && len(k.after) <= maxCursor
}

func readKeyFilter(q url.Values) (keylist.Filter, bool) {
	f := keylist.Filter{Prefix: q.Get("q"), State: keylist.State(q.Get("state"))}
	if plan := q.Get("plan"); plan != "" {
		n, err := strconv.Atoi(plan)
		if err != nil || n < 1 {
			return f, false
		}
		f.Plan = n
	}
	return f, len([]rune(f.Prefix)) <= maxSearch && isKeyState(f.State)
}

// filterValues are a filter's fields of an address.
func filterValues(f keylist.Filter) url.Values {
	v := url.Values{"q": {f.Prefix}, "state": {string(f.State)}}
	if f.Plan > 0 {
		v.Set("plan", strconv.Itoa(f.Plan))
	}
	return v
}

func (k keysQuery) none() bool { return k.Filter == keylist.Filter{} }

func (k keysQuery) values() url.Values {
	v := filterValues(k.Filter)
	v.Set("after", k.after)
	return v
}

// asOf is the instant of the usage on the store's clock, or now by ours when there is none.
func asOf(subjects []keylist.Subject) time.Time {
	for _, s := range subjects {
		if !s.Now.Now.IsZero() {
			return s.Now.Now
		}
	}
	return time.Now()
}

// decisionOf is the usage of one key.
func (d *dashboard) decisionOf(ctx context.Context, set *policy.Set, k policy.Key) (limiter.Decision, error) {
	decisions, err := d.Keys.Usage(ctx, set, []policy.Key{k})
	if err != nil {
		return limiter.Decision{}, err
	}
	return decisions[0], nil
}
