package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

const (
	keysPerPage = 50
	maxSearch   = 100 // characters of a search
	maxCursor   = 1000
	keysPerScan = 250  // keys that are looked at together for a state
	maxScanned  = 2000 // keys that one answer looks at
)

// keyFilter says which keys are meant.
type keyFilter struct {
	search string
	plan   int // number; 0 for all
	state  string
}

// keysQuery is the state of the list, all of it in the address.
type keysQuery struct {
	keyFilter
	after string
	live  int
}

func readKeysQuery(r *http.Request) (keysQuery, bool) {
	q := r.URL.Query()
	f, ok := readKeyFilter(q)
	k := keysQuery{keyFilter: f, after: q.Get("after"), live: liveSeconds(q)}
	return k, ok && len(k.after) <= maxCursor
}

func readKeyFilter(q url.Values) (keyFilter, bool) {
	f := keyFilter{search: q.Get("q"), state: q.Get("state")}
	if plan := q.Get("plan"); plan != "" {
		n, err := strconv.Atoi(plan)
		if err != nil || n < 1 {
			return f, false
		}
		f.plan = n
	}
	return f, len([]rune(f.search)) <= maxSearch && isKeyState(f.state)
}

func (f keyFilter) values() url.Values {
	v := url.Values{"q": {f.search}, "state": {f.state}}
	if f.plan > 0 {
		v.Set("plan", strconv.Itoa(f.plan))
	}
	return v
}

func (f keyFilter) none() bool { return f == keyFilter{} }

func (k keysQuery) values() url.Values {
	v := k.keyFilter.values()
	v.Set("after", k.after)
	return v
}

// listed is the part of the filter that a list answers; the rest is looked up key by key.
func (f keyFilter) listed() policy.Query {
	return policy.Query{Prefix: f.search, Plan: f.plan, Overridden: f.state == "overridden"}
}

// computed reports whether keys must be looked at one by one.
func (f keyFilter) computed() bool {
	return f.state != "" && (f.state != "overridden" || f.plan > 0)
}

// found is a part of the keys that a filter means.
type found struct {
	subjects []subject
	next     string // the cursor behind them; empty when there are no more
	scanned  int    // keys that were looked at
}

// find returns up to count keys that the filter means, behind a cursor. It looks at no more than maxScanned.
func (d *dashboard) find(ctx context.Context, set *policy.Set, f keyFilter, after string, count int) (found, error) {
	q := f.listed()
	q.After, q.Count = after, count
	if f.computed() {
		q.Count = keysPerScan
	}
	plan, _ := set.Numbered(f.plan)
	var out found
	for {
		page, err := d.Keys.List(ctx, set, q)
		if err != nil {
			return found{}, err
		}
		subjects, err := d.subjects(ctx, set, page.Keys)
		if err != nil {
			return found{}, err
		}
		for i, s := range subjects {
			out.scanned++
			if !s.is(f.state) || f.plan > 0 && s.Plan != plan.Name {
				continue
			}
			out.subjects = append(out.subjects, s)
			if len(out.subjects) == count {
				if i+1 < len(subjects) || page.Next != "" {
					out.next = policy.Cursor(s.Key)
				}
				return out, nil
			}
		}
		if page.Next == "" || out.scanned >= maxScanned {
			out.next = page.Next
			return out, nil
		}
		q.After = page.Next
	}
}

// subjects looks up what each key would get now.
func (d *dashboard) subjects(ctx context.Context, set *policy.Set, keys []policy.Key) ([]subject, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	decisions, err := d.Keys.Usage(ctx, set, keys)
	if err != nil {
		return nil, err
	}
	at := time.Now()
	all := make([]subject, len(keys))
	for i, k := range keys {
		all[i] = newSubject(set, k, decisions[i], at)
	}
	return all, nil
}

// asOf is the instant of the usage on the store's clock, or now by ours when there is none.
func asOf(subjects []subject) time.Time {
	for _, s := range subjects {
		if !s.now.Now.IsZero() {
			return s.now.Now
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
