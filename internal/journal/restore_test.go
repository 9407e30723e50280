package journal

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/registry"
	"tidegate/internal/store/keyspace"
)

// interrupted calls do once, when a restore is about to write records.
type interrupted struct {
	*registry.Store
	once sync.Once
	do   func()
}

func (i *interrupted) AddToLists(ctx context.Context, records map[string][]byte) error {
	i.once.Do(i.do)
	return i.Store.AddToLists(ctx, records)
}

// setHead replaces the head of a bucket's chain.
func (w *world) setHead(t *testing.T, b keyspace.Bucket, head string) {
	t.Helper()
	set := w.root.B().Set().Key(audit.HeadKey(b)).Value(head).Build()
	if err := w.root.Do(t.Context(), set).Error(); err != nil {
		t.Fatal(err)
	}
}

func (w *world) copies(t *testing.T, b keyspace.Bucket) int64 {
	t.Helper()
	return must(w.root.Do(t.Context(), w.root.B().Exists().Key(policyset.CopyKey(b)).Build()).AsInt64())(t)
}

// A restore that another one overtook writes nothing any more: a revocation that was
// acknowledged in between stays.
func TestOvertakenRestoreWritesNothing(t *testing.T) {
	slow, url := start(t, false)
	fast := open(t, url, slow.store.Store, false)
	k := slow.create(t, "acme")
	slow.flush(t)
	lists := &interrupted{Store: slow.keys, do: func() {
		if _, err := fast.RestoreAll(t.Context(), fast.keys, Options{}, nil, nil); err != nil {
			t.Fatal(err)
		}
		must(fast.keys.Revoke(t.Context(), k.ID, k.Version, byTest))(t)
	}}
	_, err := slow.restoreBucket(t.Context(), lists, keyspace.BucketOf(k.ID), Options{})
	if err == nil || !strings.Contains(err.Error(), "restored by another") {
		t.Errorf("the slower restore: %v", err)
	}
	if got := must(fast.keys.Get(t.Context(), k.ID))(t); got.Status != policy.Revoked {
		t.Errorf("after both restores the key is %s, version %d", got.Status, got.Version)
	}
	if written := slow.restore(t, Options{}); written > 0 {
		t.Errorf("restored again: %d buckets were written", written)
	}
	if v := must(fast.keys.Audit().Verify(t.Context()))(t); !v.Good() {
		t.Errorf("the audit: %+v", v)
	}
}

// The same while the other one is at work: one restore alone has a bucket.
func TestOvertakenRestoreDoesNotEndTheOther(t *testing.T) {
	slow, url := start(t, false)
	fast := open(t, url, slow.store.Store, false)
	k := slow.create(t, "acme")
	b := keyspace.BucketOf(k.ID)
	slow.flush(t)
	var other *bucketWriter
	lists := &interrupted{Store: slow.keys, do: func() {
		other = must(fast.placeFence(t.Context(), b, must(fast.keys.Audit().Head(t.Context(), b))(t)))(t)
	}}
	if _, err := slow.restoreBucket(t.Context(), lists, b, Options{}); err == nil {
		t.Error("both restores have the bucket")
	}
	if head := must(fast.keys.Audit().Head(t.Context(), b))(t); string(head) != other.head {
		t.Errorf("the bucket was taken from the other restore: its head is %q", head)
	}
	if _, err := fast.keys.Get(t.Context(), k.ID); !errors.Is(err, policy.ErrNotFound) {
		t.Errorf("a record was written: %v", err)
	}
}

// The same where the slower restore takes the state of a time: the checkpoint that it
// would store does not replace the newer one.
func TestOvertakenRestoreStoresNoCheckpoint(t *testing.T) {
	slow, url := start(t, false)
	fast := open(t, url, slow.store.Store, false)
	k := slow.create(t, "acme")
	b := keyspace.BucketOf(k.ID)
	created := slow.newest(t, b)
	revoked := must(slow.keys.Revoke(t.Context(), k.ID, k.Version, byTest))(t)
	lists := &interrupted{Store: slow.keys, do: func() {
		fast.restore(t, Options{})
	}}
	if _, err := slow.restoreBucket(t.Context(), lists, b, Options{Until: created}); err == nil {
		t.Error("the slower restore ended well")
	}
	slow.flush(t)
	fast.restore(t, Options{})
	if got := must(fast.keys.Get(t.Context(), k.ID))(t); got.Status != policy.Revoked ||
		got.Version != revoked.Version {
		t.Errorf("the journal has the key as %s, version %d", got.Status, got.Version)
	}
}

// A restore that was interrupted is done again, by this release after an earlier one too,
// and nothing is trimmed meanwhile.
func TestRestoreAfterInterruptedRestore(t *testing.T) {
	for _, head := range []string{fence, newFence()} {
		w, _ := start(t, false)
		k := w.create(t, "acme")
		b := keyspace.BucketOf(k.ID)
		w.setHead(t, b, head)
		if _, err := w.keys.Revoke(t.Context(), k.ID, k.Version, byTest); err == nil {
			t.Errorf("%s: a change was made", head)
		}
		end := tail{audit.Trimmed{First: 1, ID: "1-1"}, 2}
		if removed := must(w.removeUntil(t.Context(), b, "", end))(t); removed {
			t.Errorf("%s: the stream was trimmed", head)
		}
		found := must(w.restoreBucket(t.Context(), w.keys, b, Options{DryRun: true}))(t)
		if found.Found != Behind {
			t.Errorf("%s: found %s", head, found.Found)
		}
		if written := w.restore(t, Options{}); written != 1 {
			t.Errorf("%s: %d buckets written", head, written)
		}
		must(w.keys.Revoke(t.Context(), k.ID, k.Version, byTest))(t)
	}
}

// A look takes no copy of the plans from a bucket that was changed or restored since the
// look read its head.
func TestCheckLeavesCopyOfBucketThatMoved(t *testing.T) {
	moves := map[string]func(w *world, k policy.Key) (begin, move func()){
		// The first change waits to be shipped, and the look ships the second with it.
		"changed": func(w *world, k policy.Key) (begin, move func()) {
			begin = func() {
				w.store.after.Store(true)
				k = must(w.keys.Revoke(t.Context(), k.ID, k.Version, byTest))(t)
			}
			move = func() {
				_, err := w.keys.Reset(t.Context(), k.ID, byTest)
				if err == nil {
					t.Error("the store is unavailable, and a change was safe")
				}
			}
			return begin, move
		},
		"restored": func(w *world, k policy.Key) (begin, move func()) {
			begin = func() { w.setHead(t, keyspace.BucketOf(k.ID), newFence()) }
			move = func() { w.restore(t, Options{}) }
			return begin, move
		},
		"restored after loss": func(w *world, _ policy.Key) (begin, move func()) {
			begin = func() { w.flush(t) }
			move = func() { w.restore(t, Options{}) }
			return begin, move
		},
	}
	for name, of := range moves {
		t.Run(name, func(t *testing.T) {
			looks, url := start(t, false)
			other := open(t, url, looks.store.Store, false)
			k := looks.create(t, "acme")
			b := keyspace.BucketOf(k.ID)
			begin, move := of(other, k)
			begin()
			found := must(looks.marks(t.Context()))(t)
			move()
			behind, unavailable, err := looks.checkBucket(t.Context(), b, &found[b], true)
			if behind || unavailable || err != nil || looks.copies(t, b) != 1 {
				t.Errorf("behind %v, unavailable %v, %v, %d copies: nothing is lost", behind, unavailable, err,
					looks.copies(t, b))
			}
		})
	}
}

// A restore of the state of a time gives what it takes back a version that nobody was
// ever given, and leaves the rest as it is. An edit based on what was taken back is
// refused, whatever came after.
func TestRestoreUntilGivesNewVersions(t *testing.T) {
	w, _ := start(t, false)
	kept, changed, deleted := w.create(t, "kept"), w.create(t, "changed"), w.create(t, "deleted")
	until := w.newest(t, keyspace.BucketOf(deleted.ID))
	later := func(k *policy.Key) { k.Name = "later" }
	seen := must(w.keys.Revoke(t.Context(), changed.ID, changed.Version, byTest))(t)
	must(w.keys.Update(t.Context(), deleted.ID, deleted.Version, "key.edit", byTest, later))(t)
	if err := w.keys.Delete(t.Context(), deleted.ID, byTest); err != nil {
		t.Fatal(err)
	}
	w.plan(t, 20)
	set := must(w.keys.Set(t.Context()))(t)
	if _, err := w.RestoreAll(t.Context(), w.keys, Options{Until: until}, nil, nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		policy.Key
		version int64
	}{{kept, 1}, {changed, 3}, {deleted, 3}} {
		got := must(w.keys.Get(t.Context(), want.ID))(t)
		if want.Version = want.version; !cmp.Equal(got, want.Key) {
			t.Errorf("restored (-want +got):\n%s", cmp.Diff(want.Key, got))
		}
	}
	back := must(w.keys.Set(t.Context()))(t)
	if back.Version != set.Version+1 || back.Plans[0].Limits[0].Requests != 10 {
		t.Errorf("policies of version %d, %+v; those taken back had version %d", back.Version, back.Plans,
			set.Version)
	}
	if _, err := w.keys.Update(t.Context(), changed.ID, 3, "key.edit", byTest, later); err != nil {
		t.Error(err)
	}
	_, err := w.keys.Update(t.Context(), changed.ID, seen.Version, "key.revert", byTest, later)
	if !errors.Is(err, policy.ErrConflict) {
		t.Errorf("an edit based on what was taken back: %v", err)
	}
	want := w.records(t)
	delete(want, "tg:keys:revoked") // from before, which readers drop
	w.flush(t)
	w.restore(t, Options{})
	if diff := cmp.Diff(want, w.records(t)); diff != "" {
		t.Errorf("restored from the journal (-want +got):\n%s", diff)
	}
}
