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

// lying is what some names held at a time.
type lying map[string]string

func (w *world) remember(t *testing.T, names ...string) lying {
	t.Helper()
	held := lying{}
	for _, name := range names {
		value, err := w.client.Do(t.Context(), w.client.B().Get().Key(name).Build()).ToString()
		if err != nil && !valkey.IsValkeyNil(err) {
			t.Fatal(err)
		}
		held[name] = value
	}
	return held
}

// takeBack makes names hold again what they held, as a failover does to what was not
// replicated yet.
func (w *world) takeBack(t *testing.T, held lying) {
	t.Helper()
	for name, value := range held {
		command := w.client.B().Set().Key(name).Value(value).Build()
		if value == "" {
			command = w.client.B().Del().Key(name).Build()
		}
		if err := w.client.Do(t.Context(), command).Error(); err != nil {
			t.Fatal(err)
		}
	}
}

// cold makes the world's checker one that knows nothing yet.
func (w *world) cold() *world {
	return &world{Store: w.Store, checker: enforce.NewChecker(w.checks, testPepper), checks: w.checks,
		client: w.client}
}

func (w *world) synced(t *testing.T) bool {
	t.Helper()
	return must(w.Synced(t.Context(), must(w.Set(t.Context()))))
}

// wantRepaired syncs, and wants a Set of this version, with this limit, to be what lies
// everywhere.
func (w *world) wantRepaired(t *testing.T, version, limit int64) {
	t.Helper()
	if w.synced(t) {
		t.Error("synced before the repair")
	}
	for range 2 { // the second one finds nothing to do
		if err := w.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		set := must(w.Set(t.Context()))
		if set.Version != version || set.Plans[0].Limits[0].Requests != limit || !w.synced(t) {
			t.Fatalf("after the repair: %+v, synced %t; want version %d with limit %d", set, w.synced(t),
				version, limit)
		}
	}
	found := must(w.readVersions(t.Context()))
	if found.stored != version || found.oldest != version || found.newest != version {
		t.Errorf("after the repair: %+v, want version %d everywhere", found, version)
	}
}

// A failover takes back the Set's record: checks that begin then find the save in a
// mirror, and Sync brings it back.
func TestLostSetComesBackFromAMirror(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(10)...)
		_, secret := w.create(t, "a", "free")
		before := w.remember(t, policyset.SetKey, policyset.MirrorKeys[0])
		w.plan(t, "free", perMinute(2)...)
		warm := w.cold()
		warm.expect(t, call(secret), "y")
		w.takeBack(t, before)

		if c := w.cold().expect(t, call(secret), "yn"); c.SetVersion != 2 {
			t.Errorf("version %d before the repair, want 2", c.SetVersion)
		}
		w.wantRepaired(t, 3, 2)
		for name, checks := range map[string]*world{"warm": warm, "cold": w.cold()} {
			if c := checks.expect(t, call(secret), "n"); c.SetVersion != 3 {
				t.Errorf("%s: version %d after the repair, want 3", name, c.SetVersion)
			}
		}
		recorded := w.recorded(t, policyset.SetID)
		if last := recorded[len(recorded)-1]; last.Action != "policy.repair" || last.By != byRepair ||
			!strings.Contains(string(last.Before), `"requests":10`) {
			t.Errorf("the audit ends with %+v", last)
		}
		w.plan(t, "free", perMinute(5)...)
		if c := warm.expect(t, call(secret), "yyyn"); c.SetVersion != 4 {
			t.Errorf("version %d after the next save, want 4", c.SetVersion)
		}
	})
}

// lostSet is a world in which the save of version 2, with a limit of 2 instead of 10 and
// a second plan, is left in the copies alone.
func lostSet(t *testing.T, w *world) (warm *world, c enforce.Call) {
	t.Helper()
	w.plan(t, "free", perMinute(10)...)
	_, secret := w.create(t, "a", "free")
	before := w.remember(t, append(policyset.MirrorKeys[:], policyset.SetKey)...)
	w.save(t, func(s *policy.Set) {
		s.Plans[0].Limits = perMinute(2)
		s.Plans = append(s.Plans, policy.Plan{Name: "lost", Limits: perMinute(1)})
	})
	warm = w.cold()
	warm.expect(t, call(secret), "y")
	w.takeBack(t, before)
	return warm, call(secret)
}

// The mirrors are lost as well: who knows the newest Set goes by it, who does not goes by
// none. Then Sync puts the older one in force everywhere.
func TestLostSetAndMirrors(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		warm, c := lostSet(t, w)
		if checked, err := w.cold().checker.Check(t.Context(), c, nil); checked.Allowed ||
			!errors.Is(err, enforce.ErrStale) || !store.Unavailable(err) {
			t.Errorf("without the newest set: %+v, %v; want no decision", checked, err)
		}
		warm.expect(t, c, "yn")
		w.wantRepaired(t, 3, 10)
		warm.expect(t, c, "yyyyyyyyn")
		w.plan(t, "new", perMinute(1)...)
		if plan, _ := must(w.Set(t.Context())).Plan("new"); plan.Number != 3 {
			t.Errorf("the new plan has the number %d, of which there may be keys", plan.Number)
		}
	})
}

// A save repairs as well: its version is above any that a check may know.
func TestSaveOverALostSet(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		warm, c := lostSet(t, w)
		w.plan(t, "free", perMinute(5)...)
		for _, checks := range []*world{warm, w.cold()} {
			if checked := checks.expect(t, c, "yy"); checked.SetVersion != 3 {
				t.Errorf("version %d after the save, want 3", checked.SetVersion)
			}
		}
		warm.expect(t, c, "n")
		if !w.synced(t) {
			t.Error("not synced after a save")
		}
	})
}

// Copies are lost: until Sync the limits from before hold there, and not after.
func TestLostCopiesAreWrittenAgain(t *testing.T) {
	for name, first := range map[string]bool{"older ones are left": false, "none are left": true} {
		t.Run(name, func(t *testing.T) {
			onEveryServer(t, func(t *testing.T, w *world) {
				copies := copyKeys()[policyset.Mirrors:]
				before := w.remember(t, copies[:128]...)
				if !first {
					w.plan(t, "free", perMinute(10)...)
					before = w.remember(t, copies[:128]...)
				}
				w.plan(t, "free", perMinute(3)...)
				secret := keyIn(t, w, copies[:128])
				w.takeBack(t, before)
				switch _, err := w.checker.Check(t.Context(), secret, nil); {
				case first && !errors.Is(err, enforce.ErrStale):
					t.Errorf("without a copy: %v, want errStale", err)
				case !first && err != nil:
					t.Error(err)
				}
				w.wantRepaired(t, must(w.Set(t.Context())).Version, 3)
				w.expect(t, secret, map[bool]string{true: "yyyn", false: "yyn"}[first])
			})
		})
	}
}

// keyIn creates a key in a bucket whose copy is one of these.
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

// Copies alone have too little to make a Set of: Sync leaves them to those who still know
// it, and a save goes on behind them.
func TestNothingIsLeftButCopies(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", perMinute(2)...)
	_, secret := w.create(t, "a", "free")
	w.expect(t, call(secret), "y")
	w.takeBack(t, lying{policyset.SetKey: "", policyset.MirrorKeys[0]: "", policyset.MirrorKeys[1]: "",
		policyset.MirrorKeys[2]: ""})
	if err := w.Sync(t.Context()); !errors.Is(err, errSetLost) || w.synced(t) {
		t.Errorf("sync: %v, want errSetLost", err)
	}
	w.expect(t, call(secret), "yn")
	w.plan(t, "free", perMinute(1)...)
	if set := must(w.Set(t.Context())); set.Version != 2 || set.Plans[0].Number != 2 {
		t.Errorf("%+v, want version 2 and a plan of another number", set)
	}
}

// However a save and a Sync meet, the newest save is what lies everywhere.
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
	if err := <-done; err != nil {
		t.Error(err)
	}
	if set := must(w.Set(t.Context())); set.Version != 41 || !w.synced(t) {
		t.Errorf("version %d, synced %t; want 41: a save was taken for a lost one", set.Version, w.synced(t))
	}
}

// While a shard does not answer, a save reaches the other shards at once, and lists say
// what keys on them have left.
func TestWithoutAShard(t *testing.T) {
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
	used, err := w.Usage(ctx, set, []policy.Key{key})
	if err != nil || used[0].Limits[0].Used() != 2 {
		t.Errorf("%+v, %v; two calls were made", used, err)
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
		t.Fatalf("%d copies on the first of three shards", len(copies))
	}
	waiting.Until(t, "the copies on the first shard are new", func() bool {
		return !slices.ContainsFunc(copies, func(name string) bool {
			text := must(get(name).AsBytes())
			return int64(binary.BigEndian.Uint32(text[1:])) != next.Version
		})
	})
	cancel()
	if err := <-saved; !errors.Is(err, policy.ErrUnfinished) {
		t.Errorf("the save ended with %v", err)
	}
}
