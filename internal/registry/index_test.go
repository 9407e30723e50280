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

	"tidegate/internal/policy"
	"tidegate/internal/testing/valkeytest"
)

// rows lists all keys in pages of a few, and returns how often each is there.
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

// wantCounts compares how many places each list has.
func (w *world) wantCounts(t *testing.T, all int64, perPlan ...int64) {
	t.Helper()
	counts := must(w.PlanCounts(t.Context(), must(w.Set(t.Context()))))
	if n := must(w.Count(t.Context(), Query{})); n != all {
		t.Errorf("%d places in the list of all, want %d", n, all)
	}
	for i, want := range perPlan {
		if counts[i+1] != want {
			t.Errorf("%d keys of plan %d, want %d", counts[i+1], i+1, want)
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

// An edit that loses against another leaves no trace in the lists.
func TestLostEditsLeaveTheListsAlone(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	for _, plan := range []string{"a", "b", "c"} {
		w.plan(t, plan, perMinute(10)...)
	}
	really := map[string]int64{}
	for i := range 20 {
		k, _ := w.create(t, fmt.Sprint("key", i), "a")
		var both sync.WaitGroup
		for _, plan := range []string{"b", "c"} {
			both.Go(func() {
				_, err := w.Update(t.Context(), k.ID, 1, "key.edit", byTest, func(k *policy.Key) {
					k.Plan, k.Name = plan, k.Name+plan
				})
				if err != nil && !errors.Is(err, policy.ErrConflict) {
					t.Error(err)
				}
			})
		}
		both.Wait()
		really[must(w.Get(t.Context(), k.ID)).Plan]++
	}
	w.wantCounts(t, 20, 0, really["b"], really["c"])
	for id := range w.rows(t, Query{Count: 3}) {
		k := must(w.Get(t.Context(), id))
		must(w.Update(t.Context(), id, k.Version, "key.plan", byTest, func(k *policy.Key) { k.Plan = "a" }))
	}
	w.save(t, func(s *policy.Set) { s.Plans = s.Plans[:1] })
}

// A caller who is adopted twice keeps the first name.
func TestAdoptingTwiceLeavesOneRow(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", perMinute(10)...)
	id := w.TokenCaller("issuer", "somebody")
	must(w.Adopt(t.Context(), policy.Token, id, "first", nil, byTest))
	if _, err := w.Adopt(t.Context(), policy.Token, id, "second", nil, byTest); !errors.Is(err,
		policy.ErrConflict) {
		t.Errorf("adopted again: %v", err)
	}
	w.wantCounts(t, 1)
	if page := must(w.List(t.Context(), must(w.Set(t.Context())), Query{})); len(page.Keys) != 1 ||
		page.Keys[0].Name != "first" {
		t.Errorf("listed: %+v", page.Keys)
	}
}

// What interrupted edits left in the lists is in no page, and gone after one look; the
// pages' order and cursors stay.
func TestListDropsStaleEntries(t *testing.T) {
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
					t.Errorf("%s: %s is listed %d times", name, id, times)
				}
			}
			if len(rows) != c.want {
				t.Errorf("%s: %d keys, want %d", name, len(rows), c.want)
			}
		}
		w.wantCounts(t, 9, 9, 0)
	})
}

// A key that is not listed where it belongs is found again by any stale entry of it.
func TestStaleEntriesBringTheirKeysBack(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "a", perMinute(10)...)
	k, _ := w.create(t, "key", "a")
	w.client.Do(t.Context(), w.client.B().Zrem().Key(indexKey).Member(indexMember(k)).Build())
	w.addStale(t, staleEntry{indexKey, "kez\x00" + k.ID})
	for range 2 {
		w.rows(t, Query{})
	}
	if rows := w.rows(t, Query{}); rows[k.ID] != 1 {
		t.Errorf("listed %d times", rows[k.ID])
	}
}

// A plan that nobody has can be dropped, whatever its list says; one that a single key
// has cannot, however many stale entries come before it.
func TestPlansWithStaleEntriesCanBeDropped(t *testing.T) {
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

// However edits, creations and looks at the lists meet, no page has a key twice, and in
// the end every key is listed where it belongs, once.
func TestListsDuringEdits(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "a", perMinute(10)...)
	w.plan(t, "b", perMinute(10)...)
	var ids []string
	for i := range 8 {
		k, _ := w.create(t, fmt.Sprint("key", i), "a")
		ids = append(ids, k.ID)
	}
	var working, looking sync.WaitGroup
	for worker := range 3 {
		working.Go(func() {
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
	working.Go(func() {
		for i := range 40 {
			w.create(t, fmt.Sprint("new", i), "a")
		}
	})
	stop := make(chan struct{})
	looking.Go(func() {
		set := must(w.Set(t.Context()))
		for {
			select {
			case <-stop:
				return
			default:
			}
			once := map[string]bool{}
			for _, k := range must(w.List(t.Context(), set, Query{Count: maxCount})).Keys {
				if once[k.ID] {
					t.Errorf("%s is twice in a page", k.ID)
				}
				once[k.ID] = true
			}
		}
	})
	working.Wait()
	close(stop)
	looking.Wait()
	w.rows(t, Query{Plan: 1})
	w.rows(t, Query{Plan: 2})
	plans := map[string]int64{}
	for id, times := range w.rows(t, Query{Count: 7}) {
		plans[must(w.Get(t.Context(), id)).Plan]++
		if times != 1 {
			t.Errorf("%s is listed %d times", id, times)
		}
	}
	w.wantCounts(t, 48, plans["a"], plans["b"])
	if plans["a"]+plans["b"] != 48 {
		t.Errorf("%v are listed, want 48", plans)
	}
}

// wantListed compares the keys of a query with those whose records an oracle picks.
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
		t.Errorf("%s, %+v: %v, want %v", when, q, got, want)
	}
}

// listOracles says of each list whether a key belongs to it.
var listOracles = map[Query]func(*policy.Set, policy.Key) bool{
	{List: Overridden}: func(_ *policy.Set, k policy.Key) bool { return k.Override != nil },
	{List: Revoked}:    func(_ *policy.Set, k policy.Key) bool { return k.Status == policy.Revoked },
	{List: Expiring}:   func(_ *policy.Set, k policy.Key) bool { return !k.Expires.IsZero() },
	{Tag: "eu"}:        func(_ *policy.Set, k policy.Key) bool { return slices.Contains(k.Tags, "eu") },
	{Tag: "a:b é"}:     func(_ *policy.Set, k policy.Key) bool { return slices.Contains(k.Tags, "a:b é") },
	{List: Shadowed}: func(set *policy.Set, k policy.Key) bool {
		p, _ := set.Plan(k.Plan)
		return p.Mode == policy.Shadow || k.Override != nil && k.Override.Mode == policy.Shadow
	},
}

func (w *world) wantAllListed(t *testing.T, when string, ids []string) {
	t.Helper()
	for q, in := range listOracles {
		w.wantListed(t, when, q, ids, in)
	}
}

// mixedKeys are keys in every state, of a plan in shadow mode and of one that is not.
func (w *world) mixedKeys(t *testing.T, n int) []string {
	t.Helper()
	w.plan(t, "free", perMinute(10)...)
	w.save(t, func(s *policy.Set) {
		s.Plans = append(s.Plans, policy.Plan{Name: "watched", Limits: perMinute(5), Mode: policy.Shadow})
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
				k.Override = &policy.Override{Mode: policy.Shadow, Limits: perMinute(3), Reason: "a test"}
			case 4:
				k.Override = &policy.Override{Limits: perMinute(3), Reason: "a test"}
			}
		}))
	}
	return ids
}

// Every list has the keys that its oracle picks, in pages, before and after edits of keys
// and of the plans' modes.
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
		w.save(t, func(s *policy.Set) { s.Plans[0].Mode, s.Plans[1].Mode = policy.Shadow, policy.Enforce })
		w.wantAllListed(t, "plans changed", ids)
	})
}

// A caller of a token issuer has the plan of its kind without being in that plan's list.
func TestShadowedCallersWithoutPlan(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", perMinute(10)...)
	id := w.TokenCaller("issuer", "somebody")
	must(w.Adopt(t.Context(), policy.Token, id, "somebody", nil, byTest))
	w.save(t, func(s *policy.Set) { s.TokenPlan, s.Plans[0].Mode = "free", policy.Shadow })
	if got := w.rows(t, Query{List: Shadowed}); got[id] != 1 {
		t.Errorf("listed: %v, want %s", got, id)
	}
}

// Keys that an earlier release wrote join the lists step by step, and those that it wrote
// during a rolling deployment a day later; until the first pass has ended, CompleteLists
// says so.
func TestCompleteLists(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	ids := w.mixedKeys(t, keysPerStep+20)
	forget := func() {
		for _, list := range []string{Revoked.index(), Expiring.index(), Shadowed.index(), tagIndexKey("eu"),
			tagIndexKey("a:b é")} {
			w.client.Do(t.Context(), w.client.B().Del().Key(list).Build())
		}
	}
	forget()
	steps := []bool{must(w.CompleteLists(t.Context(), 0)), must(w.CompleteLists(t.Context(), 0))}
	if !slices.Equal(steps, []bool{false, true}) {
		t.Errorf("complete after each step: %v", steps)
	}
	w.wantAllListed(t, "complete", ids)

	forget()
	if !must(w.CompleteLists(t.Context(), time.Minute)) || len(w.rows(t, Query{List: Revoked})) != 0 {
		t.Error("completed again within a day")
	}
	w.Now = func() time.Time { return time.Now().Add(completeFor + time.Second) }
	if !must(w.CompleteLists(t.Context(), time.Minute)) {
		t.Error("a second pass takes the lists for incomplete")
	}
	w.wantAllListed(t, "a day later", ids)
}
