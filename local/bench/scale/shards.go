//go:build unix

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/local/bench/figures"
)

// The environments that check at once, and the largest number of shards.
const (
	environments = 64
	mostShards   = 3
)

// kindOfCheck is what is measured on each number of shards.
type kindOfCheck struct {
	name    string
	limits  []limiter.Limit
	records bool // of usage
}

var (
	oneLimit     = []limiter.Limit{{Requests: 1000, Window: 10 * time.Second}}
	kindsOfCheck = []kindOfCheck{
		{"one_limit", oneLimit, false},
		{"two_limits", []limiter.Limit{{Requests: 1000, Window: 10 * time.Second},
			{Requests: 100_000, Window: 10 * time.Minute}}, false},
		{"with_usage", oneLimit, true},
	}
)

// shards measures what a check costs, and how shards add up.
func shards(ctx context.Context, o options) ([]figures.Figure, error) {
	var all []figures.Figure
	for n := 1; n <= mostShards; n++ {
		kinds := kindsOfCheck
		if n > 1 {
			kinds = kinds[:1]
		}
		measured, err := onShards(ctx, o, n, kinds)
		if err != nil {
			return nil, fmt.Errorf("%d shards: %w", n, err)
		}
		all = append(all, measured...)
	}
	return all, nil
}

func onShards(ctx context.Context, o options, n int, kinds []kindOfCheck) ([]figures.Figure, error) {
	c, err := openCluster(ctx, n)
	if err != nil {
		return nil, err
	}
	defer c.close()
	registry, err := openRegistry(ctx, c.url)
	if err != nil {
		return nil, err
	}
	defer registry.client.Close()
	var measured []figures.Figure
	for _, k := range kinds {
		if err := registry.plan(ctx, k.name, k.limits...); err != nil {
			return nil, err
		}
		calls, err := registry.make(ctx, k.name, o.callers)
		if err != nil {
			return nil, err
		}
		costs, err := saturate(ctx, o, c.url, c.nodes, calls, k.records)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.name, err)
		}
		measured = append(measured, costs.figures(fmt.Sprintf("%s.shards%d", k.name, n))...)
	}
	return measured, nil
}

// costs are medians of several turns.
type costs struct {
	rate      float64 // checks a second, of servers and clients together
	processor float64 // microseconds of all servers for a check
	script    float64 // microseconds in the script
	spread    float64 // the busiest node's share of the checks, relative to an even one
}

func (c costs) figures(name string) []figures.Figure {
	return []figures.Figure{
		figure(name+".rate", c.rate, "checks/s"),
		figure(name+".cpu_us", c.processor, "µs"),
		figure(name+".script_us", c.script, "µs"),
		figure(name+".per_core", 1e6/c.processor, "checks/s"),
		figure(name+".busiest_share", c.spread, "ratio"),
	}
}

// saturate checks as fast as the environments can.
func saturate(ctx context.Context, o options, url string, all nodes, calls []enforce.Call,
	records bool) (costs, error) {
	fleet, err := newFleet(ctx, url, environments, records)
	if err != nil {
		return costs{}, err
	}
	defer fleet.close(ctx)
	if _, err := fleet.during(ctx, calls, o.slice/5); err != nil { // loads the scripts and the Set
		return costs{}, err
	}
	var turns []costs
	for range o.repeats {
		c, err := turn(ctx, fleet, all, calls, o.slice)
		if err != nil {
			return costs{}, err
		}
		turns = append(turns, c)
	}
	return costs{
		median(turns, func(c costs) float64 { return c.rate }), median(turns, func(c costs) float64 {
			return c.processor
		}),
		median(turns, func(c costs) float64 { return c.script }), median(turns, func(c costs) float64 {
			return c.spread
		}),
	}, nil
}

func turn(ctx context.Context, f fleet, all nodes, calls []enforce.Call, lasts time.Duration) (costs, error) {
	var done fleetResult
	used, err := all.during(ctx, func() (err error) {
		done, err = f.during(ctx, calls, lasts)
		return err
	})
	if err != nil {
		return costs{}, err
	}
	if done.allowed < done.calls {
		return costs{}, fmt.Errorf("%d of %d checks were denied: figures are of allowed checks",
			done.calls-done.allowed, done.calls)
	}
	c := costs{rate: done.rate()}
	var scripts, busiest int64
	for _, u := range used {
		c.processor += micros(u.processor) / float64(done.calls)
		c.script += micros(u.scripting) / float64(done.calls)
		scripts, busiest = scripts+u.scripts, max(busiest, u.scripts)
	}
	c.spread = float64(busiest) * float64(len(all)) / float64(scripts)
	return c, nil
}

func median[T any](all []T, of func(T) float64) float64 {
	values := make([]float64, len(all))
	for i, x := range all {
		values[i] = of(x)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
