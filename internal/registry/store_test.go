package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
)

// recorded returns the audit entries of a subject, oldest first.
func (w *world) recorded(t *testing.T, subject string) []audit.Entry {
	t.Helper()
	var entries []audit.Entry
	for q := (audit.Query{Subject: subject, Count: 500}); ; {
		page, err := w.Audit().List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, page.Entries...)
		if q.After = page.Next; q.After == "" {
			slices.Reverse(entries)
			return entries
		}
	}
}

// Concurrent edits of a few keys and the policy set, often based on an old version, are
// recorded once each if they were acknowledged. The Before of an entry is the After of
// the previous entry. Refused edits are not recorded.
func TestEveryChangeIsRecordedOnce(t *testing.T) {
	storetest.OnEveryServer(t, func(t *testing.T, url string) {
		w := open(t, url)
		w.plan(t, "free", perMinute(1)...)
		editors := &editors{world: w, done: map[string]*atomic.Int64{policyset.SetID: {}}}
		for i := range 3 {
			k, _ := w.create(t, fmt.Sprintf("key %d", i), "free")
			editors.ids = append(editors.ids, k.ID)
			editors.done[k.ID] = &atomic.Int64{}
		}
		editors.run(t)
		for id, done := range editors.done {
			w.checkRecorded(t, id, 1+done.Load())
		}
		if v := must(w.Audit().Verify(t.Context())); !v.Good() {
			t.Errorf("verify: got %+v, want it good", v)
		}
	})
}

// editors edit keys and the policy set concurrently.
type editors struct {
	*world
	ids  []string
	done map[string]*atomic.Int64 // acknowledged edits, by subject
	made atomic.Int64             // number of edits; makes all different, so that each is recorded
}

func (e *editors) run(t *testing.T) {
	t.Helper()
	var group sync.WaitGroup
	for i := range 6 {
		random := rand.New(rand.NewPCG(uint64(i), 3))
		group.Go(func() {
			for range 25 {
				id := e.ids[random.IntN(len(e.ids))]
				if random.IntN(5) == 0 {
					id = policyset.SetID
				}
				switch err := e.edit(t, random, id); {
				case err == nil:
					e.done[id].Add(1)
				case !errors.Is(err, policy.ErrConflict):
					t.Errorf("%s: %v", id, err)
				}
			}
		})
	}
	group.Wait()
}

// edit makes one edit of a subject, based on a version that is the newest or the one
// before it.
func (e *editors) edit(t *testing.T, random *rand.Rand, id string) error {
	behind := int64(random.IntN(2)) // versions
	if id == policyset.SetID {
		set, err := e.Set(t.Context())
		if err != nil {
			return err
		}
		set.Version -= behind
		set.Plans[0].Limits = perMinute(1 + e.made.Add(1))
		_, err = e.SaveSet(t.Context(), *set, byTest)
		return err
	}
	k, err := e.Get(t.Context(), id)
	if err != nil {
		return err
	}
	switch random.IntN(4) {
	case 0:
		_, _, err = e.Rotate(t.Context(), id, k.Version-behind, time.Minute, byTest)
	case 1:
		_, err = e.Reset(t.Context(), id, byTest)
	case 2:
		_, err = registrytest.Override(t.Context(), e, id, k.Version-behind,
			&policy.Override{Limits: perMinute(1 + e.made.Add(1)), Reason: "more"}, byTest)
	default:
		_, err = e.Update(t.Context(), id, k.Version-behind, "key.edit", byTest, func(k *policy.Key) {
			k.Name = fmt.Sprint("name ", e.made.Add(1))
		})
	}
	return err
}

// checkRecorded compares the audit entries of a subject with the number of changes, and
// with the stored subject.
func (w *world) checkRecorded(t *testing.T, id string, changes int64) {
	t.Helper()
	entries := w.recorded(t, id)
	if int64(len(entries)) != changes {
		t.Errorf("%s: got %d entries, want %d", id, len(entries), changes)
	}
	var before json.RawMessage
	for i, e := range entries {
		if e.Version != int64(i+1) || (i > 0 || id != policyset.SetID) && string(e.Before) != string(before) {
			t.Errorf("%s: entry %d: got version %d, before %s; want %d, %s", id, i+1, e.Version,
				e.Before, i+1, before)
		}
		before = e.After
	}
	if stored := w.stored(t, id); string(before) != stored {
		t.Errorf("%s: got %s after the last entry, want %s as stored", id, before, stored)
	}
}

// stored returns the stored subject, encoded as in the audit.
func (w *world) stored(t *testing.T, id string) string {
	t.Helper()
	if id == policyset.SetID {
		return string(must(json.Marshal(must(w.Set(t.Context())))))
	}
	return string(must(json.Marshal(must(w.Get(t.Context(), id)))))
}

// A refused change writes nothing and is not recorded.
func TestRefusedChangesLeaveNothing(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(5)...)
		k, secret := w.create(t, "steady", "free")
		w.expect(t, call(secret), "yy")
		before, records := must(w.Audit().Verify(t.Context())).Entries, w.everything(t)
		set := must(w.Set(t.Context()))
		set.Version--
		invalid := *set
		invalid.Version++
		invalid.Plans = nil
		noActor := Edit{Reason: "no actor"}
		for name, change := range map[string]func() error{
			"update of an old version": func() error {
				return second(w.Update(t.Context(), k.ID, 7, "key.edit", byTest, func(*policy.Key) {}))
			},
			"update without an actor": func() error {
				return second(w.Update(t.Context(), k.ID, k.Version, "key.edit", noActor,
					func(k *policy.Key) { k.Name = "renamed" }))
			},
			"update without an action": func() error {
				return second(w.Update(t.Context(), k.ID, k.Version, "", byTest,
					func(k *policy.Key) { k.Name = "renamed" }))
			},
			"invalid update": func() error {
				return second(w.Update(t.Context(), k.ID, k.Version, "key.edit", byTest, func(k *policy.Key) {
					k.Name = ""
				}))
			},
			"update of nothing": func() error {
				return second(w.Update(t.Context(), "nothing", 1, "key.edit", byTest, func(*policy.Key) {}))
			},
			"override without a reason": func() error {
				return second(registrytest.Override(t.Context(), w, k.ID, k.Version,
					&policy.Override{}, byTest))
			},
			"revocation, old version": func() error {
				return second(registrytest.Revoke(t.Context(), w, k.ID, 7, byTest))
			},
			"reset without an actor": func() error { return second(w.Reset(t.Context(), k.ID, noActor)) },
			"reset of nothing": func() error {
				return second(w.Reset(t.Context(), "nothing", byTest))
			},
			"deletion without an actor": func() error { return w.Delete(t.Context(), k.ID, noActor) },
			"deletion of nothing":       func() error { return w.Delete(t.Context(), "nothing", byTest) },
			"adoption of a caller with a record": func() error {
				return second(w.Adopt(t.Context(), policy.Token, k.ID, "again", nil, byTest))
			},
			"an old version of the Set": func() error { return second(w.SaveSet(t.Context(), *set, byTest)) },
			"a Set without a plan that keys have": func() error {
				return second(w.SaveSet(t.Context(), invalid, byTest))
			},
			"a reason of a million runes": func() error {
				return second(w.Reset(t.Context(), k.ID,
					Edit{By: byTest.By, Reason: string(make([]rune, 1_000_000))}))
			},
		} {
			if err := change(); err == nil {
				t.Errorf("%s: got no error", name)
			}
			if v := must(w.Audit().Verify(t.Context())); !v.Good() || v.Entries != before {
				t.Errorf("%s: verify: got %+v, want %d good entries", name, v, before)
			}
		}
		for name, value := range w.everything(t) {
			if records[name] != value {
				t.Errorf("%s changed from %q to %q", name, records[name], value)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

// everything returns all strings in Valkey, by name.
func (w *world) everything(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range must(w.client.Do(t.Context(),
		w.client.B().Keys().Pattern("*").Build()).AsStrSlice()) {
		if value, err := w.client.Do(t.Context(),
			w.client.B().Get().Key(name).Build()).ToString(); err == nil {
			all[name] = value
		}
	}
	return all
}

// A reset sets the counts to zero in the same step that records it. If it cannot be
// recorded, they stay.
func TestResetIsRecordedOrNotMade(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(2)...)
		k, secret := w.create(t, "reset", "free")
		w.expect(t, call(secret), "yyn")
		stream := audit.Stream(keyspace.BucketOf(k.ID))
		chain := must(w.client.Do(t.Context(),
			w.client.B().Xrange().Key(stream).Start("-").End("+").Build()).AsXRange())
		w.client.Do(t.Context(), w.client.B().Set().Key(stream).Value("no stream").Build())
		if _, err := w.Reset(t.Context(), k.ID, byTest); err == nil {
			t.Error("a reset that cannot be recorded: got no error")
		}
		w.expect(t, call(secret), "n")
		if stored := must(w.Get(t.Context(), k.ID)); stored.Version != k.Version {
			t.Errorf("got version %d, want %d unchanged", stored.Version, k.Version)
		}
		w.client.Do(t.Context(), w.client.B().Del().Key(stream).Build())
		for _, x := range chain {
			w.client.Do(t.Context(), w.client.B().Xadd().Key(stream).Id(x.ID).FieldValue().FieldValueIter(
				fields(x)).Build())
		}
		if _, err := w.Reset(t.Context(), k.ID, byTest); err != nil {
			t.Fatal(err)
		}
		w.expect(t, call(secret), "yyn")
		if v := must(w.Audit().Verify(t.Context())); !v.Good() {
			t.Errorf("verify: got %+v, want it good", v)
		}
	})
}

func fields(x valkey.XRangeEntry) func(func(string, string) bool) {
	return func(yield func(string, string) bool) {
		_ = yield("e", x.FieldValues["e"]) && yield("h", x.FieldValues["h"])
	}
}

// The deletion of a key with an unreadable record is recorded like any other.
func TestDeletionOfAnUnreadableKeyIsRecorded(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(5)...)
		k, secret := w.create(t, "odd", "free")
		w.expect(t, call(secret), "y")
		w.client.Do(t.Context(), w.client.B().Set().Key(keyspace.Record(k.ID)).Value(
			"\x09 of another version").Build())
		if err := w.Delete(t.Context(), k.ID, byTest); err != nil {
			t.Fatal(err)
		}
		recorded := w.recorded(t, k.ID)
		if len(recorded) != 2 || recorded[1].Action != "key.delete" || recorded[1].By != byTest.By ||
			recorded[1].Reason != byTest.Reason {
			t.Errorf("got entries %+v, want a creation and a deletion", recorded)
		}
		for _, name := range []string{keyspace.Record(k.ID)} {
			if n := must(w.client.Do(t.Context(),
				w.client.B().Exists().Key(name).Build()).AsInt64()); n != 0 {
				t.Errorf("%s still exists", name)
			}
		}
		if v := must(w.Audit().Verify(t.Context())); !v.Good() {
			t.Errorf("verify: got %+v, want it good", v)
		}
	})
}
