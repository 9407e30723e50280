package registry

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"tidegate/internal/policy"
	"tidegate/internal/testing/valkeytest"
)

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
