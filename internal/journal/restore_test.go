package journal

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
)

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
