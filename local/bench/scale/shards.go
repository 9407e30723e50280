//go:build unix

package scale

import (
	"context"
	"fmt"
	"syscall"
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

// kindOfCheck is what is measured.
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
	defer c.close()
	if err != nil {
		return nil, err
	}
	var measured []figures.Figure
	for _, k := range kinds {
		if err := c.registry.Plan(ctx, k.name, k.limits...); err != nil {
			return nil, err
		}
		calls, err := c.registry.calls(ctx, k.name, o.callers)
		if err != nil {
			return nil, err
		}
		costs, err := saturate(ctx, o, c, environments, calls, k.records)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.name, err)
		}
		measured = append(measured, costs.figures(fmt.Sprintf("%s.shards%d", k.name, n))...)
		if k.name != kindsOfCheck[0].name {
			continue
		}
		grown, err := curve(ctx, o, c, calls, costs)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.name, err)
		}
		measured = append(measured, grown...)
	}
	return measured, nil
}

// curve measures how the rate of checks grows with the environments, once for each number
// of them. full is what was measured with all of them.
func curve(ctx context.Context, o options, c *cluster, calls []enforce.Call, full costs) ([]figures.Figure,
	error) {
	o.repeats = 1
	var measured []figures.Figure
	for n := 1; n <= environments; n *= 2 {
		grown, err := full, error(nil)
		if n < environments {
			grown, err = saturate(ctx, o, c, n, calls, false)
		}
		if err != nil {
			return nil, fmt.Errorf("%d environments: %w", n, err)
		}
		name := fmt.Sprintf("growth.shards%d.environments%d.", len(c.nodes), n)
		measured = append(measured,
			figure(name+"rate", grown.rate, "checks/s"),
			figure(name+"p50_us", grown.p50, "µs"),
			figure(name+"p99_us", grown.p99, "µs"),
			figure(name+"cpu_us", grown.processor, "µs"),
			figure(name+"server_cores", grown.serverCores, "cores"),
			figure(name+"client_cores", grown.clientCores, "cores"),
		)
	}
	return measured, nil
}

// costs are medians of several turns.
type costs struct {
	rate      float64 // checks a second, of servers and clients together
	processor float64 // microseconds of all servers for a check
	script    float64 // microseconds in the script
	spread    float64 // the busiest node's share of the checks, relative to an even one
	p50, p99  float64 // microseconds that a client waits for a check
	// Cores that the servers and the clients kept busy.
	serverCores, clientCores float64
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

// saturate checks as fast as so many environments can.
func saturate(ctx context.Context, o options, c *cluster, n int, calls []enforce.Call,
	records bool) (costs, error) {
	fleet, err := newFleet(ctx, c.url, n, records)
	if err != nil {
		return costs{}, err
	}
	defer fleet.close(ctx)
	if _, err := fleet.during(ctx, calls, o.slice/5); err != nil { // loads the scripts and the Set
		return costs{}, err
	}
	var turns []costs
	for range o.repeats {
		t, err := turn(ctx, fleet, c.nodes, calls, o.slice)
		if err != nil {
			return costs{}, err
		}
		turns = append(turns, t)
	}
	of := func(part func(costs) float64) float64 { return figures.Median(turns, part) }
	return costs{
		rate:        of(func(c costs) float64 { return c.rate }),
		processor:   of(func(c costs) float64 { return c.processor }),
		script:      of(func(c costs) float64 { return c.script }),
		spread:      of(func(c costs) float64 { return c.spread }),
		p50:         of(func(c costs) float64 { return c.p50 }),
		p99:         of(func(c costs) float64 { return c.p99 }),
		serverCores: of(func(c costs) float64 { return c.serverCores }),
		clientCores: of(func(c costs) float64 { return c.clientCores }),
	}, nil
}

func turn(ctx context.Context, f fleet, all nodes, calls []enforce.Call, lasts time.Duration) (costs, error) {
	var done fleetResult
	worked := ownTime()
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
	c := costs{
		rate:        done.rate(),
		p50:         figures.Micros(figures.Quantile(done.waited, 0.5)),
		p99:         figures.Micros(figures.Quantile(done.waited, 0.99)),
		clientCores: float64(ownTime()-worked) / float64(done.took),
	}
	var scripts, busiest int64
	for _, u := range used {
		c.processor += figures.Micros(u.processor) / float64(done.calls)
		c.script += figures.Micros(u.scripting) / float64(done.calls)
		c.serverCores += float64(u.processor) / float64(done.took)
		scripts, busiest = scripts+u.scripts, max(busiest, u.scripts)
	}
	c.spread = float64(busiest) * float64(len(all)) / float64(scripts)
	return c, nil
}

// ownTime is the processor time of this process so far.
func ownTime() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // fails for a wrong address alone
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
