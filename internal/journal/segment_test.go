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
	"tidegate/internal/objects"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/valkeytest"
)

// manyEntries is more than two segments.
const manyEntries = 2*segmentSize + 30

// append records count entries of a subject.
func (w *world) append(t testing.TB, subject string, count int) {
	t.Helper()
	for i := range count {
		e := audit.Entry{By: byTest.By, Action: audit.KeyReset, Subject: subject, Reason: fmt.Sprint(i)}
		if err := w.keys.Audit().Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
}

// list returns all entries of a query, read page by page.
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

// queries returns queries that a key's entries match, and one that none matches.
func queries(id string) []audit.Query {
	return []audit.Query{
		{Older: true}, {Older: true, Count: 7}, {Older: true, Subject: id},
		{Older: true, Action: "key.create"},
		{Older: true, Subject: id, Count: 33}, {Older: true, Subject: id, Action: "key.create", Count: 1},
		{Older: true, Since: time.Now().Add(-time.Hour)}, {Older: true, By: "nobody"},
	}
}

// wantAudit compares the audit with the entries that queries returned before.
func (w *world) wantAudit(t *testing.T, id string, want [][]audit.Entry, entries int64) {
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
			t.Errorf("entry %s: got %+v, %t, %v; want %+v", e.ID, got, found, err, e)
		}
	}
	if v := must(w.keys.Audit().Verify(t.Context()))(t); !v.Good() || v.Entries != entries {
		t.Errorf("verify: got %+v, want %d good entries", v, entries)
	}
}

// Entries that were moved from Valkey to the journal are still listed, got and verified.
// A restore leaves them in the journal.
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
			t.Errorf("got %d entries in the stream, want 1 to %d", length, segmentSize)
		}
		w.wantAudit(t, k.ID, want, entries)
		if stored := w.list(t, audit.Query{Subject: k.ID}); len(stored) == 0 || len(stored) > segmentSize {
			t.Errorf("without Older: got %d entries, want 1 to %d", len(stored), segmentSize)
		} else if oldest := stored[len(stored)-1]; oldest.Previous == "" {
			t.Error("the oldest entry in Valkey has no Previous")
		}
		w.flush(t)
		w.restore(t, Options{})
		if length := w.length(t, b); length > segmentSize {
			t.Errorf("restored: got %d entries in the stream, want at most %d", length, segmentSize)
		}
		w.wantAudit(t, k.ID, want, entries)
		w.append(t, k.ID, segmentSize)
		if err := w.trimAll(t.Context(), time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if v := must(w.keys.Audit().Verify(t.Context()))(t); !v.Good() || v.Entries != entries+segmentSize {
			t.Errorf("after more entries: got %+v, want %d good entries", v, entries+segmentSize)
		}
	})
}

// An entry stays in Valkey while it is younger than the retention, and while the journal
// lacks it.
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
		t.Errorf("young entries: got %d in Valkey, %v; want all %d", w.length(t, b), err, before)
	}
	w.trimmed = time.Time{}
	if err := w.trim(t.Context(), b, time.Now().Add(time.Hour)); err == nil {
		t.Error("trim of entries that the journal lacks: got no error")
	}
	if length := w.length(t, b); length != before-segmentSize {
		t.Errorf("got %d entries in Valkey, want %d", length, before-segmentSize)
	}
	if err := w.Check(t.Context()); err != nil { // ships the rest
		t.Fatal(err)
	}
	if err := w.trim(t.Context(), b, time.Now().Add(time.Hour)); err != nil || w.length(t, b) > segmentSize {
		t.Errorf("after Check: got %d entries in Valkey, %v; want at most %d", w.length(t, b), err,
			segmentSize)
	}
}

// List and Verify report segments that are unavailable, missing or altered. List still
// returns the entries in Valkey.
func TestSegmentsUnavailable(t *testing.T) {
	folder := t.TempDir()
	w := open(t, valkeytest.Start(t), must(objects.Open(folder))(t), false)
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
		t.Errorf("got %d entries, next %q; want those in Valkey and a next page", len(page.Entries),
			page.Next)
	}
	if _, err := w.keys.Audit().List(t.Context(), audit.Query{Subject: k.ID, Older: true,
		After: page.Next}); !errors.Is(err, audit.ErrOlderUnavailable) {
		t.Errorf("older entries: got %v, want ErrOlderUnavailable", err)
	}
	wantUnread := func(segment string) {
		t.Helper()
		v := must(w.keys.Audit().Verify(t.Context()))(t)
		if diff := cmp.Diff([]keyspace.Bucket{b}, v.Unread); diff != "" || v.Good() {
			t.Errorf("%s: got %+v, want bucket %d unread", segment, v, b)
		}
	}
	wantUnread("unavailable")
	w.store.before.Store(false)
	path := filepath.Join(folder, filepath.FromSlash(segmentName(b, 1)))
	content := must(os.ReadFile(path))(t)
	content[len(content)/2] ^= 1
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	wantUnread("altered")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	wantUnread("missing")
}

// An attacker who can write to Valkey, but not to the journal, cannot hide entries by a
// forged mark.
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
		same := audit.ParseTrimmed(forged).First == good.First // Verify ignores the mark's hash
		if v.Good() != same {
			t.Errorf("mark %q: got %+v, want good %t", forged, v, same)
		}
		_, err := w.keys.Audit().List(t.Context(), audit.Query{Subject: k.ID, Older: true})
		if err != nil && !errors.Is(err, audit.ErrItem) {
			t.Errorf("mark %q: list: got %v, want nil or ErrItem", forged, err)
		}
	}
}

// Entries from before the journal are restored from it.
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
		t.Errorf("verify: got %+v, want at least %d good entries", v, segmentSize+23)
	}
}
