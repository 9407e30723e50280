//go:build unix

package scale

import (
	"context"
	"fmt"
	"time"

	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/local/bench/figures"
	server "tidegate/local/valkey"
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
	s, err := server.Installed(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	n, err := openNode(s)
	if err != nil {
		return nil, err
	}
	defer n.client.Close()
	r, err := openRegistry(ctx, s.URL)
	if err != nil {
		return nil, err
	}
	defer r.client.Close()
	// A long window, so that no count expires before the last is measured. What one call
	// leaves does not depend on it.
	if err := r.Plan(ctx, memoryPlan,
		limiter.Limit{Requests: fullLimit, Window: 24 * time.Hour}); err != nil {
		return nil, err
	}
	f, err := newFleet(ctx, s.URL, environments, true)
	if err != nil {
		return nil, err
	}
	defer f.close(ctx)
	return grow(ctx, o, &growth{node: n, registry: r, fleet: f, still: o.still})
}

// growth is a store with a growing number of keys.
type growth struct {
	node     *node
	registry *keyRegistry
	fleet    fleet
	still    int
	keys     int
	// Bytes of all keys so far.
	registered, called int64
	made               time.Duration
	last               []enforce.Call
}

func grow(ctx context.Context, o options, g *growth) ([]figures.Figure, error) {
	if _, err := g.to(ctx, fullKeys/10); err != nil { // what is stored once, whatever the number of keys
		return nil, err
	}
	*g = growth{node: g.node, registry: g.registry, fleet: g.fleet, still: g.still}
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

// to creates keys up to a number of them, and makes one call with each new key.
func (g *growth) to(ctx context.Context, keys int) ([]figures.Figure, error) {
	grown, err := g.taken(ctx, func() (err error) {
		began := time.Now()
		g.last, err = g.registry.calls(ctx, memoryPlan, keys-g.keys)
		g.made += time.Since(began)
		return err
	})
	if err != nil {
		return nil, err
	}
	audited, err := g.node.audit(ctx)
	if err != nil {
		return nil, err
	}
	g.registered += grown
	grown, err = g.taken(ctx, func() error {
		if _, err := g.fleet.each(ctx, g.last); err != nil {
			return err
		}
		for _, e := range g.fleet {
			e.usage.Flush(ctx, e.client)
		}
		return nil
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
		figure(prefix+"made", n/g.made.Seconds(), "keys/s"),
	}, measured...), err
}

// taken returns how many more bytes the server uses after do.
func (g *growth) taken(ctx context.Context, do func() error) (int64, error) {
	before, err := g.node.memory(ctx, g.still)
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := g.node.memory(ctx, g.still)
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
	grown, err := g.taken(ctx, func() error {
		_, err := f.each(ctx, repeated(keys, int64(len(keys)*(fullLimit-1))))
		return err
	})
	return float64(grown) / float64(len(keys)), err
}
