package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/valkey-io/valkey-go"

	"tidegate/internal/audit"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

// At its start the function repairs copies of the policies that a failover left
// different.
func TestPoliciesAreRepairedAtTheStart(t *testing.T) {
	f := newFixture(t)
	keys := seeded(t, f.server)
	set, err := keys.Set(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.server.Del(keyspace.Bucket(7).Name("p")) // a copy that its shard lost
	if synced, err := keys.Synced(t.Context(), set); synced || err != nil {
		t.Fatalf("before the start: got synced %t, %v, want false", synced, err)
	}
	if w := get(f, "/healthz"); w.Code != http.StatusOK {
		t.Errorf("/healthz: got %d, want 200", w.Code)
	}
	if synced, err := keys.Synced(t.Context(), set); !synced || err != nil {
		t.Errorf("after the start: got synced %t, %v, want true", synced, err)
	}
}

// seeded returns a store with one plan.
func seeded(t *testing.T, server *miniredis.Miniredis) *registry.Store {
	t.Helper()
	c, err := readConfig(environment("VALKEY_URL=valkey://" + server.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	return savePlan(t, c, storetest.Connect(t, c.ValkeyURL))
}

func savePlan(t *testing.T, c settings, client valkey.Client) *registry.Store {
	t.Helper()
	keys := registry.NewStore(client, c.pepper)
	plan := policy.Plan{Name: "free", Limits: []limits.Limit{{Requests: 1, Window: time.Minute}}}
	if _, err := keys.SaveSet(
		t.Context(),
		policy.Set{Plans: []policy.Plan{plan}},
		registry.Edit{By: audit.Actor{Kind: "user", Name: "ada"}},
	); err != nil {
		t.Fatal(err)
	}
	return keys
}

// ready repairs the policies at most once a minute and not while Valkey is unavailable. A
// failed repair is no error.
func TestHealthRepairsOnceAMinute(t *testing.T) {
	var unavailable error
	syncs, clock := 0, time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	w := &storeHealth{
		writable: func(context.Context) error { return unavailable },
		usable:   func(context.Context) error { return nil },
		sync:     func(context.Context) error { syncs++; return errors.New("one shard is unavailable") },
		log:      slog.New(slog.DiscardHandler), now: func() time.Time { return clock },
	}
	for _, step := range []struct {
		after       time.Duration
		unavailable error
		syncs       int
	}{
		{0, nil, 1}, {0, nil, 1}, {syncPause - 1, nil, 1}, {1, nil, 2},
		{syncPause, errors.New("unavailable"), 2}, {0, nil, 3},
	} {
		clock, unavailable = clock.Add(step.after), step.unavailable
		if err := w.ready(t.Context()); !errors.Is(err, step.unavailable) || syncs != step.syncs {
			t.Errorf("%+v: got %v after %d syncs", step, err, syncs)
		}
	}
}

// A repair that takes long does not delay the answer, goes on after it, and is not begun
// again meanwhile.
func TestHealthWithASlowRepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var syncs atomic.Int64
		var finished atomic.Bool
		w := &storeHealth{
			writable: func(context.Context) error { return nil },
			usable:   func(context.Context) error { return nil },
			sync: func(ctx context.Context) error {
				syncs.Add(1)
				time.Sleep(repairTime - time.Second) //nolint:forbidigo // on the clock of the bubble
				finished.Store(ctx.Err() == nil)
				return ctx.Err()
			},
			log: slog.New(slog.DiscardHandler), now: time.Now,
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if err := w.ready(ctx); err != nil || time.Since(began) > 300*time.Millisecond {
			t.Errorf("got %v after %s, want no error within 300 ms", err, time.Since(began))
		}
		if err := w.ready(ctx); err != nil || syncs.Load() != 1 {
			t.Errorf("got %v and %d repairs, want one", err, syncs.Load())
		}
		time.Sleep(repairTime) //nolint:forbidigo // on the clock of the bubble
		if !finished.Load() {
			t.Error("the repair ended with the request")
		}
	})
}

// A server can answer a PING while every check is denied. /healthz then says why.
func TestHealthTriesWhatACheckNeeds(t *testing.T) {
	server := valkeytest.Start(t)
	admin := storetest.Connect(t, server)
	command := func(words ...string) {
		t.Helper()
		if err := admin.Do(t.Context(), admin.B().Arbitrary(words...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	c, err := readConfig(environment("VALKEY_URL=" + server))
	if err != nil {
		t.Fatal(err)
	}
	handler, err := newConnector(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	wants := func(status int, text string) {
		t.Helper()
		waiting.Until(t, text, func() bool {
			w := get(handler, "/healthz")
			return w.Code == status && w.Body.String() == "alive\n"+text
		})
	}
	wants(http.StatusServiceUnavailable, "store ready\npolicies missing\n")
	savePlan(t, c, admin)
	wants(http.StatusOK, "store ready\neviction allkeys-lru\n")
	command("REPLICAOF", "127.0.0.1", "1")
	wants(http.StatusServiceUnavailable, "store READONLY\n")
	command("REPLICAOF", "NO", "ONE")
	command("CONFIG", "SET", "maxmemory-policy", "noeviction")
	command("CONFIG", "SET", "maxmemory", "1")
	wants(http.StatusServiceUnavailable, "store OOM\n")
	command("CONFIG", "SET", "maxmemory", "0")
	wants(http.StatusOK, "store ready\neviction allkeys-lru\n")
	command("FLUSHALL")
	wants(http.StatusServiceUnavailable, "store ready\npolicies missing\n")
}
