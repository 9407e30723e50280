package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"tidegate/internal/audit"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/storetest"
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
	client := storetest.Connect(t, c.ValkeyURL)
	keys := registry.NewStore(client, c.pepper)
	plan := policy.Plan{Name: "free", Limits: []limiter.Limit{{Requests: 1, Window: time.Minute}}}
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
		ping: func(context.Context) error { return unavailable },
		sync: func(context.Context) error { syncs++; return errors.New("one shard is unavailable") },
		log:  slog.New(slog.DiscardHandler), now: func() time.Time { return clock },
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
