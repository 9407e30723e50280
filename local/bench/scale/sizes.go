//go:build unix

package main

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/local/bench"
)

// sizes measures all that decides the size of a deployment.
func sizes(ctx context.Context, o options) ([]bench.Figure, error) {
	var all []bench.Figure
	for _, measure := range []func(context.Context, options) ([]bench.Figure, error){
		shards, floods, global, memory,
	} {
		figures, err := measure(ctx, o)
		if err != nil {
			return nil, err
		}
		for _, f := range figures {
			f.Name = "scale." + f.Name
			all = append(all, f)
		}
	}
	return all, nil
}

func limit(requests int64, window time.Duration) limits.Limit {
	return limits.Limit{Requests: requests, Window: window}
}

var oneLimit = limit(1000, 10*time.Second)

// saturated measures calls of new keys of a plan on a server. It makes some calls before.
func saturated(ctx context.Context, o options, s *bench.Server, records bool, name string,
	list ...limits.Limit) (cost, error) {
	if err := s.Plan(ctx, name, list...); err != nil {
		return cost{}, err
	}
	calls, err := s.Calls(ctx, name, o.callers)
	if err != nil {
		return cost{}, err
	}
	f, err := newFleet(ctx, s, records)
	if err != nil {
		return cost{}, err
	}
	if _, _, err := f.run(ctx, calls, bench.For(o.slice/5)); err != nil { // loads scripts and policies
		return cost{}, err
	}
	return f.measure(ctx, o, s, calls, true)
}

// shards measures checks of all kinds on one shard, and of the first kind on more.
func shards(ctx context.Context, o options) ([]bench.Figure, error) {
	var all []bench.Figure
	for n := 1; n <= 3; n++ {
		s, err := bench.Start(ctx, n)
		if err != nil {
			return nil, err
		}
		defer s.Close()
		for _, kind := range []struct {
			name    string
			limits  []limits.Limit
			records bool
		}{
			{"one_limit", []limits.Limit{oneLimit}, false},
			{"two_limits", []limits.Limit{oneLimit, limit(100_000, 10*time.Minute)}, false},
			{"with_usage", []limits.Limit{oneLimit}, true},
		} {
			if n > 1 && kind.name != "one_limit" {
				continue
			}
			c, err := saturated(ctx, o, s, kind.records, kind.name, kind.limits...)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", kind.name, err)
			}
			prefix := fmt.Sprintf("%s.shards%d.", kind.name, n)
			all = append(all, bench.Figure{Name: prefix + "rate", Value: c.rate, Unit: "checks/s"},
				bench.Figure{Name: prefix + "cpu_us", Value: c.process, Unit: "µs"},
				bench.Figure{Name: prefix + "script_us", Value: c.script, Unit: "µs"},
				bench.Figure{Name: prefix + "per_core", Value: 1e6 / c.process, Unit: "checks/s"},
				bench.Figure{Name: prefix + "busiest_share", Value: c.share, Unit: "ratio"})
		}
	}
	return all, nil
}

// floods measures what one shard spends on each call of a flood. The environments remember
// no denials, so all calls reach Valkey.
func floods(ctx context.Context, o options) ([]bench.Figure, error) {
	s, err := bench.Start(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	once := limit(1, 24*time.Hour)
	var all []bench.Figure
	for _, flood := range []struct {
		name   string
		limit  limits.Limit
		change func(*enforce.Call) error
	}{
		{"allowed", oneLimit, nil}, {"denied", once, nil},
		{"full_address", oneLimit, func(c *enforce.Call) error { // its address is over a limit
			c.Address, c.Network = netip.MustParseAddr("192.0.2.1"), netip.MustParsePrefix("192.0.2.1/32")
			return nil
		}},
		{"made_up", oneLimit, func(c *enforce.Call) (err error) {
			c.Secret, err = apikey.Generate("bench")
			c.Subject = c.Secret.ID()
			return err
		}},
	} {
		if err := s.Plan(ctx, flood.name, flood.limit); err != nil {
			return nil, err
		}
		calls, err := s.Calls(ctx, flood.name, o.callers)
		if err != nil {
			return nil, err
		}
		for i := 0; flood.change != nil && i < len(calls); i++ {
			if err := flood.change(&calls[i]); err != nil {
				return nil, err
			}
		}
		if err := s.Edit(ctx, func(set *policy.Set) {
			if set.Limits = nil; flood.name == "full_address" {
				each := once
				each.Who = limits.EachAddress
				set.Limits = []limits.Limit{each}
			}
		}); err != nil {
			return nil, err
		}
		f, err := newFleet(ctx, s, false)
		if err != nil {
			return nil, err
		}
		if _, _, err := f.run(ctx, calls, bench.Times(2*len(calls))); err != nil { // uses the limits up
			return nil, err
		}
		c, err := f.measure(ctx, o, s, calls, flood.name == "allowed")
		if err != nil {
			return nil, fmt.Errorf("flood %s: %w", flood.name, err)
		}
		prefix := "flood." + flood.name
		all = append(all, bench.Figure{Name: prefix + ".cpu_us", Value: c.process, Unit: "µs"},
			bench.Figure{Name: prefix + ".per_core", Value: 1e6 / c.process, Unit: "checks/s"})
	}
	return all, nil
}

// global measures a limit that all callers share. Its counts are in one key, so on one
// shard.
func global(ctx context.Context, o options) ([]bench.Figure, error) {
	s, err := bench.Start(ctx, 3)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := s.Edit(ctx, func(set *policy.Set) {
		together := limit(100_000_000, 10*time.Second)
		together.Who = limits.Together
		set.Limits = []limits.Limit{together}
	}); err != nil {
		return nil, err
	}
	c, err := saturated(ctx, o, s, false, "global", limit(1_000_000, time.Hour))
	return []bench.Figure{{Name: "global.per_hot_core", Value: 1e6 / c.hottest, Unit: "checks/s"}}, err
}

// growth is a server with a growing number of keys.
type growth struct {
	*bench.Server
	fleet              fleet
	keys               int
	registered, called int64 // bytes of all keys, and added by the first call of each
	took               time.Duration
	last               []enforce.Call // with the keys created last
}

const (
	edits     = 20
	fullLimit = 100
)

// memory measures, at some numbers of keys, a key's memory and an edit of the plan that all
// keys have.
func memory(ctx context.Context, o options) ([]bench.Figure, error) {
	s, err := bench.Start(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	// No count expires before the end.
	if err := s.Plan(ctx, "memory", limit(fullLimit, 24*time.Hour)); err != nil {
		return nil, err
	}
	f, err := newFleet(ctx, s, true)
	if err != nil {
		return nil, err
	}
	plain, err := newFleet(ctx, s, false) // of its calls only counts add bytes
	if err != nil {
		return nil, err
	}
	if _, err := (&growth{Server: s, fleet: f}).growTo(ctx, 100); err != nil { // what is stored once
		return nil, err
	}
	g := &growth{Server: s, fleet: f}
	var all []bench.Figure
	for _, keys := range []int{o.keys / 100, o.keys / 10, o.keys} {
		figures, err := g.growTo(ctx, keys)
		if err != nil {
			return nil, err
		}
		if all = append(all, figures...); keys > o.keys/100 {
			continue
		}
		full := g.last[:min(1000, len(g.last))]
		bytes, err := g.added(ctx, func() error {
			_, _, err := plain.run(ctx, full, bench.Times(len(full)*(fullLimit-1)))
			return err
		})
		if err != nil {
			return nil, err
		}
		all = append(all, bench.Figure{Name: "memory.full_log_100.bytes",
			Value: float64(bytes) / float64(len(full)), Unit: "bytes"})
	}
	return all, nil
}

// growTo creates keys until there are so many, and makes one call with each new key.
func (g *growth) growTo(ctx context.Context, keys int) ([]bench.Figure, error) {
	grown, err := g.added(ctx, func() (err error) {
		began := time.Now()
		g.last, err = g.Calls(ctx, "memory", keys-g.keys)
		g.took += time.Since(began)
		return err
	})
	if err != nil {
		return nil, err
	}
	g.registered += grown
	grown, err = g.added(ctx, func() error {
		_, _, err := g.fleet.run(ctx, g.last, bench.Times(len(g.last)))
		for _, e := range g.fleet {
			e.records.Flush(ctx, e.client)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	g.called, g.keys = g.called+grown, keys
	began := time.Now()
	used, err := bench.During(ctx, g.Nodes, func() error {
		for i := range edits {
			if err := g.Edit(ctx, func(s *policy.Set) {
				s.Plans[0].Limits[0].Requests = fullLimit + int64(i+1)%2
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	n, memory, edit := float64(keys), fmt.Sprintf("memory.keys%d.", keys), fmt.Sprintf("edit.keys%d.", keys)
	return []bench.Figure{
		{Name: memory + "registered_bytes", Value: float64(g.registered) / n, Unit: "bytes"},
		{Name: memory + "called_bytes", Value: float64(g.called) / n, Unit: "bytes"},
		{Name: memory + "made", Value: n / g.took.Seconds(), Unit: "keys/s"},
		{Name: edit + "ms", Value: bench.Millis(time.Since(began)) / edits, Unit: "ms"},
		{Name: edit + "bytes", Value: float64(used[0].Received) / edits, Unit: "bytes"},
		{Name: edit + "cpu_ms", Value: bench.Millis(used[0].Processor) / edits, Unit: "ms"},
	}, nil
}

// added runs do and returns by how many bytes the server's memory grew.
func (g *growth) added(ctx context.Context, do func() error) (int64, error) {
	before, err := bench.Memory(ctx, g.Nodes[0])
	if err == nil {
		err = do()
	}
	if err != nil {
		return 0, err
	}
	after, err := bench.Memory(ctx, g.Nodes[0])
	return after - before, err
}
