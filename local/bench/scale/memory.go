//go:build unix

package scale

import (
	"context"
	"fmt"
	"time"

	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/local/bench/figures"
)

const (
	memoryPlan = "memory"
	edits      = 20 // of the plan at each number of keys
	fullKeys   = 1_000
	fullLimit  = 100
)

// memory measures, at each number of keys, the memory of a key as the registry stores it,
// and the cost of an edit of the plan that all keys have.
func memory(ctx context.Context, o options) ([]figures.Figure, error) {
	c, err := openServer(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	// A long window, so that no count expires before the last is measured. What one call
	// leaves does not depend on it.
	if err := c.Plan(ctx, memoryPlan,
		limiter.Limit{Requests: fullLimit, Window: 24 * time.Hour}); err != nil {
		return nil, err
	}
	f, err := newFleet(ctx, c.URL, environments, true)
	if err != nil {
		return nil, err
	}
	defer f.close(ctx)
	// The first keys are not counted: they create what is stored once for any number of
	// keys.
	if _, err := (&growth{cluster: c, fleet: f, still: o.still}).to(ctx, fullKeys/10); err != nil {
		return nil, err
	}
	g := &growth{cluster: c, fleet: f, still: o.still}
	var all []figures.Figure
	for i, keys := range o.keys {
		measured, err := g.to(ctx, keys)
		if err != nil {
			return nil, fmt.Errorf("%d keys: %w", keys, err)
		}
		all = append(all, measured...)
		if i == 0 {
			bytes, err := g.full(ctx)
			if err != nil {
				return nil, err
			}
			all = append(all, figure("memory.full_log_100.bytes", bytes, "bytes"))
		}
	}
	return all, nil
}

// growth is a store with a growing number of keys.
type growth struct {
	*cluster
	fleet fleet
	still int // see options
	keys  int // their number so far
	// Bytes of all keys so far: as registered, and added by the first call of each.
	registered, called int64
	took               time.Duration // to create them
	last               []enforce.Call
}

// to creates keys up to a number of them, and makes one call with each new key.
func (g *growth) to(ctx context.Context, keys int) ([]figures.Figure, error) {
	grown, err := g.grown(ctx, func() (err error) {
		began := time.Now()
		g.last, err = g.calls(ctx, memoryPlan, keys-g.keys)
		g.took += time.Since(began)
		return err
	})
	if err != nil {
		return nil, err
	}
	audited, err := g.auditBytes(ctx)
	if err != nil {
		return nil, err
	}
	g.registered += grown
	grown, err = g.grown(ctx, func() error {
		_, err := g.fleet.each(ctx, g.last, len(g.last))
		g.fleet.flush(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	g.called, g.keys = g.called+grown, keys
	measured, err := g.edit(ctx)
	n, prefix := float64(keys), fmt.Sprintf("memory.keys%d.", keys)
	return append([]figures.Figure{
		figure(prefix+"registered_bytes", float64(g.registered)/n, "bytes"),
		figure(prefix+"audit_bytes", float64(audited)/n, "bytes"),
		figure(prefix+"called_bytes", float64(g.called)/n, "bytes"),
		figure(prefix+"made", n/g.took.Seconds(), "keys/s"),
	}, measured...), err
}

// grown returns how many more bytes the server uses after do.
func (g *growth) grown(ctx context.Context, do func() error) (int64, error) {
	before, err := g.memory(ctx, g.still)
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := g.memory(ctx, g.still)
	return after - before, err
}

// full fills the counts of some keys, and returns how many more bytes a full key takes
// than one that called once.
func (g *growth) full(ctx context.Context) (float64, error) {
	keys := g.last[:min(fullKeys, len(g.last))]
	f := make(fleet, len(g.fleet)) // records nothing, so that the counts alone are measured
	for i, e := range g.fleet {
		f[i] = &environment{client: e.client, checker: e.checker}
	}
	grown, err := g.grown(ctx, func() error {
		_, err := f.each(ctx, keys, len(keys)*(fullLimit-1))
		return err
	})
	return float64(grown) / float64(len(keys)), err
}

// edit saves the plan of all keys several times.
func (g *growth) edit(ctx context.Context) ([]figures.Figure, error) {
	var took []time.Duration
	used, err := g.during(ctx, func() error {
		for i := range edits {
			began := time.Now()
			if err := g.Edit(ctx, func(s *policy.Set) {
				s.Plans[0].Limits[0].Requests = fullLimit + int64(i+1)%2
			}); err != nil {
				return err
			}
			took = append(took, time.Since(began))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	prefix := fmt.Sprintf("edit.keys%d.", g.keys)
	return []figures.Figure{
		figure(prefix+"ms", figures.Millis(figures.Median(took)), "ms"),
		figure(prefix+"bytes", float64(used[0].received)/edits, "bytes"),
		figure(prefix+"cpu_ms", figures.Millis(used[0].processor)/edits, "ms"),
	}, nil
}
