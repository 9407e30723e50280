package changes

import (
	"context"
	"slices"
	"testing"
	"time"

	"tidegate/internal/lua"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/tier"
)

// A real Valkey gives every script of a history the answer that the machine gives.
func TestSimulationOnValkey(t *testing.T) {
	storetest.OnSingleServers(t, func(t *testing.T, url string) {
		client := storetest.Connect(t, url)
		for seed := range uint64(tier.Histories(30)) {
			w := newWorld(1000+seed, "")
			w.mirror = client
			if err := client.Do(t.Context(), client.B().Arbitrary("FLUSHALL").Build()).Error(); err != nil {
				t.Fatal(err)
			}
			if faults := w.play(steps / 3); len(faults) > 0 {
				t.Fatalf("seed %d: %s", seed, faults[0])
			}
		}
	})
}

// mirrored runs on the mirror what the machine has run.
func (w *world) mirrored(script *lua.Script, r lua.Run, want []string) {
	ctx := context.Background()
	w.forget(w.machine.purged)
	got, err := script.Do(ctx, w.mirror, r.Keys, r.Args).AsStrSlice()
	if err != nil {
		w.fault("mirror: %v", err)
		return
	}
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want)) // HGETALL has no order
	if !slices.Equal(got, want) {
		w.fault("mirror of %v: got %q, want %q", r.Keys, got, want)
	}
}

func (w *world) forget(keys []string) {
	if len(keys) > 0 {
		del := w.mirror.B().Del().Key(keys...).Build()
		if err := w.mirror.Do(context.Background(), del).Error(); err != nil {
			w.fault("mirror: %v", err)
		}
	}
}

// mirrorShard gives the mirror what a shard has that came back.
func (w *world) mirrorShard(before, after *data) {
	c, ctx := w.mirror, context.Background()
	var names []string
	for key := range before.hashes {
		names = append(names, key)
	}
	for key := range before.sets {
		names = append(names, key)
	}
	for key := range before.strings {
		names = append(names, key)
	}
	w.forget(names)
	do := func(err error) {
		if err != nil {
			w.fault("mirror: %v", err)
		}
	}
	for key, fields := range after.hashes {
		for f, v := range fields {
			do(c.Do(ctx, c.B().Hset().Key(key).FieldValue().FieldValue(f, v).Build()).Error())
		}
	}
	for key, members := range after.sets {
		for m, score := range members {
			do(c.Do(ctx, c.B().Zadd().Key(key).ScoreMember().ScoreMember(score, m).Build()).Error())
		}
	}
	for key, v := range after.strings {
		ms := max(1, after.expires[key]-w.milliseconds())
		do(c.Do(ctx, c.B().Set().Key(key).Value(v).Px(time.Duration(ms)*time.Millisecond).Build()).Error())
	}
}
