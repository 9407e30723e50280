//go:build unix

package scale

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/local/bench/figures"
)

// The number of environments that check at the same time, and the largest number of
// shards.
const (
	environments = 64
	maxShards    = 3
)

// kindOfCheck is a plan whose checks are measured.
type kindOfCheck struct {
	name    string
	limits  []limiter.Limit
	records bool // whether usage is recorded
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

// shards measures the cost of checks of all kinds on one shard, and of the first kind on
// more shards.
func shards(ctx context.Context, o options) ([]figures.Figure, error) {
	var all []figures.Figure
	for n := 1; n <= maxShards; n++ {
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
	defer c.Close()
	var measured []figures.Figure
	for _, k := range kinds {
		if err := c.Plan(ctx, k.name, k.limits...); err != nil {
			return nil, err
		}
		calls, err := c.calls(ctx, k.name, o.callers)
		if err != nil {
			return nil, err
		}
		costs, err := saturate(ctx, o, c, environments, calls, k.records)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.name, err)
		}
		measured = append(measured, costs.named(fmt.Sprintf("%s.shards%d.", k.name, n),
			"rate", "cpu_us", "script_us", "per_core", "busiest_share")...)
	}
	return measured, nil
}

// costs are the figures of checks under full load, without a prefix.
type costs []figures.Figure

// named returns the figures with the given names, in which it puts a prefix before them.
func (c costs) named(prefix string, names ...string) []figures.Figure {
	var all []figures.Figure
	for _, name := range names {
		i := slices.IndexFunc(c, func(f figures.Figure) bool { return f.Name == name })
		all = append(all, figure(prefix+name, c[i].Value, c[i].Unit))
	}
	return all
}

// value returns the value of a figure.
func (c costs) value(name string) float64 { return c.named("", name)[0].Value }

// saturate checks as fast as n environments can. It returns the medians of the costs.
func saturate(ctx context.Context, o options, c *cluster, n int, calls []enforce.Call,
	records bool) (costs, error) {
	f, err := newFleet(ctx, c.URL, n, records)
	if err != nil {
		return nil, err
	}
	defer f.close(ctx)
	if _, err := f.checkFor(ctx, calls, o.slice/5); err != nil { // loads the scripts and the policies
		return nil, err
	}
	return measureCosts(ctx, o, c, f, calls, true)
}

// measureCosts returns the medians of the costs of calls that are all allowed, or all
// denied.
func measureCosts(ctx context.Context, o options, c *cluster, f fleet, calls []enforce.Call,
	allowed bool) (costs, error) {
	return figures.Repeat(o.repeats, func() ([]figures.Figure, error) {
		var done fleetResult
		used, err := figures.During(ctx, c.nodes, func() (err error) {
			done, err = f.checkFor(ctx, calls, o.slice)
			return err
		})
		if err != nil {
			return nil, err
		}
		if allowed && done.allowed < done.calls || !allowed && done.allowed > 0 {
			return nil, fmt.Errorf("%d of %d checks were allowed, want all or none", done.allowed, done.calls)
		}
		return costsOf(done, used), nil
	})
}

// costsOf returns the costs of a run, from what the servers used.
func costsOf(done fleetResult, used []figures.Work) costs {
	var scripts, busiest int64                   // of all nodes, and of the one that ran most
	var scripting, processor, most time.Duration // of all nodes; most is that of the busiest
	for _, u := range used {
		ran, took := u.Of("evalsha", "eval")
		scripts, scripting, processor = scripts+ran, scripting+took, processor+u.Processor
		busiest, most = max(busiest, ran), max(most, u.Processor)
	}
	perCheck := func(d time.Duration) float64 { return figures.Micros(d) / float64(done.calls) }
	return costs{
		figures.Of("rate", float64(done.calls)/done.took.Seconds(), "checks/s"),
		figures.Of("cpu_us", perCheck(processor), "µs"),
		figures.Of("script_us", perCheck(scripting), "µs"),
		figures.Of("per_core", 1e6/perCheck(processor), "checks/s"),
		figures.Of("busiest_share", float64(busiest)*float64(len(used))/float64(scripts), "ratio"),
		figures.Of("hot_shard_us", perCheck(most), "µs"),
	}
}
