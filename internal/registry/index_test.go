package registry

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/testing/valkeytest"
)

// rows lists all keys of a query, page by page, and returns how often each is listed.
func (w *world) rows(t *testing.T, q Query) map[string]int {
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
	if n := must(w.Count(t.Context(), Query{})); n != all {
		t.Errorf("got %d entries in the list of all keys, want %d", n, all)
	}
	for i, want := range perPlan {
		if counts[i+1] != want {
			t.Errorf("plan %d: got %d keys, want %d", i+1, counts[i+1], want)
		}
	}
}

// addStale adds entries to lists as interrupted edits leave them.
func (w *world) addStale(t *testing.T, entries ...staleEntry) {
	t.Helper()
	for _, e := range entries {
		if err := w.client.Do(t.Context(), w.client.B().Zadd().Key(e.list).ScoreMember().ScoreMember(0,
			e.member).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
}

// An edit that fails with a conflict leaves no entry in the lists.
func TestConflictsLeaveNoEntries(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	for _, plan := range []string{"a", "b", "c"} {
		w.plan(t, plan, perMinute(10)...)
	}
	stored := map[string]int64{} // keys by plan
	for i := range 20 {
		k, _ := w.create(t, fmt.Sprint("key", i), "a")
		var edits sync.WaitGroup
		for _, plan := range []string{"b", "c"} {
			edits.Go(func() {
				_, err := w.Update(t.Context(), k.ID, 1, "key.edit", byTest, func(k *policy.Key) {
					k.Plan, k.Name = plan, k.Name+plan
				})
				if err != nil && !errors.Is(err, policy.ErrConflict) {
					t.Error(err)
				}
			})
		}
		edits.Wait()
		stored[must(w.Get(t.Context(), k.ID)).Plan]++
	}
	w.wantCounts(t, 20, 0, stored["b"], stored["c"])
	for id := range w.rows(t, Query{Count: 3}) {
		k := must(w.Get(t.Context(), id))
		must(w.Update(t.Context(), id, k.Version, "key.plan", byTest, func(k *policy.Key) { k.Plan = "a" }))
	}
	w.save(t, func(s *policy.Set) { s.Plans = s.Plans[:1] })
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
	if page := must(w.List(t.Context(), must(w.Set(t.Context())), Query{})); len(page.Keys) != 1 ||
		page.Keys[0].Name != "first" {
		t.Errorf("listed: got %+v, want first", page.Keys)
	}
}

// List returns no keys of stale entries, as interrupted edits leave them, and removes
// these entries. Order and cursors of the pages stay.
func TestListRemovesStaleEntries(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		w.plan(t, "a", perMinute(10)...)
		w.plan(t, "b", perMinute(10)...)
		want := map[string]bool{}
		for i := range 9 {
			k, _ := w.create(t, fmt.Sprint("Key", i), "a")
			want[k.ID] = true
			w.addStale(t,
				staleEntry{indexKey, fmt.Sprintf("%d\x00%s", i, k.ID)}, staleEntry{indexKey, "zz\x00" + k.ID},
				staleEntry{planIndexKey(2), indexMember(k)},
				staleEntry{Overridden.index(), indexMember(k)},
				staleEntry{indexKey, fmt.Sprintf("key%d!\x00never-%d", i, i)})
		}
		for name, c := range map[string]struct {
			q    Query
			want int
		}{"all": {Query{Count: 2}, 9}, "plan a": {Query{Count: 2, Plan: 1}, 9}, "plan b": {Query{Plan: 2}, 0},
			"overridden": {Query{List: Overridden}, 0}} {
			rows := w.rows(t, c.q)
			for id, times := range rows {
				if times != 1 || !want[id] {
					t.Errorf("%s: got %s %d times, want once", name, id, times)
				}
			}
			if len(rows) != c.want {
				t.Errorf("%s: got %d keys, want %d", name, len(rows), c.want)
			}
		}
		w.wantCounts(t, 9, 9, 0)
	})
}

// A key that a list lacks is listed again when a reader finds a stale entry of it.
func TestStaleEntriesRelistTheirKeys(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "a", perMinute(10)...)
	k, _ := w.create(t, "key", "a")
	w.client.Do(t.Context(), w.client.B().Zrem().Key(indexKey).Member(indexMember(k)).Build())
	w.addStale(t, staleEntry{indexKey, "kez\x00" + k.ID})
	for range 2 {
		w.rows(t, Query{})
	}
	if rows := w.rows(t, Query{}); rows[k.ID] != 1 {
		t.Errorf("got the key %d times, want once", rows[k.ID])
	}
}

// A plan without keys can be removed although its list has stale entries. A plan with a
// key cannot, also if many stale entries precede it in the list.
func TestRemovePlansWithStaleEntries(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "a", perMinute(10)...)
	w.plan(t, "b", perMinute(10)...)
	_, _ = w.create(t, "zz", "b")
	for i := range 2*maxCount + 1 {
		w.addStale(t, staleEntry{planIndexKey(2), fmt.Sprintf("stale\x00never-%d", i)})
	}
	without := *must(w.Set(t.Context()))
	without.Plans = without.Plans[:1]
	_, err := w.SaveSet(t.Context(), without, byTest)
	wantInvalid(t, err, "plans")
	if !strings.Contains(err.Error(), "keys use it (1)") {
		t.Error(err)
	}
	for id := range w.rows(t, Query{Plan: 2}) {
		if err := w.Delete(t.Context(), id, byTest); err != nil {
			t.Fatal(err)
		}
	}
	w.addStale(t, staleEntry{planIndexKey(2), "again\x00never"})
	if _, err := w.SaveSet(t.Context(), without, byTest); err != nil {
		t.Error(err)
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
			for i := range 40 {
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
		for i := range 40 {
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
			for _, k := range must(w.List(t.Context(), set, Query{Count: maxCount})).Keys {
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
	w.rows(t, Query{Plan: 1})
	w.rows(t, Query{Plan: 2})
	plans := map[string]int64{}
	for id, times := range w.rows(t, Query{Count: 7}) {
		plans[must(w.Get(t.Context(), id)).Plan]++
		if times != 1 {
			t.Errorf("got %s %d times, want once", id, times)
		}
	}
	w.wantCounts(t, 48, plans["a"], plans["b"])
	if plans["a"]+plans["b"] != 48 {
		t.Errorf("got %v keys by plan, want 48 in all", plans)
	}
}

// wantListed compares the keys of a query with those for which the oracle in returns
// true.
func (w *world) wantListed(t *testing.T, when string, q Query, ids []string,
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
var listOracles = map[Query]func(*policy.Set, policy.Key) bool{
	{List: Overridden}: func(_ *policy.Set, k policy.Key) bool { return k.Override != nil },
	{List: Revoked}:    func(_ *policy.Set, k policy.Key) bool { return k.Status == policy.Revoked },
	{List: Expiring}:   func(_ *policy.Set, k policy.Key) bool { return !k.Expires.IsZero() },
	{Tag: "eu"}:        func(_ *policy.Set, k policy.Key) bool { return slices.Contains(k.Tags, "eu") },
	{Tag: "a:b é"}:     func(_ *policy.Set, k policy.Key) bool { return slices.Contains(k.Tags, "a:b é") },
	{List: Shadowed}: func(set *policy.Set, k policy.Key) bool {
		p, _ := set.Plan(k.Plan)
		return p.Limits[0].Shadow || k.Override != nil && k.Override.Limits[0].Shadow
	},
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

// Shadowed has callers that have a plan in shadow by default, who are not in that
// plan's list.
func TestShadowedCallersByDefaultPlan(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", perMinute(10)...)
	id := w.TokenCaller("issuer", "somebody")
	must(w.Adopt(t.Context(), policy.Token, id, "somebody", nil, byTest))
	w.save(t, func(s *policy.Set) { s.TokenPlan, s.Plans[0].Limits = "free", inShadow(10) })
	if got := w.rows(t, Query{List: Shadowed}); got[id] != 1 {
		t.Errorf("got %v, want %s", got, id)
	}
}
