package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"tidegate/internal/audit"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/valkeytest"
)

// manyEntries is more than two segments.
const manyEntries = 2*segmentSize + 30

// append records so many entries about a subject.
func (w *world) append(t testing.TB, subject string, count int) {
	t.Helper()
	for i := range count {
		e := audit.Entry{By: byTest.By, Action: audit.KeyReset, Subject: subject, Reason: fmt.Sprint(i)}
		if err := w.keys.Audit().Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
}

// list reads all entries that a query means, page by page.
func (w *world) list(t testing.TB, q audit.Query) []audit.Entry {
	t.Helper()
	var all []audit.Entry
	for {
		page := must(w.keys.Audit().List(t.Context(), q))(t)
		all = append(all, page.Entries...)
		if q.After = page.Next; q.After == "" {
			return all
		}
	}
}

func (w *world) length(t testing.TB, b keyspace.Bucket) int64 {
	t.Helper()
	return must(w.root.Do(t.Context(), w.root.B().Xlen().Key(audit.Stream(b)).Build()).AsInt64())(t)
}

// queries are ways to ask for the audit of a key among others.
func queries(id string) []audit.Query {
	return []audit.Query{
		{Older: true}, {Older: true, Count: 7}, {Older: true, Subject: id},
		{Older: true, Action: "key.create"},
		{Older: true, Subject: id, Count: 33}, {Older: true, Subject: id, Action: "key.create", Count: 1},
		{Older: true, Since: time.Now().Add(-time.Hour)}, {Older: true, By: "nobody"},
	}
}

// same fails unless the audit says what it said before.
func (w *world) same(t *testing.T, id string, want [][]audit.Entry, entries int64) {
	t.Helper()
	for i, q := range queries(id) {
		if diff := cmp.Diff(want[i], w.list(t, q), cmpopts.IgnoreUnexported(audit.Entry{})); diff != "" {
			t.Errorf("%+v (-before +after):\n%s", q, diff)
		}
	}
	for i := 0; i < len(want[0]); i += segmentSize / 10 { // several of each segment
		e := want[0][i]
		got, found, err := w.keys.Audit().Get(t.Context(), e.ID)
		if err != nil || !found || got.Hash != e.Hash || got.Previous != e.Previous {
			t.Errorf("entry %s: %+v, %v, %v", e.ID, got, found, err)
		}
	}
	if v := must(w.keys.Audit().Verify(t.Context()))(t); !v.Good() || v.Entries != entries {
		t.Errorf("the chains: %+v, want %d entries", v, entries)
	}
}

// Entries that leave Valkey are still listed, got and verified; a restore leaves them in
// the journal.
func TestOlderEntries(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s Store) {
		w := open(t, valkeytest.Start(t), s, false)
		w.plan(t, 10)
		k := w.create(t, "key")
		b := keyspace.BucketOf(k.ID)
		other := w.createOutside(t, b, "other")
		w.append(t, k.ID, manyEntries)
		w.append(t, other.ID, segmentSize+1)
		want := [][]audit.Entry{}
		for _, q := range queries(k.ID) {
			want = append(want, w.list(t, q))
		}
		entries := must(w.keys.Audit().Verify(t.Context()))(t).Entries
		if err := w.trimAll(t.Context(), time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if length := w.length(t, b); length == 0 || length > segmentSize {
			t.Errorf("the stream has %d entries", length)
		}
		w.same(t, k.ID, want, entries)
		if kept := w.list(t, audit.Query{Subject: k.ID}); len(kept) == 0 || len(kept) > segmentSize {
			t.Errorf("%d entries without those of the journal", len(kept))
		} else if oldest := kept[len(kept)-1]; oldest.Previous == "" {
			t.Error("the oldest entry in Valkey does not name the one before")
		}
		w.flush(t)
		w.restore(t, Options{})
		if length := w.length(t, b); length > segmentSize {
			t.Errorf("restored, the stream has %d entries", length)
		}
		w.same(t, k.ID, want, entries)
		w.append(t, k.ID, segmentSize)
		if err := w.trimAll(t.Context(), time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if v := must(w.keys.Audit().Verify(t.Context()))(t); !v.Good() || v.Entries != entries+segmentSize {
			t.Errorf("after more entries: %+v", v)
		}
	})
}

// An entry stays in Valkey while it is young, and while the journal lacks it.
func TestUnsafeEntriesStay(t *testing.T) {
	w, _ := start(t, true)
	k := w.create(t, "key")
	b := keyspace.BucketOf(k.ID)
	w.append(t, k.ID, segmentSize)
	w.store.before.Store(true)
	w.append(t, k.ID, segmentSize+1)
	w.store.before.Store(false)
	before := w.length(t, b)
	if err := w.Upkeep(t.Context(), time.Hour); err != nil || w.length(t, b) != before {
		t.Errorf("young entries: %d of %d stayed, %v", w.length(t, b), before, err)
	}
	w.trimmed = time.Time{}
	if err := w.trim(t.Context(), b, time.Now().Add(time.Hour)); err == nil {
		t.Error("trimmed what is not in the journal")
	}
	if length := w.length(t, b); length != before-segmentSize {
		t.Errorf("%d entries stayed, want all but %d of %d", length, segmentSize, before)
	}
	if err := w.Check(t.Context()); err != nil { // which ships the rest
		t.Fatal(err)
	}
	if err := w.trim(t.Context(), b, time.Now().Add(time.Hour)); err != nil || w.length(t, b) > segmentSize {
		t.Errorf("after all are in the journal: %d entries, %v", w.length(t, b), err)
	}
}

// Segments that are unavailable, gone or altered are said to be so, and nothing else is
// lost.
func TestSegmentsUnavailable(t *testing.T) {
	folder := t.TempDir()
	w := open(t, valkeytest.Start(t), must(OpenStore(folder))(t), false)
	w.plan(t, 10)
	k := w.create(t, "key")
	b := keyspace.BucketOf(k.ID)
	w.append(t, k.ID, manyEntries)
	if err := w.trimAll(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	w.store.before.Store(true)
	page := must(w.keys.Audit().List(t.Context(), audit.Query{Subject: k.ID, Older: true, Count: 500}))(t)
	if len(page.Entries) == 0 || page.Next == "" {
		t.Errorf("%d entries, and then %q", len(page.Entries), page.Next)
	}
	if _, err := w.keys.Audit().List(t.Context(), audit.Query{Subject: k.ID, Older: true,
		After: page.Next}); !errors.Is(err, audit.ErrOlderUnavailable) {
		t.Errorf("older entries: %v", err)
	}
	unread := func(what string) {
		t.Helper()
		v := must(w.keys.Audit().Verify(t.Context()))(t)
		if diff := cmp.Diff([]keyspace.Bucket{b}, v.Unread); diff != "" || v.Good() {
			t.Errorf("%s: %+v", what, v)
		}
	}
	unread("unavailable")
	w.store.before.Store(false)
	path := filepath.Join(folder, filepath.FromSlash(segmentName(b, 1)))
	content := must(os.ReadFile(path))(t)
	content[len(content)/2] ^= 1
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	unread("altered")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	unread("gone")
}

// Who can write to Valkey, and not to the journal, cannot hide entries by a false mark.
func TestFalseMarks(t *testing.T) {
	w, _ := start(t, false)
	k := w.create(t, "key")
	b := keyspace.BucketOf(k.ID)
	w.append(t, k.ID, manyEntries)
	if err := w.trimAll(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	mark := must(w.root.Do(t.Context(), w.root.B().Get().Key(audit.TrimmedKey(b)).Build()).ToString())(t)
	good := audit.ParseTrimmed(mark)
	for _, forged := range []string{
		"", "x", fmt.Sprintf("1 %s %x", good.ID, good.Hash), fmt.Sprintf("101 %s %x", good.ID, good.Hash[1:]),
		fmt.Sprintf("100000 %s %x", good.ID, good.Hash),
	} {
		set := w.root.B().Set().Key(audit.TrimmedKey(b)).Value(forged).Build()
		if err := w.root.Do(t.Context(), set).Error(); err != nil {
			t.Fatal(err)
		}
		v := must(w.keys.Audit().Verify(t.Context()))(t)
		same := audit.ParseTrimmed(forged).First == good.First // its hash is not what the chain has
		if v.Good() != same {
			t.Errorf("mark %q: %+v", forged, v)
		}
		_, err := w.keys.Audit().List(t.Context(), audit.Query{Subject: k.ID, Older: true})
		if err != nil && !errors.Is(err, audit.ErrItem) {
			t.Errorf("mark %q: %v", forged, err)
		}
	}
}

// What was recorded before there was a journal comes back with it.
func TestEntriesFromBeforeTheJournal(t *testing.T) {
	w, _ := start(t, false)
	old := open(t, valkeytest.Start(t), w.store.Store, false)
	old.keys.Audit().UseJournal(nil)
	old.plan(t, 10)
	k := old.create(t, "key")
	old.append(t, k.ID, segmentSize+20)
	old.keys.Audit().UseJournal(old.Journal)
	old.append(t, k.ID, 3)
	want := [][]audit.Entry{}
	for _, q := range queries(k.ID) {
		q.Subject = k.ID
		want = append(want, old.list(t, q))
	}
	old.flush(t)
	old.restore(t, Options{})
	for i, q := range queries(k.ID) {
		q.Subject = k.ID
		if diff := cmp.Diff(want[i], old.list(t, q), cmpopts.IgnoreUnexported(audit.Entry{})); diff != "" {
			t.Errorf("%+v (-before +after):\n%s", q, diff)
		}
	}
	v := must(old.keys.Audit().Verify(t.Context()))(t)
	if len(v.Broken)+len(v.Unread)+len(v.Cut) > 0 || v.Entries < segmentSize+23 {
		t.Errorf("the chains: %+v", v)
	}
}
