package registry_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/valkeytest"
)

// createInGroup creates a key in a group.
func (w *world) createInGroup(t *testing.T, name, group string) policy.Key {
	t.Helper()
	k, _ := w.createGrouped(t, name, group)
	return k
}

func (w *world) createGrouped(t *testing.T, name, group string) (policy.Key, apikey.Secret) {
	t.Helper()
	n := policy.NewKey{Name: name, Env: "test", Plan: "free", Group: group}
	return registrytest.Create(t, w.Store, byTest, n)
}

func (w *world) regroup(t *testing.T, k policy.Key, group string) policy.Key {
	t.Helper()
	k, err := w.Update(t.Context(), k.ID, k.Version, registry.KeyEdit, byTest,
		func(k *policy.Key) { k.Group = group })
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (w *world) groups(t *testing.T, prefix string) string {
	t.Helper()
	var words []string
	for _, g := range must(w.Groups(t.Context(), prefix, "", 100)) {
		words = append(words, fmt.Sprintf("%s:%d", g.Name, g.Keys))
	}
	return strings.Join(words, " ")
}

// The list of a group has its keys after any edits, and the list of groups has the groups
// with keys.
func TestGroupLists(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(1)...)
		a, b := w.createInGroup(t, "a", "acme"), w.createInGroup(t, "b", "acme")
		c := w.createInGroup(t, "c", "Zebra")
		d := w.createInGroup(t, "d", "")
		if got := w.groups(t, ""); got != "acme:2 Zebra:1" {
			t.Errorf("groups: got %s, want acme:2 Zebra:1", got)
		}
		if got := w.groups(t, "ZE"); got != "Zebra:1" {
			t.Errorf("groups with prefix ZE: got %s, want Zebra:1", got)
		}
		c = w.regroup(t, c, "acme")
		d = w.regroup(t, d, "ACME")
		a = w.regroup(t, a, "")
		if err := w.Delete(t.Context(), b.ID, byTest); err != nil {
			t.Fatal(err)
		}
		if got := w.groups(t, ""); got != "ACME:1 acme:1" {
			t.Errorf("groups after edits: got %s, want ACME:1 acme:1", got)
		}
		for group, want := range map[string]string{"acme": c.ID, "ACME": d.ID, "Zebra": ""} {
			rows := w.rows(t, registry.Query{Group: group})
			if len(rows) != len(want)/12 || want != "" && rows[want] != 1 {
				t.Errorf("group %s: got %v, want only %q", group, rows, want)
			}
		}
		if k := must(w.Get(t.Context(), c.ID)); k.Group != "acme" || a.Group != "" {
			t.Errorf("got groups %q and %q, want acme and none", k.Group, a.Group)
		}
	})
}

// A reset sets the counts of a group to zero, of the plans' limits and the policy's, with an
// audit entry. The counts of its keys and of other groups stay.
func TestResetGroup(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		w.save(t, func(s *policy.Set) {
			of := func(who limits.Who) limits.Limit {
				return limits.Limit{Requests: 1, Window: time.Minute, Who: who}
			}
			s.Plans = []policy.Plan{{Name: "free", Limits: []limits.Limit{of(limits.EachGroup)}}}
			s.Limits = perMinute(9)
			s.Limits[0].Who = limits.EachCaller
		})
		k, secret := w.createGrouped(t, "a", "acme")
		_, other := w.createGrouped(t, "b", "zebra")
		w.expect(t, call(secret), "yn")
		w.expect(t, call(other), "yn")
		if err := w.ResetGroup(t.Context(), "acme", byTest); err != nil {
			t.Fatal(err)
		}
		if used := w.used(t, k); !slices.Equal(used, []int64{1, 0}) {
			t.Errorf("after the reset: got %v, want 1 of the caller and 0 of the group", used)
		}
		w.expect(t, call(secret), "yn")
		w.expect(t, call(other), "n")
		page := must(w.Audit(t.Context(), registry.AuditQuery{Subject: policy.GroupID("acme")}))
		if e := page.Entries; len(e) != 2 || e[0].Action != registry.GroupReset ||
			e[0].Subjects[0].Name != "acme" {
			t.Errorf("audit: got %+v, want the first key and a reset of acme", e)
		}
		if err := w.ResetGroup(t.Context(), "nobody", byTest); !errors.Is(err, policy.ErrNotFound) {
			t.Errorf("a group without keys: got %v, want ErrNotFound", err)
		}
	})
}

// An ended override of a group is no part of the set: a save is not checked against it, and
// it cannot be ended again.
func TestEndedGroupOverride(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", perMinute(10)...)
	w.createInGroup(t, "a", "acme")
	until := time.Now().Add(time.Hour)
	o := policy.Override{Limits: perMinute(3), Until: until, Reason: "an incident"}
	if _, err := w.OverrideGroup(t.Context(), "acme", &o, byTest); err != nil {
		t.Fatal(err)
	}
	save := func() error {
		set, err := w.Set(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		set.Routes = []limits.Route{routeOf("dear", "/x", 5)}
		_, err = w.SaveSet(t.Context(), *set, byTest)
		return err
	}
	wantFields(t, save(), "groupOverrides.acme.limits[0].requests")
	w.Now = func() time.Time { return until }
	if err := save(); err != nil {
		t.Errorf("a save after the end: %v", err)
	}
	if _, err := w.OverrideGroup(t.Context(), "acme", nil, byTest); !errors.Is(err, policy.ErrNotFound) {
		t.Errorf("a second end: got %v, want ErrNotFound", err)
	}
}

// Of two changes of the same part of a group that are based on one version, the second is
// refused; another part, or a change of the same kind to another group, does not refuse it.
func TestGroupEditsAreBasedOnAVersion(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", perMinute(10)...)
	w.createInGroup(t, "a", "acme")
	w.createInGroup(t, "b", "zebra")
	based := registry.Edit{By: byTest.By}
	override := func(name, reason string) error {
		o := policy.Override{Limits: perMinute(3), Reason: reason}
		_, err := w.OverrideGroup(t.Context(), name, &o, based)
		return err
	}
	end := func() error {
		_, err := w.OverrideGroup(t.Context(), "acme", nil, based)
		return err
	}
	bill := func(name string, day int) error {
		_, err := w.BillGroup(t.Context(), name, limits.Billing{Day: day}, based)
		return err
	}
	if err := override("acme", "before"); err != nil {
		t.Fatal(err)
	}
	based.Version = must(w.Set(t.Context())).Version
	for _, name := range []string{"acme", "zebra"} {
		if err := override(name, "first"); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := bill(name, 3); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for what, err := range map[string]error{
		"override": override("acme", "second"), "end": end(), "billing": bill("acme", 4),
	} {
		if !errors.Is(err, policy.ErrConflict) {
			t.Errorf("%s: got %v, want ErrConflict", what, err)
		}
	}
	set := must(w.Set(t.Context()))
	if set.GroupOverrides["acme"].Reason != "first" || set.GroupBilling["acme"].Day != 3 {
		t.Errorf("got %s, want the first changes", text(set))
	}
	based.Version = set.Version
	if err := end(); err != nil {
		t.Error(err)
	}
}

// Names with characters that a path cannot have, and groups of callers without an API
// key, are refused.
func TestGroupsRefused(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", perMinute(10)...)
	n := policy.NewKey{Name: "a", Env: "test", Plan: "free", Group: "a b"}
	_, _, err := w.Create(t.Context(), n, byTest)
	wantFields(t, err, "group")
	id := w.TokenCaller("https://issuer.example", "somebody")
	k, err := w.Adopt(t.Context(), policy.Token, id, "somebody", nil, byTest)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Update(t.Context(), k.ID, k.Version, registry.KeyEdit, byTest,
		func(k *policy.Key) { k.Group = "acme" })
	wantFields(t, err, "group")
	if got := w.groups(t, ""); got != "" {
		t.Errorf("groups: got %s, want none", got)
	}
}

func wantFields(t *testing.T, err error, want ...string) {
	t.Helper()
	var invalid *policy.InvalidError
	var got []string
	if errors.As(err, &invalid) {
		for _, f := range invalid.Fields {
			got = append(got, f.Field)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want errors about the fields %v", err, want)
	}
}

// Each page of groups has their sizes, also of groups with more keys than a page reads, and
// of groups whose names differ in case only.
func TestGroupSizes(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(1)...)
		want := map[string]int{"a": 1, "Acme": 90, "acme": 2, "bolt": 45, "Core": 3, "zeta": 70}
		var keys []policy.NewKey
		for name, n := range want {
			for i := range n {
				keys = append(keys, policy.NewKey{Name: fmt.Sprintf("%s-%d", name, i), Env: "test",
					Plan: "free", Group: name})
			}
		}
		must(w.CreateMany(t.Context(), keys, byTest))
		for count := 1; count < 8; count++ {
			got, names := map[string]int{}, []string{}
			for after := ""; ; after = names[len(names)-1] {
				page := must(w.Groups(t.Context(), "", after, count))
				for _, g := range page {
					got[g.Name] = int(g.Keys)
					names = append(names, g.Name)
				}
				if len(page) < count {
					break
				}
			}
			if !maps.Equal(got, want) || len(names) != len(want) {
				t.Errorf("pages of %d: got %v, in the order %v, want %v", count, got, names, want)
			}
		}
	})
}
