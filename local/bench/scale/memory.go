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
	// The window is so long that no count expires before the end of the measurement. The
	// bytes of a call do not depend on it.
	if err := c.Plan(ctx, memoryPlan,
		limiter.Limit{Requests: fullLimit, Window: 24 * time.Hour}); err != nil {
		return nil, err
	}
	f, err := newFleet(ctx, c.URL, environments, true)
	if err != nil {
		return nil, err
	}
	defer f.close(ctx)
	// The first keys are not counted, since they create data that is stored once for any
	// number of keys.
	if _, err := (&growth{cluster: c, fleet: f, stable: o.stable}).growTo(ctx, fullKeys/10); err != nil {
		return nil, err
	}
	g := &growth{cluster: c, fleet: f, stable: o.stable}
	var all []figures.Figure
	for i, keys := range o.keys {
		measured, err := g.growTo(ctx, keys)
		if err != nil {
			return nil, fmt.Errorf("%d keys: %w", keys, err)
		}
		all = append(all, measured...)
		if i == 0 {
			bytes, err := g.fillLogs(ctx)
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
	fleet  fleet
	stable int // see options
	keys   int // number of keys so far
	// Bytes of all keys so far: as registered, and added by the first call of each.
	registered, called int64
	took               time.Duration  // to create the keys
	last               []enforce.Call // one with each of the keys created last
}

// growTo creates keys until there are so many, and makes one call with each new key.
func (g *growth) growTo(ctx context.Context, keys int) ([]figures.Figure, error) {
	grown, err := g.bytesAdded(ctx, func() (err error) {
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
	grown, err = g.bytesAdded(ctx, func() error {
		_, err := g.fleet.checkTimes(ctx, g.last, len(g.last))
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

// bytesAdded runs do and returns by how many bytes the server's memory grew.
func (g *growth) bytesAdded(ctx context.Context, do func() error) (int64, error) {
	before, err := g.memory(ctx, g.stable)
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := g.memory(ctx, g.stable)
	return after - before, err
}

// fillLogs uses up the limits of some keys. It returns how many more bytes such a key
// takes than a key after one call.
func (g *growth) fillLogs(ctx context.Context) (float64, error) {
	keys := g.last[:min(fullKeys, len(g.last))]
	f := make(fleet, len(g.fleet)) // does not record usage, so that only counts add bytes
	for i, e := range g.fleet {
		f[i] = &environment{client: e.client, checker: e.checker}
	}
	grown, err := g.bytesAdded(ctx, func() error {
		_, err := f.checkTimes(ctx, keys, len(keys)*(fullLimit-1))
		return err
	})
	return float64(grown) / float64(len(keys)), err
}

// edit measures edits of the plan that all keys have.
func (g *growth) edit(ctx context.Context) ([]figures.Figure, error) {
	var took []time.Duration
	used, err := figures.During(ctx, g.nodes, func() error {
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
		figure(prefix+"bytes", float64(used[0].Received)/edits, "bytes"),
		figure(prefix+"cpu_ms", figures.Millis(used[0].Processor)/edits, "ms"),
	}, nil
}
