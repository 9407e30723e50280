package journal

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/s3test"
	"tidegate/internal/testing/valkeytest"
)

// Every kind of change comes back from the journal, byte for byte, after Valkey lost all.
func TestRestoreAfterLossOfAll(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s Store) {
		url := valkeytest.Start(t)
		w := open(t, url, s, false)
		w.plan(t, 10)
		kept, revoked, deleted := w.create(t, "kept <&>"), w.create(t, "revoked"), w.create(t, "deleted")
		rotated, _, err := w.keys.Rotate(t.Context(), kept.ID, kept.Version, time.Hour, byTest)
		if err != nil {
			t.Fatal(err)
		}
		until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		ban := func(k *policy.Key) { k.Banned = until }
		banned := must(w.keys.Update(t.Context(), rotated.ID, rotated.Version, "key.ban", byTest, ban))(t)
		override := &policy.Override{Mode: policy.Off, Until: until, Reason: "load test"}
		must(w.keys.SetOverride(t.Context(), banned.ID, banned.Version, override, byTest))(t)
		must(w.keys.Revoke(t.Context(), revoked.ID, revoked.Version, byTest))(t)
		if err := w.keys.Delete(t.Context(), deleted.ID, byTest); err != nil {
			t.Fatal(err)
		}
		if err := w.keys.Audit().Append(t.Context(),
			audit.Entry{By: byTest.By, Action: "login", Subject: "login"}); err != nil {
			t.Fatal(err)
		}
		w.plan(t, 20)
		want, chains := w.records(t), must(w.keys.Audit().Verify(t.Context()))(t)
		w.flush(t)
		fresh := open(t, url, s, false)
		fresh.restore(t, Options{})
		if diff := cmp.Diff(want, fresh.records(t)); diff != "" {
			t.Errorf("restored (-want +got):\n%s", diff)
		}
		if v := must(fresh.keys.Audit().Verify(t.Context()))(t); !v.Good() || v.Entries != chains.Entries {
			t.Errorf("the audit: %+v", v)
		}
		if written := fresh.restore(t, Options{}); written > 0 {
			t.Errorf("restored again: %d buckets were written", written)
		}
		fresh.create(t, "after")
	})
}

// While the store is unavailable edits are refused and change nothing; a revocation acts,
// is counted as unsafe, and is shipped when the store is back.
func TestStoreUnavailable(t *testing.T) {
	w, _ := start(t, false)
	k, victim := w.create(t, "key"), w.create(t, "victim")
	before := w.records(t)
	w.store.before.Store(true)
	rename := func(k *policy.Key) { k.Name = "renamed" }
	if _, err := w.keys.Update(t.Context(), k.ID, k.Version, "key.edit", byTest, rename); !errors.Is(err,
		audit.ErrJournalUnavailable) {
		t.Errorf("edit: %v", err)
	}
	after := w.records(t)
	for key, record := range before {
		if key != "tg:keys" && key != "tg:keys:plan:1" && after[key] != record {
			t.Errorf("%s was changed", key)
		}
	}
	must(w.keys.Revoke(t.Context(), victim.ID, victim.Version, byTest))(t)
	if got := must(w.keys.Get(t.Context(), victim.ID))(t); got.Status != policy.Revoked {
		t.Errorf("the victim is %s", got.Status)
	}
	if status := w.Status(t.Context()); status.Unsafe != 1 || !status.Unavailable {
		t.Errorf("status %+v", status)
	}
	w.store.before.Store(false)
	if err := w.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status := w.Status(t.Context()); status != (Status{}) {
		t.Errorf("status after the store is back: %+v", status)
	}
	w.flush(t)
	w.restore(t, Options{})
	if got := must(w.keys.Get(t.Context(), victim.ID))(t); got.Status != policy.Revoked {
		t.Errorf("restored, the victim is %s", got.Status)
	}
}

// A revocation after which Valkey no longer says what is to be stored is not
// acknowledged, although the store is there: it would be lost with that Valkey.
func TestValkeyEndsAfterRevocation(t *testing.T) {
	proxy := valkeytest.StartProxy(t, valkeytest.Start(t), nil)
	w := open(t, proxy.URL(), must(OpenStore(t.TempDir()))(t), false)
	w.plan(t, 10)
	k := w.create(t, "key")
	proxy.DropReplies("\r\nL", 1_000_000) // LRANGE and LLEN
	if _, err := w.keys.Revoke(t.Context(), k.ID, k.Version, byTest); !errors.Is(err, audit.ErrMayBeLost) {
		t.Errorf("revoke: %v", err)
	}
}

// With a queue, changes are made while the store is unavailable.
func TestQueue(t *testing.T) {
	w, url := start(t, true)
	w.store.before.Store(true)
	one, two := w.create(t, "one"), w.create(t, "two")
	if status := w.Status(t.Context()); status.Unsafe != 2 {
		t.Errorf("status %+v", status)
	}
	other := open(t, url, w.store.Store, true) // another environment ships them
	if err := other.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, k := range []policy.Key{one, two} {
		if _, err := other.entry(t.Context(), keyspace.BucketOf(k.ID), 1); err != nil {
			t.Error(err)
		}
	}
}

// A change that the store took, but did not say so, is shipped once.
func TestReplyLost(t *testing.T) {
	w, _ := start(t, false)
	w.store.after.Store(true)
	_, _, err := w.keys.Create(t.Context(), policy.NewKey{Name: "one", Env: "test", Plan: "free"}, byTest)
	if !errors.Is(err, audit.ErrUnsafe) {
		t.Errorf("create: %v", err)
	}
	w.store.after.Store(false)
	if err := w.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status := w.Status(t.Context()); status != (Status{}) {
		t.Errorf("status %+v", status)
	}
}

// Environments that save at once ship every entry, each under its own position.
func TestEnvironmentsRace(t *testing.T) {
	url, s := valkeytest.Start(t), must(OpenStore(s3test.Start(t).Address()))(t)
	first := open(t, url, s, false)
	first.plan(t, 10)
	k := first.create(t, "key")
	b := keyspace.BucketOf(k.ID)
	var wait sync.WaitGroup
	for range 3 {
		w := open(t, url, s, false)
		wait.Go(func() {
			for range 10 {
				if _, err := w.keys.Reset(t.Context(), k.ID, byTest); err != nil &&
					!errors.Is(err, policy.ErrConflict) {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	want := must(first.keys.Get(t.Context(), k.ID))(t)
	replayed, _, err := first.replay(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := policyset.DecodeRecord(k.ID, replayed.records[name{key: keyspace.Record(k.ID)}])
	if got.Plan = want.Plan; err != nil || !cmp.Equal(want, got) {
		t.Errorf("the journal has %+v, %v; Valkey %+v", got, err, want)
	}
}

// What Valkey lost is noticed: before a save, and by a look at everything. Checks are
// answered as without Valkey in those buckets, because the copies are gone.
func TestLossIsNoticed(t *testing.T) {
	w, url := start(t, false)
	k := w.create(t, "key")
	b := keyspace.BucketOf(k.ID)
	for _, key := range []string{keyspace.Record(k.ID), audit.HeadKey(b), audit.Stream(b)} {
		if err := w.root.Do(t.Context(), w.root.B().Del().Key(key).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	fresh := open(t, url, w.store.Store, false)
	lost := policy.Key{ID: k.ID, Name: "again"}
	if _, err := fresh.keys.Adopt(t.Context(), policy.Token, lost.ID, lost.Name, nil, byTest); !errors.Is(err,
		audit.ErrBehind) {
		t.Errorf("a save in the bucket: %v", err)
	}
	if err := fresh.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status := fresh.Status(t.Context()); status.Behind != 1 {
		t.Errorf("status %+v", status)
	}
	copies := func() int64 {
		return must(w.root.Do(t.Context(),
			w.root.B().Exists().Key(policyset.CopyKey(b)).Build()).AsInt64())(t)
	}
	if copies() != 0 {
		t.Error("the bucket has a copy of the plans")
	}
	if err := fresh.keys.Sync(t.Context()); !errors.Is(err, policy.ErrUnfinished) || copies() != 0 {
		t.Errorf("a repair of the policies: %v, %d copies", err, copies())
	}
	if written := fresh.restore(t, Options{}); written != 1 || copies() != 1 {
		t.Errorf("%d buckets written, %d copies", written, copies())
	}
	if err := fresh.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status := fresh.Status(t.Context()); status != (Status{}) {
		t.Errorf("status after the restore: %+v", status)
	}
}
