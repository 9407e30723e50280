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
)

// A loss is noticed of a Valkey that had entries before it got a journal: the journal has
// no entry at the position that is saved, and others behind it.
func TestLossIsNoticedByAYoungerJournal(t *testing.T) {
	w, url := start(t, false)
	w.keys.Audit().UseJournal(nil)
	k := w.create(t, "key")
	b := keyspace.BucketOf(k.ID)
	older := must(w.keys.Audit().Head(t.Context(), b))(t)
	k = must(w.keys.Revoke(t.Context(), k.ID, k.Version, byTest))(t)
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
			t.Errorf("lost %s: a save in the bucket: %v", name, err)
		}
		if err := fresh.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if status := fresh.Status(t.Context()); status.Behind != 1 {
			t.Errorf("lost %s: status %+v", name, status)
		}
		if written := fresh.restore(t, Options{}); written != 1 {
			t.Errorf("lost %s: %d buckets written", name, written)
		}
		if _, err := fresh.keys.Reset(t.Context(), k.ID, byTest); err != nil {
			t.Errorf("lost %s: a save after the restore: %v", name, err)
		}
	}
}

// A loss is noticed of all that a release without the journal changed, up to the newest
// entry that the journal has in front of that.
func TestLossBehindAGapIsNoticed(t *testing.T) {
	w, url := start(t, false)
	k := w.create(t, "key")
	b := keyspace.BucketOf(k.ID)
	older := must(w.keys.Audit().Head(t.Context(), b))(t)
	w.keys.Audit().UseJournal(nil)
	k = must(w.keys.Revoke(t.Context(), k.ID, k.Version, byTest))(t)
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
		t.Errorf("a save in the bucket: %v", err)
	}
	if err := fresh.Check(t.Context()); err != nil || fresh.Status(t.Context()).Behind != 1 {
		t.Errorf("status %+v, %v", fresh.Status(t.Context()), err)
	}
	if written := fresh.restore(t, Options{}); written != 1 {
		t.Errorf("%d buckets written", written)
	}
	if got := must(fresh.keys.Get(t.Context(), k.ID))(t); got.Status != policy.Revoked {
		t.Errorf("restored: %+v", got)
	}
}

// What an adoption stored that did not come to its checkpoint is not taken for the audit
// of what came after Valkey lost it.
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
			t.Errorf("the audit: %+v, want %d entries", v, want)
		}
		w.flush(t)
		w.restore(t, Options{})
	}
}

// Upkeep stores what Valkey had before it got a journal, without any change: all of it
// comes back. So does what a release without the journal changed meanwhile, and a later
// Upkeep stores nothing.
func TestUpkeepAdoptsWhatIsOlder(t *testing.T) {
	w, url := start(t, false)
	w.keys.Audit().UseJournal(nil)
	for range 30 {
		w.create(t, "key")
	}
	revoked := w.create(t, "revoked")
	must(w.keys.Revoke(t.Context(), revoked.ID, revoked.Version, byTest))(t)
	later := w.create(t, "later")
	if err := w.Upkeep(t.Context(), time.Nanosecond); err != nil {
		t.Fatal(err)
	}
	if b := keyspace.BucketOf(later.ID); w.length(t, b) == 0 {
		t.Error("the newest entry left Valkey")
	}
	must(w.keys.Revoke(t.Context(), later.ID, later.Version, byTest))(t)
	fresh := open(t, url, w.store.Store, false)
	if err := fresh.Upkeep(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	w.store.before.Store(true) // it knows that all is there
	if err := w.Upkeep(t.Context(), 0); !errors.Is(err, errUnavailable) {
		t.Errorf("the bucket that changed was not looked for: %v", err)
	}
	fresh.store.before.Store(true)
	if err := fresh.Upkeep(t.Context(), 0); err != nil {
		t.Errorf("what the journal has was looked for again: %v", err)
	}
	want, chains := w.records(t), must(w.keys.Audit().Verify(t.Context()))(t)
	w.flush(t)
	fresh = open(t, url, w.store.Store, false)
	if err := fresh.Check(t.Context()); err != nil || fresh.Status(t.Context()).Behind < 10 {
		t.Errorf("status %+v, %v", fresh.Status(t.Context()), err)
	}
	fresh.restore(t, Options{})
	if diff := cmp.Diff(want, fresh.records(t)); diff != "" {
		t.Errorf("restored (-want +got):\n%s", diff)
	}
	if v := must(fresh.keys.Audit().Verify(t.Context()))(t); !v.Good() || v.Entries != chains.Entries {
		t.Errorf("the audit: %+v, before %+v", v, chains)
	}
	fresh.plan(t, 30)
}

// Upkeep stores nothing of a Valkey that lost changes, or that loses them meanwhile.
func TestUpkeepAdoptsNoLoss(t *testing.T) {
	w, url := start(t, false)
	w.keys.Audit().UseJournal(nil)
	k := w.create(t, "key")
	b := keyspace.BucketOf(k.ID)
	older := must(w.keys.Audit().Head(t.Context(), b))(t)
	must(w.keys.Revoke(t.Context(), k.ID, k.Version, byTest))(t)
	if err := w.Upkeep(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	kept := must(w.store.Store.Read(t.Context(), checkpointName(b)))(t)
	back := w.root.B().Set().Key(audit.HeadKey(b)).Value(string(older)).Build()
	if err := w.root.Do(t.Context(), back).Error(); err != nil {
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
		t.Errorf("adopted after the loss: %+v, %v", s, err)
	}
	if got := must(w.store.Store.Read(t.Context(), checkpointName(b)))(t); !bytes.Equal(got, kept) {
		t.Error("the older state took the checkpoint's place")
	}
}

// What is adopted over an earlier state still has what was deleted before, and the keys
// that Valkey's list lost.
func TestAdoptionKeepsWhatTheJournalKnows(t *testing.T) {
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
		t.Errorf("the deleted key: %v", err)
	}
	if got, err := w.keys.Get(t.Context(), kept.ID); err != nil || got.Name != "kept" {
		t.Errorf("the kept key: %+v, %v", got, err)
	}
}

// An altered object of one bucket does not keep others from being adopted.
func TestUpkeepWithAnAlteredEntry(t *testing.T) {
	w, url := start(t, false)
	altered := entryName(keyspace.BucketOf(policyset.SetID), 1)
	if err := w.store.Replace(t.Context(), altered, []byte("x")); err != nil {
		t.Fatal(err)
	}
	w.keys.Audit().UseJournal(nil)
	b := keyspace.BucketOf(w.createOutside(t, keyspace.BucketOf(policyset.SetID), "key").ID)
	fresh := open(t, url, w.store.Store, false)
	if err := fresh.Upkeep(t.Context(), 0); !errors.Is(err, audit.ErrItem) {
		t.Errorf("upkeep: %v", err)
	}
	if s, err := fresh.checkpointed(t.Context(), b); err != nil || s.number != 1 {
		t.Errorf("the other bucket: %+v, %v", s, err)
	}
}
