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
	"tidegate/internal/testing/registrytest"
)

// interrupted calls do once, after a restore wrote records, before it lists their keys.
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

func (w *world) countCopies(t *testing.T, b keyspace.Bucket) int64 {
	t.Helper()
	return must(w.root.Do(t.Context(), w.root.B().Exists().Key(policyset.CopyKey(b)).Build()).AsInt64())(t)
}

// A restore that another one overtook writes nothing more. A revocation that was
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
		must(registrytest.Revoke(t.Context(), fast.keys, k.ID, k.Version, byTest))(t)
	}}
	_, err := slow.restoreBucket(t.Context(), lists, keyspace.BucketOf(k.ID), Options{})
	if err == nil || !strings.Contains(err.Error(), "restored by another") {
		t.Errorf("the slower restore: got %v, want restored by another", err)
	}
	if got := must(fast.keys.Get(t.Context(), k.ID))(t); got.Status != policy.Revoked {
		t.Errorf("after both restores: got the key %s, version %d; want it revoked", got.Status, got.Version)
	}
	if written := slow.restore(t, Options{}); written > 0 {
		t.Errorf("restored again: got %d buckets written, want none", written)
	}
	if v := must(fast.keys.Audit().Verify(t.Context()))(t); !v.Good() {
		t.Errorf("verify: got %+v, want it good", v)
	}
}

// An overtaken restore fails while the other one is still at work, and does not end it.
func TestOvertakenRestoreDoesNotEndTheOther(t *testing.T) {
	slow, url := start(t, false)
	fast := open(t, url, slow.store.Store, false)
	k := slow.create(t, "acme")
	b := keyspace.BucketOf(k.ID)
	slow.flush(t)
	var other *bucketWriter
	lists := &interrupted{Store: slow.keys, do: func() {
		must(fast.keys.Get(t.Context(), k.ID))(t) // readers remove keys without records from lists
		other = must(fast.placeFence(t.Context(), b, must(fast.keys.Audit().Head(t.Context(), b))(t)))(t)
	}}
	if _, err := slow.restoreBucket(t.Context(), lists, b, Options{}); err == nil {
		t.Error("the overtaken restore: got no error")
	}
	if head := must(fast.keys.Audit().Head(t.Context(), b))(t); string(head) != other.head {
		t.Errorf("got head %q, want %q of the other restore", head, other.head)
	}
}

// An overtaken restore to an earlier time stores no checkpoint, which would replace the
// newer one.
func TestOvertakenRestoreStoresNoCheckpoint(t *testing.T) {
	slow, url := start(t, false)
	fast := open(t, url, slow.store.Store, false)
	k := slow.create(t, "acme")
	b := keyspace.BucketOf(k.ID)
	created := slow.newest(t, b)
	revoked := must(registrytest.Revoke(t.Context(), slow.keys, k.ID, k.Version, byTest))(t)
	lists := &interrupted{Store: slow.keys, do: func() {
		fast.restore(t, Options{})
	}}
	if _, err := slow.restoreBucket(t.Context(), lists, b, Options{Until: created}); err == nil {
		t.Error("the slower restore: got no error")
	}
	slow.flush(t)
	fast.restore(t, Options{})
	if got := must(fast.keys.Get(t.Context(), k.ID))(t); got.Status != policy.Revoked ||
		got.Version != revoked.Version {
		t.Errorf("from the journal: got the key %s, version %d; want revoked, %d", got.Status, got.Version,
			revoked.Version)
	}
}

// An interrupted restore, also one of an earlier release, can be done again. Until then
// the bucket cannot be changed or trimmed.
func TestRestoreAfterInterruptedRestore(t *testing.T) {
	for _, head := range []string{fence, newFence()} {
		w, _ := start(t, false)
		k := w.create(t, "acme")
		b := keyspace.BucketOf(k.ID)
		w.setHead(t, b, head)
		if _, err := registrytest.Revoke(t.Context(), w.keys, k.ID, k.Version, byTest); err == nil {
			t.Errorf("%s: revoke: got no error", head)
		}
		end := tail{audit.Trimmed{First: 1, ID: "1-1"}, 2}
		if removed := must(w.removeUntil(t.Context(), b, "", end))(t); removed {
			t.Errorf("%s: the stream was trimmed, want it unchanged", head)
		}
		found := must(w.restoreBucket(t.Context(), w.keys, b, Options{DryRun: true}))(t)
		if found.Found != Behind {
			t.Errorf("%s: got finding %s, want %s", head, found.Found, Behind)
		}
		if written := w.restore(t, Options{}); written != 1 {
			t.Errorf("%s: got %d buckets written, want 1", head, written)
		}
		must(registrytest.Revoke(t.Context(), w.keys, k.ID, k.Version, byTest))(t)
	}
}

// A failover can lose a list's entries although it loses nothing of a bucket. A restore
// lists the bucket's keys again; a dry run does not.
func TestRestoreListsKeys(t *testing.T) {
	w, _ := start(t, false)
	k := w.create(t, "acme")
	must(w.keys.Update(t.Context(), k.ID, k.Version, audit.KeyEdit, byTest, func(k *policy.Key) {
		k.Group = "team"
	}))(t)
	lost := w.root.B().Del().Key("tg:keys", "tg:keys:group:team").Build()
	if err := w.root.Do(t.Context(), lost).Error(); err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		w.restore(t, Options{DryRun: dry})
		for name, q := range map[string]registry.Query{"all": {}, "the group": {Group: "team"}} {
			want := int64(1)
			if dry {
				want = 0
			}
			if got := must(w.keys.Count(t.Context(), q))(t); got != want {
				t.Errorf("dry %t: got %d keys in the list of %s, want %d", dry, got, name, want)
			}
		}
	}
}

// Check keeps the copy of the plans of a bucket that was changed or restored after Check
// read its head.
func TestCheckKeepsCopyOfChangedBucket(t *testing.T) {
	cases := map[string]func(w *world, k policy.Key) (begin, change func()){
		// The first change stays unshipped. Check ships it together with the second.
		"changed": func(w *world, k policy.Key) (begin, change func()) {
			begin = func() {
				w.store.after.Store(true)
				k = must(registrytest.Revoke(t.Context(), w.keys, k.ID, k.Version, byTest))(t)
			}
			change = func() {
				_, err := w.keys.Reset(t.Context(), k.ID, byTest)
				if err == nil {
					t.Error("a change while the store is unavailable: got no error")
				}
			}
			return begin, change
		},
		"restored": func(w *world, k policy.Key) (begin, change func()) {
			begin = func() { w.setHead(t, keyspace.BucketOf(k.ID), newFence()) }
			change = func() { w.restore(t, Options{}) }
			return begin, change
		},
		"restored after loss": func(w *world, _ policy.Key) (begin, change func()) {
			begin = func() { w.flush(t) }
			change = func() { w.restore(t, Options{}) }
			return begin, change
		},
	}
	for name, steps := range cases {
		t.Run(name, func(t *testing.T) {
			checking, url := start(t, false)
			other := open(t, url, checking.store.Store, false)
			k := checking.create(t, "acme")
			b := keyspace.BucketOf(k.ID)
			begin, change := steps(other, k)
			begin()
			found := must(checking.marks(t.Context()))(t)
			change()
			behind, unavailable, err := checking.checkBucket(t.Context(), b, &found[b], true)
			if copies := checking.countCopies(t, b); behind || unavailable || err != nil || copies != 1 {
				t.Errorf("got behind %t, unavailable %t, %v, %d copies; want false, false, nil, 1", behind,
					unavailable, err, copies)
			}
		})
	}
}

// A restore to an earlier time gives reverted records a version that was never used, and
// leaves other records unchanged. An edit that is based on a reverted version is refused,
// also after later edits.
func TestRestoreUntilGivesNewVersions(t *testing.T) {
	w, _ := start(t, false)
	unchanged, changed, deleted := w.create(t, "kept"), w.create(t, "changed"), w.create(t, "deleted")
	until := w.newest(t, keyspace.BucketOf(deleted.ID))
	rename := func(k *policy.Key) { k.Name = "renamed" }
	reverted := must(registrytest.Revoke(t.Context(), w.keys, changed.ID, changed.Version, byTest))(t)
	must(w.keys.Update(t.Context(), deleted.ID, deleted.Version, "key.edit", byTest, rename))(t)
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
	}{{unchanged, 1}, {changed, 3}, {deleted, 3}} {
		got := must(w.keys.Get(t.Context(), want.ID))(t)
		if want.Version = want.version; !cmp.Equal(got, want.Key) {
			t.Errorf("restored (-want +got):\n%s", cmp.Diff(want.Key, got))
		}
	}
	restored := must(w.keys.Set(t.Context()))(t)
	if restored.Version != set.Version+1 || restored.Plans[0].Limits[0].Requests != 10 {
		t.Errorf("policies: got version %d, %+v; want version %d with limit 10", restored.Version,
			restored.Plans, set.Version+1)
	}
	if _, err := w.keys.Update(t.Context(), changed.ID, 3, "key.edit", byTest, rename); err != nil {
		t.Error(err)
	}
	_, err := w.keys.Update(t.Context(), changed.ID, reverted.Version, "key.revert", byTest, rename)
	if !errors.Is(err, policy.ErrConflict) {
		t.Errorf("an edit based on a reverted version: got %v, want ErrConflict", err)
	}
	want := w.records(t)
	delete(want, "tg:keys:revoked") // a stale entry, which readers remove
	w.flush(t)
	w.restore(t, Options{})
	if diff := cmp.Diff(want, w.records(t)); diff != "" {
		t.Errorf("restored from the journal (-want +got):\n%s", diff)
	}
}
