package registry

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

// snapshot has the values of some names in Valkey; empty for a missing name.
type snapshot map[string]string

func (w *world) snapshot(t *testing.T, names ...string) snapshot {
	t.Helper()
	values := snapshot{}
	for _, name := range names {
		value, err := w.client.Do(t.Context(), w.client.B().Get().Key(name).Build()).ToString()
		if err != nil && !valkey.IsValkeyNil(err) {
			t.Fatal(err)
		}
		values[name] = value
	}
	return values
}

// revert writes the values of a snapshot again, as after a failover before the newer
// values were replicated.
func (w *world) revert(t *testing.T, values snapshot) {
	t.Helper()
	for name, value := range values {
		command := w.client.B().Set().Key(name).Value(value).Build()
		if value == "" {
			command = w.client.B().Del().Key(name).Build()
		}
		if err := w.client.Do(t.Context(), command).Error(); err != nil {
			t.Fatal(err)
		}
	}
}

// cold returns the world with a new checker, which has no policy set yet.
func (w *world) cold() *world {
	return &world{Store: w.Store, checker: enforce.NewChecker(w.checks, testPepper), checks: w.checks,
		client: w.client}
}

func (w *world) synced(t *testing.T) bool {
	t.Helper()
	return must(w.Synced(t.Context(), must(w.Set(t.Context()))))
}

// wantRepaired runs Sync. It fails the test unless the set, its mirrors and all copies
// then have this version, with this limit.
func (w *world) wantRepaired(t *testing.T, version, limit int64) {
	t.Helper()
	if w.synced(t) {
		t.Error("synced before the repair")
	}
	for range 2 { // the second Sync has nothing to do
		if err := w.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		set := must(w.Set(t.Context()))
		if set.Version != version || set.Plans[0].Limits[0].Requests != limit || !w.synced(t) {
			t.Fatalf("after Sync: got %+v, synced %t; want version %d with limit %d", set, w.synced(t),
				version, limit)
		}
	}
	found := must(w.readVersions(t.Context()))
	if found.stored != version || found.oldest != version || found.newest != version {
		t.Errorf("after Sync: got %+v, want version %d everywhere", found, version)
	}
}

// After a failover reverted the record of the policy set, new checkers read the save from
// a mirror, and Sync restores it.
func TestLostSetComesBackFromAMirror(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(10)...)
		_, secret := w.create(t, "a", "free")
		before := w.snapshot(t, policyset.SetKey, policyset.MirrorKeys[0])
		w.plan(t, "free", perMinute(2)...)
		warm := w.cold()
		warm.expect(t, call(secret), "y")
		w.revert(t, before)

		if c := w.cold().expect(t, call(secret), "yn"); c.SetVersion != 2 {
			t.Errorf("before Sync: got version %d, want 2", c.SetVersion)
		}
		w.wantRepaired(t, 3, 2)
		for name, checks := range map[string]*world{"warm": warm, "cold": w.cold()} {
			if c := checks.expect(t, call(secret), "n"); c.SetVersion != 3 {
				t.Errorf("%s checker after Sync: got version %d, want 3", name, c.SetVersion)
			}
		}
		recorded := w.recorded(t, policyset.SetID)
		if last := recorded[len(recorded)-1]; last.Action != "policy.repair" || last.By != byRepair ||
			!strings.Contains(string(last.Before), `"requests":10`) {
			t.Errorf("last audit entry: got %+v, want a repair by %v", last, byRepair)
		}
		w.plan(t, "free", perMinute(5)...)
		if c := warm.expect(t, call(secret), "yyyn"); c.SetVersion != 4 {
			t.Errorf("after the next save: got version %d, want 4", c.SetVersion)
		}
	})
}

// lostSet saves version 1 and then version 2, with a limit of 2 instead of 10 and a
// second plan. Then it reverts the set and its mirrors, so that only the copies have
// version 2. warm has a checker that knows version 2.
func lostSet(t *testing.T, w *world) (warm *world, c enforce.Call) {
	t.Helper()
	w.plan(t, "free", perMinute(10)...)
	_, secret := w.create(t, "a", "free")
	before := w.snapshot(t, append(policyset.MirrorKeys[:], policyset.SetKey)...)
	w.save(t, func(s *policy.Set) {
		s.Plans[0].Limits = perMinute(2)
		s.Plans = append(s.Plans, policy.Plan{Name: "lost", Limits: perMinute(1)})
	})
	warm = w.cold()
	warm.expect(t, call(secret), "y")
	w.revert(t, before)
	return warm, call(secret)
}

// If the mirrors are lost too, checkers that know the newest policy set continue with it,
// and others do not decide. Sync puts the older set in force everywhere.
func TestLostSetAndMirrors(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		warm, c := lostSet(t, w)
		if result, err := w.cold().checker.Check(t.Context(), c, nil); result.Allowed ||
			!errors.Is(err, enforce.ErrStale) || !store.Unavailable(err) {
			t.Errorf("without the newest set: got %+v, %v; want ErrStale", result, err)
		}
		warm.expect(t, c, "yn")
		w.wantRepaired(t, 3, 10)
		warm.expect(t, c, "yyyyyyyyn")
		w.plan(t, "new", perMinute(1)...)
		if plan, _ := must(w.Set(t.Context())).Plan("new"); plan.Number != 3 {
			t.Errorf("new plan: got number %d, want 3, which no key may have", plan.Number)
		}
	})
}

// A save repairs a lost set too: its version is above every version that a check may
// know.
func TestSaveOverALostSet(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		warm, c := lostSet(t, w)
		w.plan(t, "free", perMinute(5)...)
		for _, checks := range []*world{warm, w.cold()} {
			if result := checks.expect(t, c, "yy"); result.SetVersion != 3 {
				t.Errorf("after the save: got version %d, want 3", result.SetVersion)
			}
		}
		warm.expect(t, c, "n")
		if !w.synced(t) {
			t.Error("after the save: got synced false, want true")
		}
	})
}

// In buckets that lost their copies, checks use older copies until Sync, or fail without
// one. After Sync they use the newest.
func TestLostCopiesAreWrittenAgain(t *testing.T) {
	for name, noCopies := range map[string]bool{"older copies": false, "no copies": true} {
		t.Run(name, func(t *testing.T) {
			onEveryServer(t, func(t *testing.T, w *world) {
				copies := copyKeys()[policyset.Mirrors:]
				before := w.snapshot(t, copies[:128]...)
				if !noCopies {
					w.plan(t, "free", perMinute(10)...)
					before = w.snapshot(t, copies[:128]...)
				}
				w.plan(t, "free", perMinute(3)...)
				secret := keyIn(t, w, copies[:128])
				w.revert(t, before)
				switch _, err := w.checker.Check(t.Context(), secret, nil); {
				case noCopies && !errors.Is(err, enforce.ErrStale):
					t.Errorf("without a copy: got %v, want ErrStale", err)
				case !noCopies && err != nil:
					t.Error(err)
				}
				w.wantRepaired(t, must(w.Set(t.Context())).Version, 3)
				w.expect(t, secret, map[bool]string{true: "yyyn", false: "yyn"}[noCopies])
			})
		})
	}
}

// keyIn creates a key in a bucket with one of these copies.
func keyIn(t *testing.T, w *world, copies []string) enforce.Call {
	t.Helper()
	for {
		k, secret := w.create(t, "a", "free")
		for _, name := range copies {
			if name == policyset.CopyKey(keyspace.BucketOf(k.ID)) {
				return call(secret)
			}
		}
	}
}

// Sync cannot restore the policy set from copies alone. Checkers that know the set
// continue with it. The next save gets a version and plan numbers above those of the
// copies.
func TestOnlyCopiesAreLeft(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", perMinute(2)...)
	_, secret := w.create(t, "a", "free")
	w.expect(t, call(secret), "y")
	w.revert(t, snapshot{policyset.SetKey: "", policyset.MirrorKeys[0]: "", policyset.MirrorKeys[1]: "",
		policyset.MirrorKeys[2]: ""})
	if err := w.Sync(t.Context()); !errors.Is(err, errSetLost) || w.synced(t) {
		t.Errorf("sync: got %v, want errSetLost", err)
	}
	w.expect(t, call(secret), "yn")
	w.plan(t, "free", perMinute(1)...)
	if set := must(w.Set(t.Context())); set.Version != 2 || set.Plans[0].Number != 2 {
		t.Errorf("got %+v, want version 2 and plan number 2", set)
	}
}

// With concurrent saves and Syncs, the newest save is stored everywhere in the end, and
// no Sync takes a save under way for a lost one.
func TestSyncDuringSaves(t *testing.T) {
	w := open(t, valkeytest.SharedCluster(t))
	w.plan(t, "free", perMinute(1)...)
	done := make(chan error, 1)
	go func() {
		var err error
		for range 40 {
			err = errors.Join(err, w.Sync(t.Context()))
		}
		done <- err
	}()
	for i := range int64(40) {
		w.plan(t, "free", perMinute(i+2)...)
	}
	if err := waiting.For(t, "the end of the save", done); err != nil {
		t.Error(err)
	}
	if set := must(w.Set(t.Context())); set.Version != 41 || !w.synced(t) {
		t.Errorf("got version %d, synced %t; want 41, true", set.Version, w.synced(t))
	}
}

// While a shard does not answer, a save reaches the other shards, and Usage works for
// their keys.
func TestUnavailableShard(t *testing.T) {
	servers := valkeytest.StartProxiedCluster(t, 3)
	w := open(t, servers[0].URL()+"?cluster=true")
	w.plan(t, "free", perMinute(7)...)
	set, first := must(w.Set(t.Context())), w.client.Nodes()[servers[0].Address()]
	get := func(name string) valkey.ValkeyResult { // names of other shards are answered MOVED
		return first.Do(t.Context(), first.B().Get().Key(name).Build())
	}
	key, secret := w.create(t, "caller", "free")
	for get(keyspace.Record(key.ID)).Error() != nil {
		key, secret = w.create(t, "caller", "free")
	}
	w.expect(t, call(secret), "yy")
	for _, node := range w.client.Nodes() { // as after a failover
		if err := node.Do(t.Context(), node.B().ScriptFlush().Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	servers[1].Silence()
	ctx, cancel := context.WithTimeout(t.Context(), waiting.Timeout)
	defer cancel()
	used, err := w.checker.Usage(ctx, set, []policy.Key{key})
	if err != nil || used[0][0].Used() != 2 {
		t.Errorf("usage: got %+v, %v; want 2 used", used, err)
	}
	next := *set
	next.Version++
	saved := make(chan error, 1)
	go func() { saved <- w.Distribute(ctx, &next) }()
	var copies []string
	for _, b := range keyspace.All() {
		if get(policyset.CopyKey(b)).Error() == nil {
			copies = append(copies, policyset.CopyKey(b))
		}
	}
	if len(copies) < keyspace.Buckets/4 {
		t.Fatalf("got %d copies on the first of three shards, want at least a quarter", len(copies))
	}
	waiting.Until(t, "the copies on the first shard are new", func() bool {
		return !slices.ContainsFunc(copies, func(name string) bool {
			text := must(get(name).AsBytes())
			return int64(binary.BigEndian.Uint32(text[1:])) != next.Version
		})
	})
	cancel()
	if err := waiting.For(t, "the end of the save", saved); !errors.Is(err, policy.ErrUnfinished) {
		t.Errorf("save: got %v, want ErrUnfinished", err)
	}
}
