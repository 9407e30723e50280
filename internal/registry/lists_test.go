package registry_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"tidegate/internal/registry"
	"time"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/testing/valkeytest"
)

// rows lists all keys of a query, page by page, and returns how often each is listed.
func (w *world) rows(t *testing.T, q registry.Query) map[string]int {
	t.Helper()
	set, times := must(w.Set(t.Context())), map[string]int{}
	for {
		page := must(w.List(t.Context(), set, q))
		for _, k := range page.Keys {
			times[k.ID]++
		}
		if q.After = page.Next; q.After == "" {
			return times
		}
	}
}

// wantCounts compares the lengths of the list of all keys and of the plans' lists.
func (w *world) wantCounts(t *testing.T, all int64, perPlan ...int64) {
	t.Helper()
	counts := must(w.PlanCounts(t.Context(), must(w.Set(t.Context()))))
	if n := must(w.Count(t.Context(), registry.Query{})); n != all {
		t.Errorf("got %d entries in the list of all keys, want %d", n, all)
	}
	for i, want := range perPlan {
		if counts[i+1] != want {
			t.Errorf("plan %d: got %d keys, want %d", i+1, counts[i+1], want)
		}
	}
}

// A second adoption of a caller fails and leaves the first name and one entry.
func TestAdoptTwice(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", perMinute(10)...)
	id := w.TokenCaller("issuer", "somebody")
	must(w.Adopt(t.Context(), policy.Token, id, "first", nil, byTest))
	if _, err := w.Adopt(t.Context(), policy.Token, id, "second", nil, byTest); !errors.Is(err,
		policy.ErrConflict) {
		t.Errorf("second adoption: got %v, want ErrConflict", err)
	}
	w.wantCounts(t, 1)
	if page := must(w.List(t.Context(), must(w.Set(t.Context())), registry.Query{})); len(page.Keys) != 1 ||
		page.Keys[0].Name != "first" {
		t.Errorf("listed: got %+v, want first", page.Keys)
	}
}

// During concurrent edits, creations and reads of the lists, no page has a key twice.
// Afterwards every key is listed once where it belongs.
func TestListsDuringEdits(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "a", perMinute(10)...)
	w.plan(t, "b", perMinute(10)...)
	var ids []string
	for i := range 8 {
		k, _ := w.create(t, fmt.Sprint("key", i), "a")
		ids = append(ids, k.ID)
	}
	var writers, readers sync.WaitGroup
	for worker := range 3 {
		writers.Go(func() {
			for i := range 15 {
				k, err := w.Get(t.Context(), ids[(i*7+worker)%len(ids)])
				if err == nil {
					_, err = w.Update(t.Context(), k.ID, k.Version, "key.edit", byTest, func(k *policy.Key) {
						k.Name, k.Plan = fmt.Sprint("key", worker, i), []string{"a", "b"}[i%2]
					})
				}
				if err != nil && !errors.Is(err, policy.ErrConflict) {
					t.Error(err)
				}
			}
		})
	}
	writers.Go(func() {
		for i := range 15 {
			w.create(t, fmt.Sprint("new", i), "a")
		}
	})
	stop := make(chan struct{})
	readers.Go(func() {
		set := must(w.Set(t.Context()))
		for {
			select {
			case <-stop:
				return
			default:
			}
			seen := map[string]bool{}
			for _, k := range must(w.List(t.Context(), set, registry.Query{Count: 500})).Keys {
				if seen[k.ID] {
					t.Errorf("got %s twice in a page", k.ID)
				}
				seen[k.ID] = true
			}
		}
	})
	writers.Wait()
	close(stop)
	readers.Wait()
	w.rows(t, registry.Query{Plan: 1})
	w.rows(t, registry.Query{Plan: 2})
	plans := map[string]int64{}
	for id, times := range w.rows(t, registry.Query{Count: 7}) {
		plans[must(w.Get(t.Context(), id)).Plan]++
		if times != 1 {
			t.Errorf("got %s %d times, want once", id, times)
		}
	}
	w.wantCounts(t, 23, plans["a"], plans["b"])
	if plans["a"]+plans["b"] != 23 {
		t.Errorf("got %v keys by plan, want 23 in all", plans)
	}
}

// wantListed compares the keys of a query with those for which the oracle in returns
// true.
func (w *world) wantListed(t *testing.T, when string, q registry.Query, ids []string,
	in func(*policy.Set, policy.Key) bool) {
	t.Helper()
	set, want := must(w.Set(t.Context())), map[string]int{}
	for _, id := range ids {
		if k := must(w.Get(t.Context(), id)); in(set, k) {
			want[id] = 1
		}
	}
	q.Count = 2
	if got := w.rows(t, q); !maps.Equal(got, want) {
		t.Errorf("%s, %+v: got %v, want %v", when, q, got, want)
	}
}

// listOracles reports for each list whether a key belongs to it.
var listOracles = map[registry.Query]func(*policy.Set, policy.Key) bool{
	{List: registry.Overridden}: func(_ *policy.Set, k policy.Key) bool { return k.Override != nil },
	{List: registry.Revoked}:    func(_ *policy.Set, k policy.Key) bool { return k.Status == policy.Revoked },
	{List: registry.Expiring}:   func(_ *policy.Set, k policy.Key) bool { return !k.Expires.IsZero() },
	{Tag: "eu"}:                 tagged("eu"),
	{Tag: "a:b é"}:              tagged("a:b é"),
	{List: registry.Shadowed}: func(set *policy.Set, k policy.Key) bool {
		p, _ := set.Plan(k.Plan)
		return p.Limits[0].Shadow || k.Override != nil && k.Override.Limits[0].Shadow
	},
}

func tagged(tag string) func(*policy.Set, policy.Key) bool {
	return func(_ *policy.Set, k policy.Key) bool { return slices.Contains(k.Tags, tag) }
}

func inShadow(requests int64) []limits.Limit {
	list := perMinute(requests)
	list[0].Shadow = true
	return list
}

func (w *world) wantAllListed(t *testing.T, when string, ids []string) {
	t.Helper()
	for q, in := range listOracles {
		w.wantListed(t, when, q, ids, in)
	}
}

// mixedKeys creates n keys in every state, of a plan in shadow and of another. It
// returns their ids.
func (w *world) mixedKeys(t *testing.T, n int) []string {
	t.Helper()
	w.plan(t, "free", perMinute(10)...)
	w.save(t, func(s *policy.Set) {
		s.Plans = append(s.Plans, policy.Plan{Name: "watched", Limits: inShadow(5)})
	})
	ids := make([]string, n)
	for i := range n {
		k, _ := w.create(t, fmt.Sprintf("key%03d", n-i), []string{"free", "watched"}[i%2])
		ids[i] = k.ID
		must(w.Update(t.Context(), k.ID, k.Version, "key.edit", byTest, func(k *policy.Key) {
			switch i % 5 {
			case 1:
				k.Status, k.Tags = policy.Revoked, []string{"eu"}
			case 2:
				k.Tags = []string{"EU", "a:b é", "eu"}
				k.Expires = time.Now().Add(time.Hour)
			case 3:
				k.Override = &policy.Override{Limits: perMinute(3), Reason: "a test"}
				k.Override.Limits[0].Shadow = true
			case 4:
				k.Override = &policy.Override{Limits: perMinute(3), Reason: "a test"}
			}
		}))
	}
	return ids
}

// Every list has the keys of its oracle, before and after edits of keys and of the plans'
// limits.
func TestListsFollowEdits(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		ids := w.mixedKeys(t, 10)
		w.wantAllListed(t, "created", ids)
		for i, id := range ids {
			k := must(w.Get(t.Context(), id))
			must(w.Update(t.Context(), id, k.Version, "key.edit", byTest, func(k *policy.Key) {
				k.Status, k.Expires, k.Override = policy.Active, time.Time{}, nil
				switch i % 3 {
				case 0:
					k.Status, k.Name = policy.Revoked, k.Name+"x"
				case 1:
					k.Tags = []string{"a:b é"}
				}
			}))
		}
		w.wantAllListed(t, "edited", ids)
		w.save(t, func(s *policy.Set) { s.Plans[0].Limits, s.Plans[1].Limits = inShadow(10), perMinute(5) })
		w.wantAllListed(t, "plans changed", ids)
	})
}

// registry.Shadowed has callers that have a plan in shadow by default, who are not in that
// plan's list.
func TestShadowedCallersByDefaultPlan(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", perMinute(10)...)
	id := w.TokenCaller("issuer", "somebody")
	must(w.Adopt(t.Context(), policy.Token, id, "somebody", nil, byTest))
	w.save(t, func(s *policy.Set) { s.TokenPlan, s.Plans[0].Limits = "free", inShadow(10) })
	if got := w.rows(t, registry.Query{List: registry.Shadowed}); got[id] != 1 {
		t.Errorf("got %v, want %s", got, id)
	}
}
