package journal

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/registrytest"
)

// A loss is found in a Valkey that had entries before its journal: the journal has no
// entry at the current position, but later ones.
func TestLossIsFoundByAYoungerJournal(t *testing.T) {
	w, url := start(t, false)
	w.keys.Audit().UseJournal(nil)
	k := w.create(t, "key")
	b := keyspace.BucketOf(k.ID)
	older := must(w.keys.Audit().Head(t.Context(), b))(t)
	k = must(registrytest.Revoke(t.Context(), w.keys, k.ID, k.Version, byTest))(t)
	w.keys.Audit().UseJournal(w.Journal)
	if err := w.keys.Audit().Append(t.Context(),
		audit.Entry{By: byTest.By, Action: "login", Subject: k.ID}); err != nil {
		t.Fatal(err)
	}
	for name, head := range map[string][]byte{"all": nil, "the newest two entries": older} {
		lost := w.root.B().Set().Key(audit.HeadKey(b)).Value(string(head)).Build()
		if err := w.root.Do(t.Context(), lost).Error(); err != nil {
			t.Fatal(err)
		}
		fresh := open(t, url, w.store.Store, false)
		if _, err := fresh.keys.Reset(t.Context(), k.ID, byTest); !errors.Is(err, audit.ErrBehind) {
			t.Errorf("lost %s: a save in the bucket: got %v, want ErrBehind", name, err)
		}
		if err := fresh.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if status := fresh.Status(t.Context()); status.Behind != 1 {
			t.Errorf("lost %s: got status %+v, want 1 bucket behind", name, status)
		}
		if written := fresh.restore(t, Options{}); written != 1 {
			t.Errorf("lost %s: got %d buckets written, want 1", name, written)
		}
		if _, err := fresh.keys.Reset(t.Context(), k.ID, byTest); err != nil {
			t.Errorf("lost %s: a save after the restore: got %v, want nil", name, err)
		}
	}
}

// A loss of all changes of a release without a journal is found, also if Valkey still has
// the newest entry that the journal has before them.
func TestLossAfterAGapIsFound(t *testing.T) {
	w, url := start(t, false)
	k := w.create(t, "key")
	b := keyspace.BucketOf(k.ID)
	older := must(w.keys.Audit().Head(t.Context(), b))(t)
	w.keys.Audit().UseJournal(nil)
	k = must(registrytest.Revoke(t.Context(), w.keys, k.ID, k.Version, byTest))(t)
	w.append(t, k.ID, 3)
	if err := w.Upkeep(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	lost := w.root.B().Set().Key(audit.HeadKey(b)).Value(string(older)).Build()
	if err := w.root.Do(t.Context(), lost).Error(); err != nil {
		t.Fatal(err)
	}
	fresh := open(t, url, w.store.Store, false)
	if _, err := fresh.keys.Reset(t.Context(), k.ID, byTest); !errors.Is(err, audit.ErrBehind) {
		t.Errorf("a save in the bucket: got %v, want ErrBehind", err)
	}
	if err := fresh.Check(t.Context()); err != nil || fresh.Status(t.Context()).Behind != 1 {
		t.Errorf("got status %+v, %v; want 1 bucket behind", fresh.Status(t.Context()), err)
	}
	if written := fresh.restore(t, Options{}); written != 1 {
		t.Errorf("got %d buckets written, want 1", written)
	}
	if got := must(fresh.keys.Get(t.Context(), k.ID))(t); got.Status != policy.Revoked {
		t.Errorf("restored: got %+v, want it revoked", got)
	}
}

// Segments of an adoption that stored no checkpoint are not used as the audit of entries
// that were made after Valkey lost the adopted ones.
func TestInterruptedAdoption(t *testing.T) {
	w, url := start(t, false)
	k := w.create(t, "key")
	b := keyspace.BucketOf(k.ID)
	w.keys.Audit().UseJournal(nil)
	w.append(t, k.ID, manyEntries)
	head, _ := w.positionOf(b, must(w.head(t.Context(), b))(t))
	if err := w.storeOlder(t.Context(), b, head.hash); err != nil {
		t.Fatal(err)
	}
	w.flush(t)
	w = open(t, url, w.store.Store, false)
	w.restore(t, Options{})
	w.append(t, k.ID, segmentSize/2)
	w.keys.Audit().UseJournal(nil)
	w.append(t, k.ID, manyEntries)
	for range 2 {
		w = open(t, url, w.store.Store, false)
		if err := w.Upkeep(t.Context(), time.Nanosecond); err != nil {
			t.Fatal(err)
		}
		v := must(w.keys.Audit().Verify(t.Context()))(t)
		if want := int64(2 + segmentSize/2 + manyEntries); !v.Good() || v.Entries != want {
			t.Errorf("verify: got %+v, want %d good entries", v, want)
		}
		w.flush(t)
		w.restore(t, Options{})
	}
}

// Upkeep adopts changes that are older than the journal, and those of a release without
// one, so that a restore brings back everything. A later Upkeep stores nothing.
func TestUpkeepAdoptsOlderChanges(t *testing.T) {
	w, url := start(t, false)
	w.keys.Audit().UseJournal(nil)
	for range 30 {
		w.create(t, "key")
	}
	revoked := w.create(t, "revoked")
	must(registrytest.Revoke(t.Context(), w.keys, revoked.ID, revoked.Version, byTest))(t)
	later := w.create(t, "later")
	if err := w.Upkeep(t.Context(), time.Nanosecond); err != nil {
		t.Fatal(err)
	}
	if b := keyspace.BucketOf(later.ID); w.length(t, b) == 0 {
		t.Error("the newest entry was moved from Valkey")
	}
	must(registrytest.Revoke(t.Context(), w.keys, later.ID, later.Version, byTest))(t)
	fresh := open(t, url, w.store.Store, false)
	if err := fresh.Upkeep(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	w.store.before.Store(true) // w knows that the journal has all other buckets
	if err := w.Upkeep(t.Context(), 0); !errors.Is(err, errUnavailable) {
		t.Errorf("upkeep after a change elsewhere: got %v, want errUnavailable from a read", err)
	}
	fresh.store.before.Store(true)
	if err := fresh.Upkeep(t.Context(), 0); err != nil {
		t.Errorf("upkeep of adopted buckets: got %v, want nil without a read", err)
	}
	want, chains := w.records(t), must(w.keys.Audit().Verify(t.Context()))(t)
	w.flush(t)
	fresh = open(t, url, w.store.Store, false)
	if err := fresh.Check(t.Context()); err != nil || fresh.Status(t.Context()).Behind < 10 {
		t.Errorf("got status %+v, %v; want at least 10 buckets behind", fresh.Status(t.Context()), err)
	}
	fresh.restore(t, Options{})
	if diff := cmp.Diff(want, fresh.records(t)); diff != "" {
		t.Errorf("restored (-want +got):\n%s", diff)
	}
	if v := must(fresh.keys.Audit().Verify(t.Context()))(t); !v.Good() || v.Entries != chains.Entries {
		t.Errorf("verify: got %+v, want %d good entries", v, chains.Entries)
	}
	fresh.plan(t, 30)
}

// Upkeep adopts nothing from a Valkey that lost changes, or that loses them during
// Upkeep.
func TestUpkeepAfterLoss(t *testing.T) {
	w, url := start(t, false)
	w.keys.Audit().UseJournal(nil)
	k := w.create(t, "key")
	b := keyspace.BucketOf(k.ID)
	older := must(w.keys.Audit().Head(t.Context(), b))(t)
	must(registrytest.Revoke(t.Context(), w.keys, k.ID, k.Version, byTest))(t)
	if err := w.Upkeep(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	before := must(w.store.Store.Read(t.Context(), checkpointName(b)))(t)
	setHead := w.root.B().Set().Key(audit.HeadKey(b)).Value(string(older)).Build()
	if err := w.root.Do(t.Context(), setHead).Error(); err != nil {
		t.Fatal(err)
	}
	fresh := open(t, url, w.store.Store, false)
	if err := fresh.Upkeep(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	lost := keyspace.BucketOf(w.create(t, "lost").ID)
	found := must(fresh.marks(t.Context()))(t)
	fresh.flush(t)
	if err := fresh.adoptOlder(t.Context(), found); err != nil {
		t.Error(err)
	}
	if s, err := fresh.checkpointed(t.Context(), lost); err != nil || lost != b && s.number > 0 {
		t.Errorf("got checkpoint %+v, %v after the loss; want none", s, err)
	}
	if got := must(w.store.Store.Read(t.Context(), checkpointName(b)))(t); !bytes.Equal(got, before) {
		t.Error("the checkpoint was replaced by an older state")
	}
}

// An adopted state still has the deletions of the journal's earlier state, and the keys
// that Valkey's list of keys lost.
func TestAdoptionKeepsEarlierState(t *testing.T) {
	w, _ := start(t, false)
	kept, deleted := w.create(t, "kept"), w.create(t, "deleted")
	record := keyspace.Record(deleted.ID)
	snapshot := must(w.root.Do(t.Context(), w.root.B().Get().Key(record).Build()).ToString())(t)
	if err := w.keys.Delete(t.Context(), deleted.ID, byTest); err != nil {
		t.Fatal(err)
	}
	w.keys.Audit().UseJournal(nil)
	for _, k := range []policy.Key{kept, deleted} {
		if err := w.keys.Audit().Append(t.Context(),
			audit.Entry{By: byTest.By, Action: "login", Subject: k.ID}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.root.Do(t.Context(), w.root.B().Del().Key("tg:keys").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if err := w.Upkeep(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	w.flush(t)
	back := w.root.B().Set().Key(record).Value(snapshot).Build()
	if err := w.root.Do(t.Context(), back).Error(); err != nil {
		t.Fatal(err)
	}
	w.restore(t, Options{})
	if _, err := w.keys.Get(t.Context(), deleted.ID); !errors.Is(err, policy.ErrNotFound) {
		t.Errorf("the deleted key: got %v, want objects.ErrNotFound", err)
	}
	if got, err := w.keys.Get(t.Context(), kept.ID); err != nil || got.Name != "kept" {
		t.Errorf("the kept key: got %+v, %v; want it restored", got, err)
	}
}

// Upkeep adopts other buckets if an object of one was altered.
func TestUpkeepWithAnAlteredEntry(t *testing.T) {
	w, url := start(t, false)
	altered := entryName(keyspace.BucketOf(policyset.SetID), 1)
	if err := w.store.Replace(t.Context(), altered, []byte("x"),
		func([]byte) bool { return false }); err != nil {
		t.Fatal(err)
	}
	w.keys.Audit().UseJournal(nil)
	b := keyspace.BucketOf(w.createOutside(t, keyspace.BucketOf(policyset.SetID), "key").ID)
	fresh := open(t, url, w.store.Store, false)
	if err := fresh.Upkeep(t.Context(), 0); !errors.Is(err, audit.ErrItem) {
		t.Errorf("upkeep: got %v, want ErrItem", err)
	}
	if s, err := fresh.checkpointed(t.Context(), b); err != nil || s.number != 1 {
		t.Errorf("the other bucket: got checkpoint %+v, %v; want entry 1", s, err)
	}
}
