package app_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/testing/sitetest"
)

// Fifty keys get each kind of change, and lose it by the undo, except a ban. A key that
// already is as the change leaves it is skipped. The undo leaves what was changed since.
func TestEachChangeOfFiftyKeys(t *testing.T) {
	const count = 50
	until := time.Now().Add(2 * time.Hour).UTC().Truncate(time.Second)
	edit := func(alter func(*policy.Key)) app.KeyChange {
		return app.KeyChange{Action: registry.KeyEdit, Alter: alter}
	}
	for title, test := range map[string]struct {
		change app.KeyChange
		before func(*policy.Key) // of all keys; nil to leave them as they are
		want   func(policy.Key) bool
	}{
		"ban": {app.KeyChange{Action: registry.KeyBan, Alter: func(k *policy.Key) { k.Banned = until }}, nil,
			func(k policy.Key) bool { return k.Banned.Equal(until) }},
		"unban": {app.KeyChange{Action: registry.KeyUnban,
			Alter: func(k *policy.Key) { k.Banned = time.Time{} }},
			func(k *policy.Key) { k.Banned = until },
			func(k policy.Key) bool { return k.Banned.IsZero() }},
		"tag": {edit(func(k *policy.Key) { k.Tags = []string{"a", "b", "c"} }),
			func(k *policy.Key) { k.Tags = []string{"a", "b"} },
			func(k policy.Key) bool { return slices.Equal(k.Tags, []string{"a", "b", "c"}) }},
		"group": {edit(func(k *policy.Key) { k.Group = "big" }), nil,
			func(k policy.Key) bool { return k.Group == "big" }},
		"no group": {edit(func(k *policy.Key) { k.Group = "" }),
			func(k *policy.Key) { k.Group = "big" }, func(k policy.Key) bool { return k.Group == "" }},
		"no expiry": {edit(func(k *policy.Key) { k.Expires = time.Time{} }),
			func(k *policy.Key) { k.Expires = until },
			func(k policy.Key) bool { return k.Expires.IsZero() }},
	} {
		t.Run(title, func(t *testing.T) {
			j := newFixture(t, count)
			for name := range j.keys.IDs {
				if test.before != nil {
					j.keys.UpdateKey(name, test.before)
				}
			}
			old := j.keys.Key("k0007")
			_, err := j.Change(t.Context(), j.keys.IDs["k0001"], registry.AnyVersion, test.change,
				sitetest.ByTest)
			j.keys.Must(err)
			done, _ := j.run(app.Bulk{Change: test.change, Filter: &app.KeyFilter{}, Total: count})
			wantCounts(t, done, count-1, 1, 0)
			for name := range j.keys.IDs {
				if k := j.keys.Key(name); !test.want(k) {
					t.Errorf("after the job: got %+v", k)
				}
			}
			j.keys.UpdateKey("k0002", func(k *policy.Key) { k.Name = "renamed" })
			e, err := j.AuditEntry(t.Context(), done.Change)
			j.keys.Must(err)
			if err := j.Undo(t.Context(), e, byTester); test.change.Action == registry.KeyBan {
				if _, ok := errors.AsType[app.IrreversibleError](err); !ok {
					t.Errorf("undo of a ban: got %v, want an IrreversibleError", err)
				}
				return
			} else if err != nil {
				t.Fatal(err)
			}
			if k := j.keys.Key("k0002"); k.Name != "renamed" {
				t.Errorf("the undo took back a later change: %+v", k)
			}
			k := j.keys.Key("k0007")
			k.Version, k.Updated = old.Version, old.Updated
			if !reflect.DeepEqual(k, old) {
				t.Errorf("after the undo: got %+v, want %+v", k, old)
			}
		})
	}
}

// A review compares the first 500 keys, and shows 10 of those that would change.
func TestReviewIsBounded(t *testing.T) {
	j := newFixture(t, 520)
	j.keys.UpdateKey("k0001", func(k *policy.Key) { k.Plan = "pro" })
	j.keys.UpdateKey("k0002", func(k *policy.Key) { k.Status = policy.Revoked })
	review, err := j.ReviewBulk(t.Context(), j.set(), j.everyKey(520))
	if err != nil || review.Read != 500 || review.Change != 498 || review.Whole ||
		len(review.Rows) != 10 {
		t.Fatalf("got %+v, %v, want 498 of 500 keys, and 10 of them", review, err)
	}
	if row := review.Rows[1]; row.Before.Name != "k0003" || row.Before.Plan != "free" ||
		row.After.Plan != "pro" {
		t.Errorf("got %+v, want k0003 to go from free to pro", row)
	}
}

// A review counts the keys that are then changed, not those that it would fail to
// change.
func TestReviewCountsWhatChanges(t *testing.T) {
	j := newFixture(t, 4)
	full := []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"}
	j.keys.UpdateKey("k0001", func(k *policy.Key) { k.Tags = full })
	j.keys.UpdateKey("k0002", func(k *policy.Key) { k.Status = policy.Revoked })
	j.keys.UpdateKey("k0003", func(k *policy.Key) { k.Banned = time.Now().Add(time.Hour).UTC() })
	_, err := j.keys.Adopt(t.Context(), policy.Address, "addressaddressaddress1", "home",
		nil, sitetest.ByTest)
	j.keys.Must(err)
	for _, change := range []app.KeyChange{
		{Action: registry.KeyEdit,
			Alter: func(k *policy.Key) { k.Tags = append(slices.Clone(k.Tags), "vip") }},
		{Action: registry.KeyEdit, Alter: func(k *policy.Key) { k.Group = "acme" }},
		{Action: registry.KeyUnban, Alter: func(k *policy.Key) { k.Banned = time.Time{} }},
		{Action: registry.KeyReset, Alter: func(*policy.Key) {}},
	} {
		bulk := app.Bulk{Change: change, Filter: &app.KeyFilter{}, Total: 5}
		review, err := j.ReviewBulk(t.Context(), j.set(), bulk)
		j.keys.Must(err)
		if done, _ := j.run(bulk); int64(review.Change) != done.Done || review.Read != 5 {
			t.Errorf("%s: %d of %d keys would change, but %d did: %+v", change.Action, review.Change,
				review.Read, done.Done, done.Failures)
		}
	}
}
