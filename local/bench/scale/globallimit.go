//go:build unix

package scale

import (
	"context"
	"time"

	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/local/bench/figures"
)

// sharers is the number of environments that share the global limit.
const sharers = 100

// globalCalls is a limit on all callers that is never reached.
var globalCalls = limiter.Limit{Requests: 100_000_000, Window: 10 * time.Second}

// globalLimit measures a limit on all callers. Its counts are in one key, so on one
// shard.
func globalLimit(ctx context.Context, o options) ([]figures.Figure, error) {
	c, err := openCluster(ctx, maxShards)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.Plan(ctx, "global", limiter.Limit{Requests: 1_000_000, Window: time.Hour}); err != nil {
		return nil, err
	}
	calls, err := c.calls(ctx, "global", o.callers/10)
	if err != nil {
		return nil, err
	}
	fleet, err := newFleet(ctx, c.URL, sharers, false)
	if err != nil {
		return nil, err
	}
	defer fleet.close(ctx)
	return measureLimit(ctx, o, c, fleet, calls)
}

// measureLimit measures with the global limit.
func measureLimit(ctx context.Context, o options, c *cluster, f fleet,
	calls []enforce.Call) ([]figures.Figure, error) {
	if err := c.Edit(ctx, func(s *policy.Set) {
		s.Global = policy.Scope{Limits: []limiter.Limit{globalCalls}}
	}); err != nil {
		return nil, err
	}
	// An edit makes environments forget which callers they allowed lately.
	if _, err := f.checkFor(ctx, calls, o.slice); err != nil {
		return nil, err
	}
	costs, err := measureCosts(ctx, o, c, f, calls, true)
	if err != nil {
		return nil, err
	}
	hot := costs.value("hot_shard_us")
	return []figures.Figure{figure("global.rate", costs.value("rate"), "checks/s"),
		figure("global.hot_shard_us", hot, "µs"),
		figure("global.per_hot_core", 1e6/hot, "checks/s")}, nil
}
