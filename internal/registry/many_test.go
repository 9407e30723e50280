package registry_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/internal/changes"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/registry"
	"tidegate/internal/testing/tier"
	"tidegate/internal/testing/valkeytest"
)

// fill stores keys of plan 1 with names in no order, 1,000 in a change, and returns the
// names in order.
func (w *world) fill(t testing.TB, n int) []string {
	t.Helper()
	var names []string
	now := time.Now().UTC().Truncate(time.Second)
	random := rand.New(rand.NewPCG(1, 2))
	for done := 0; done < n; {
		var items []changes.Item
		var ids []string
		for range min(changes.MaxItems, n-done) {
			k := policy.Key{ID: fmt.Sprintf("id%010d", done), Kind: policy.APIKey, Env: "test", PlanNumber: 1,
				Name: fmt.Sprintf("customer %07d of region %d", random.IntN(10*n), done%7), Created: now,
				Updated: now, Status: policy.Active}
			record, err := policyset.EncodeRecord(k, policyset.Secrets{})
			if err != nil {
				t.Fatal(err)
			}
			items = append(items, changes.Item{Record: k.ID, After: record})
			ids, names = append(ids, k.ID), append(names, k.Name)
			done++
		}
		judge := func(ctx context.Context, r *changes.Reader) ([]changes.Item, error) {
			_, err := r.Get(ctx, ids...)
			return items, err
		}
		if _, err := w.Log().Edit(t.Context(), changes.Edit{By: "user:tester"}, judge); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(names)
	return names
}

// Pages have every key once in the order of names, however many there are, from the
// beginning, by prefix and by a part of the name.
func TestPagesOfManyKeys(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", perMinute(1)...)
	names := w.fill(t, 3_000)
	set := must(w.Set(t.Context()))
	for _, q := range []registry.Query{{Count: 500}, {Prefix: "Customer 00", Count: 17},
		{Part: "REGION 3", Count: 100}, {Plan: 1, Count: 400}, {Tag: "none"}} {
		var want, got []string
		for _, name := range names {
			if strings.HasPrefix(name, strings.ToLower(q.Prefix)) && q.Tag == "" &&
				strings.Contains(name, strings.ToLower(q.Part)) {
				want = append(want, name)
			}
		}
		for {
			page := must(w.List(t.Context(), set, q))
			if len(page.Keys) > q.Count && q.Count > 0 {
				t.Errorf("%+v: got %d keys", q, len(page.Keys))
			}
			for _, k := range page.Keys {
				got = append(got, k.Name)
			}
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: got %d keys, want %d in order", q, len(got), len(want))
		}
	}
	if n := must(w.Count(t.Context(), registry.Query{})); n != 3_000 {
		t.Errorf("got %d keys, want 3000", n)
	}
}

// BenchmarkPages measures what a page of 50 keys takes among many.
func BenchmarkPages(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		w := open(b, valkeytest.Start(b))
		w.plan(b, "free", perMinute(1)...)
		names := w.fill(b, n)
		set := must(w.Set(b.Context()))
		for name, read := range map[string]func() error{
			"first page": func() error { return second(w.List(b.Context(), set, registry.Query{})) },
			"prefix": func() error {
				return second(w.List(b.Context(), set, registry.Query{Prefix: names[n/2][:12]}))
			},
			"part": func() error {
				return second(w.List(b.Context(), set, registry.Query{Part: names[n/2][9:]}))
			},
			"counts": func() error { return second(w.PlanCounts(b.Context(), set)) },
			"edit": func() error {
				k, err := w.Get(b.Context(), "id0000000007")
				if err == nil {
					_, err = w.Update(b.Context(), k.ID, k.Version, registry.KeyEdit, byTest,
						func(k *policy.Key) { k.Tags = []string{fmt.Sprint(k.Version)} })
				}
				return err
			},
		} {
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				for b.Loop() {
					if err := read(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// A change of MaxKeys keys may give them a new group. One that makes too many groups, or is
// of more keys, is refused.
func TestBoundsOfManyKeys(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", perMinute(1)...)
	w.fill(t, registry.MaxKeys)
	ids := make([]string, registry.MaxKeys)
	for i := range ids {
		ids[i] = fmt.Sprintf("id%010d", i)
	}
	group := func(name string) func(*policy.Key) error {
		return func(k *policy.Key) error {
			if k.Group = name; name == "" {
				k.Group = k.ID
			}
			return nil
		}
	}
	_, err := w.UpdateMany(t.Context(), ids, registry.KeyEdit, byTest, group(""))
	wantInvalid(t, err, "group")
	many, err := w.UpdateMany(t.Context(), ids, registry.KeyEdit, byTest, group("acme"))
	if err != nil || len(many.Changed) != registry.MaxKeys || w.groups(t, "") != "acme:1000" {
		t.Errorf("got %d changed, %v, groups %s", len(many.Changed), err, w.groups(t, ""))
	}
	_, err = w.UpdateMany(t.Context(), append(ids, "more"), registry.KeyEdit, byTest, group(""))
	if err == nil {
		t.Error("of 1,001 keys: got no error")
	}
}

// A reset of many keys asks the server that counts a key for the time of its reset: another
// one's clock may be ahead or behind.
func TestResetsTakeTheirServersTime(t *testing.T) {
	tier.Two(t, "starts a cluster")
	nodes := valkeytest.StartCluster(t, 3, 0)
	w := open(t, nodes[0]+"?cluster=true")
	w.plan(t, "free", perMinute(1)...)
	w.fill(t, 100)
	var ids []string
	for _, k := range w.keys(t, registry.Query{Count: 100}) {
		ids = append(ids, k.ID)
	}
	for _, node := range nodes {
		valkeytest.Ask(t, node, "CONFIG", "RESETSTAT")
	}
	before := time.Now().Truncate(time.Microsecond)
	many, err := w.UpdateMany(t.Context(), ids, registry.KeyReset, byTest,
		func(*policy.Key) error { return nil })
	if err != nil || len(many.Changed) != len(ids) {
		t.Fatalf("got %+v, %v, want %d keys changed", many, err, len(ids))
	}
	for _, node := range nodes {
		if stats := valkeytest.Ask(t, node, "INFO", "commandstats"); !strings.Contains(stats,
			"cmdstat_time:") {
			t.Errorf("%s did not tell its time", node)
		}
	}
	for _, id := range ids {
		if k := must(w.Get(t.Context(), id)); k.Reset.Before(before) || k.Reset.After(time.Now()) {
			t.Errorf("%s: got a reset at %v, want one after %v", id, k.Reset, before)
		}
	}
}
