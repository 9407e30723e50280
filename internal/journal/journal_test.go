package journal

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidegate/internal/audit"
	"tidegate/internal/objects"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/s3test"
	"tidegate/internal/testing/valkeytest"
)

// After Valkey lost everything, a restore from the journal brings back every kind of
// change, byte for byte.
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
		override := &policy.Override{Until: until, Reason: "load test"}
		must(registrytest.Override(t.Context(), w.keys, banned.ID, banned.Version, override, byTest))(t)
		must(registrytest.Revoke(t.Context(), w.keys, revoked.ID, revoked.Version, byTest))(t)
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
			t.Errorf("verify: got %+v, want %d good entries", v, chains.Entries)
		}
		if written := fresh.restore(t, Options{}); written > 0 {
			t.Errorf("restored again: got %d buckets written, want none", written)
		}
		fresh.create(t, "after")
	})
}

// While the store is unavailable, edits are refused and change nothing. A revocation
// acts, counts as unsafe, and is shipped once the store is available again.
func TestStoreUnavailable(t *testing.T) {
	w, _ := start(t, false)
	k, victim := w.create(t, "key"), w.create(t, "victim")
	before := w.records(t)
	w.store.before.Store(true)
	rename := func(k *policy.Key) { k.Name = "renamed" }
	if _, err := w.keys.Update(t.Context(), k.ID, k.Version, "key.edit", byTest, rename); !errors.Is(err,
		audit.ErrJournalUnavailable) {
		t.Errorf("edit: got %v, want ErrJournalUnavailable", err)
	}
	after := w.records(t)
	for key, record := range before {
		if key != "tg:keys" && key != "tg:keys:plan:1" && after[key] != record {
			t.Errorf("%s was changed by a refused edit", key)
		}
	}
	must(registrytest.Revoke(t.Context(), w.keys, victim.ID, victim.Version, byTest))(t)
	if got := must(w.keys.Get(t.Context(), victim.ID))(t); got.Status != policy.Revoked {
		t.Errorf("victim: got %s, want revoked", got.Status)
	}
	if status := w.Status(t.Context()); status.Unsafe != 1 || !status.Unavailable {
		t.Errorf("status: got %+v, want 1 unsafe change and unavailable", status)
	}
	w.store.before.Store(false)
	if err := w.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status := w.Status(t.Context()); status != (Status{}) {
		t.Errorf("status once the store is available: got %+v, want the zero Status", status)
	}
	w.flush(t)
	w.restore(t, Options{})
	if got := must(w.keys.Get(t.Context(), victim.ID))(t); got.Status != policy.Revoked {
		t.Errorf("restored: got victim %s, want revoked", got.Status)
	}
}

// A revocation is not acknowledged if Valkey no longer returns the unshipped items after
// it, although the store is available: it could be lost with that Valkey.
func TestValkeyFailsAfterRevocation(t *testing.T) {
	proxy := valkeytest.StartProxy(t, valkeytest.Start(t), nil)
	w := open(t, proxy.URL(), must(objects.Open(t.TempDir()))(t), false)
	w.plan(t, 10)
	k := w.create(t, "key")
	w.timeout = time.Second               // two calls wait for it
	proxy.DropReplies("\r\nL", 1_000_000) // LRANGE and LLEN
	_, err := registrytest.Revoke(t.Context(), w.keys, k.ID, k.Version, byTest)
	if !errors.Is(err, audit.ErrMayBeLost) {
		t.Errorf("revoke: got %v, want ErrMayBeLost", err)
	}
}

// With a queue, changes are made while the store is unavailable.
func TestQueue(t *testing.T) {
	w, url := start(t, true)
	w.store.before.Store(true)
	one, two := w.create(t, "one"), w.create(t, "two")
	if status := w.Status(t.Context()); status.Unsafe != 2 {
		t.Errorf("status: got %+v, want 2 unsafe changes", status)
	}
	other := open(t, url, w.store.Store, true) // another environment ships the changes
	if err := other.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, k := range []policy.Key{one, two} {
		if _, err := other.entry(t.Context(), keyspace.BucketOf(k.ID), 1); err != nil {
			t.Error(err)
		}
	}
}

// A change is shipped once, also if the store's reply is lost.
func TestLostReply(t *testing.T) {
	w, _ := start(t, false)
	w.store.after.Store(true)
	_, _, err := w.keys.Create(t.Context(), policy.NewKey{Name: "one", Env: "test", Plan: "free"}, byTest)
	if !errors.Is(err, audit.ErrUnsafe) {
		t.Errorf("create: got %v, want ErrUnsafe", err)
	}
	w.store.after.Store(false)
	if err := w.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status := w.Status(t.Context()); status != (Status{}) {
		t.Errorf("status: got %+v, want the zero Status", status)
	}
}

// Concurrent environments ship every entry, each at its own position.
func TestConcurrentEnvironments(t *testing.T) {
	url, s := valkeytest.Start(t), must(objects.Open(s3test.Start(t).Address()))(t)
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
		t.Errorf("from the journal: got %+v, %v; want %+v as in Valkey", got, err, want)
	}
}

// A save and Check find that Valkey lost changes. Check deletes the bucket's copy of the
// plans, so that checks are decided there as without Valkey. A restore writes it again.
func TestLossIsFound(t *testing.T) {
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
		t.Errorf("a save in the bucket: got %v, want ErrBehind", err)
	}
	if err := fresh.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status := fresh.Status(t.Context()); status.Behind != 1 {
		t.Errorf("status: got %+v, want 1 bucket behind", status)
	}
	copies := func() int64 {
		return must(w.root.Do(t.Context(),
			w.root.B().Exists().Key(policyset.CopyKey(b)).Build()).AsInt64())(t)
	}
	if copies() != 0 {
		t.Error("the bucket has a copy of the plans, want none")
	}
	if err := fresh.keys.Sync(t.Context()); !errors.Is(err, policy.ErrUnfinished) || copies() != 0 {
		t.Errorf("sync: got %v, %d copies; want ErrUnfinished and none", err, copies())
	}
	if written := fresh.restore(t, Options{}); written != 1 || copies() != 1 {
		t.Errorf("restore: got %d buckets written, %d copies; want 1, 1", written, copies())
	}
	if err := fresh.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status := fresh.Status(t.Context()); status != (Status{}) {
		t.Errorf("status after the restore: got %+v, want the zero Status", status)
	}
}

// Junk at the next position of a chain is named, in the error of an edit, in the status and
// by a restore. A revocation acts, and is shipped once the junk is away.
func TestJunkInTheJournal(t *testing.T) {
	w, _ := start(t, false)
	k := w.create(t, "key")
	b := keyspace.BucketOf(k.ID)
	head := must(w.root.Do(t.Context(), w.root.B().Get().Key(audit.HeadKey(b)).Build()).AsBytes())(t)
	at, ok := w.positionOf(b, head)
	if !ok {
		t.Fatal("the head cannot be read")
	}
	name := entryName(b, at.number+1)
	if err := w.store.Create(t.Context(), name, []byte("junk")); err != nil {
		t.Fatal(err)
	}
	rename := func(k *policy.Key) { k.Name = "renamed" }
	_, err := w.keys.Update(t.Context(), k.ID, k.Version, "key.edit", byTest, rename)
	if damaged, found := errors.AsType[*DamagedError](err); !found || damaged.Object != name ||
		errors.Is(err, audit.ErrBehind) {
		t.Errorf("edit: got %v, want a DamagedError of %s", err, name)
	}
	if status := w.Status(t.Context()); status.Damaged != name || status.Behind != 0 {
		t.Errorf("status: got %+v, want the object %s", status, name)
	}
	if _, err := registrytest.Revoke(t.Context(), w.keys, k.ID, k.Version, byTest); err != nil {
		t.Errorf("revoke: got %v, want a revocation", err)
	}
	if got := must(w.keys.Get(t.Context(), k.ID))(t); got.Status != policy.Revoked {
		t.Errorf("got %s, want revoked", got.Status)
	}
	_, err = w.RestoreAll(t.Context(), w.keys, Options{}, func() bool { return false }, nil)
	if _, found := errors.AsType[*DamagedError](err); err != nil && !found {
		t.Errorf("restore: got %v, want a DamagedError or none", err)
	}
}
