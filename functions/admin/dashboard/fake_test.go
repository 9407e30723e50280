package dashboard

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// fakeKeys is a registry in memory whose usage and failures a test sets.
type fakeKeys struct {
	mu   sync.Mutex
	keys map[string]policy.Key
	used map[string][]int64 // by key id, of each limit
	err  error              // what every call answers, if set
	race func(*policy.Key)  // what somebody else does to a key between the look and the write of an edit
	sets int                // how many edits were written
	now  time.Time
	// refuse is what the store finds wrong with every edit, if set.
	refuse *policy.InvalidError
	bound  int64 // requests above this are refused as the store would, if set
}

func newFakeKeys(keys ...policy.Key) *fakeKeys {
	f := &fakeKeys{keys: map[string]policy.Key{}, used: map[string][]int64{}, now: time.Date(2026, 11, 21, 10, 30, 0, 0, time.UTC)}
	for _, k := range keys {
		f.keys[k.ID] = k
	}
	return f
}

func (f *fakeKeys) List(_ context.Context, q policy.Query) (policy.Page, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return policy.Page{}, f.err
	}
	all := slices.SortedFunc(maps.Values(f.keys), func(a, b policy.Key) int { return strings.Compare(a.Name+a.ID, b.Name+b.ID) })
	var page policy.Page
	for _, k := range all {
		if !strings.HasPrefix(strings.ToLower(k.Name), strings.ToLower(q.Prefix)) || k.Name+k.ID <= q.After {
			continue
		}
		if len(page.Keys) == q.Count {
			last := page.Keys[len(page.Keys)-1]
			page.Next = last.Name + last.ID
			break
		}
		page.Keys = append(page.Keys, k)
	}
	return page, nil
}

func (f *fakeKeys) Get(_ context.Context, id string) (policy.Key, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return policy.Key{}, f.err
	}
	k, ok := f.keys[id]
	if !ok {
		return policy.Key{}, policy.ErrNotFound
	}
	return k, nil
}

func (f *fakeKeys) Usage(_ context.Context, keys []policy.Key) ([]limiter.Decision, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	all := make([]limiter.Decision, len(keys))
	for i, k := range keys {
		all[i] = f.decision(k)
	}
	return all, nil
}

func (f *fakeKeys) decision(k policy.Key) limiter.Decision {
	d := limiter.Decision{Allowed: true, Now: f.now}
	for i, l := range k.Limits {
		u := limiter.Usage{Limit: l, Remaining: l.Requests}
		if used := f.used[k.ID]; i < len(used) && used[i] > 0 {
			u.Remaining, u.Reset = max(0, l.Requests-used[i]), l.Span()*3/4
		}
		if u.Remaining == 0 {
			u.RetryAfter, d.Allowed = l.Span()/4, false
		}
		d.Limits = append(d.Limits, u)
	}
	return d
}

func (f *fakeKeys) SetLimits(_ context.Context, id string, version int64, limits []limiter.Limit) (policy.Key, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return policy.Key{}, f.err
	}
	k, ok := f.keys[id]
	if !ok {
		return policy.Key{}, policy.ErrNotFound
	}
	if f.race != nil {
		f.race(&k)
		f.keys[id] = k
	}
	if k.Version != version {
		return k, policy.ErrConflict
	}
	if f.refuse != nil {
		return policy.Key{}, f.refuse
	}
	for i, l := range limits {
		if f.bound > 0 && l.Requests > f.bound {
			return policy.Key{}, &policy.InvalidError{Fields: []policy.FieldError{{Field: rowField(i) + ".requests", Message: "too many for this plan"}}}
		}
	}
	k.Limits, k.Version, k.Updated = limits, k.Version+1, f.now
	f.keys[id] = k
	f.sets++
	return k, nil
}

func (f *fakeKeys) use(id string, used ...int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used[id] = used
}

func (f *fakeKeys) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *fakeKeys) key(id string) policy.Key {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.keys[id]
}

func (f *fakeKeys) put(k policy.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys[k.ID] = k
}

func (f *fakeKeys) written() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sets
}

func per(requests int64, window time.Duration) limiter.Limit {
	return limiter.Limit{Requests: requests, Window: window}
}

func testKey(id, name string, limits ...limiter.Limit) policy.Key {
	created := time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC)
	if len(limits) == 0 {
		limits = []limiter.Limit{per(10, 10*time.Second)}
	}
	return policy.Key{
		ID: id, Name: name, Env: "demo", Plan: "free", Status: policy.Active, Limits: limits, Version: 1, Created: created, Updated: created,
	}
}
