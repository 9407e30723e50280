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

// lease is how long environments lease shares of a limit, where they do.
const lease = policy.Duration(time.Second)

// sharers is how many environments share the global limit.
const sharers = 100

// The limits that all callers share: nearLimit is reached, farLimit allows every check.
var (
	farLimit  = limiter.Limit{Requests: 100_000_000, Window: 10 * time.Second}
	nearLimit = limiter.Limit{Requests: 5_000, Window: time.Hour}
)

// globalLimit measures a limit that all callers share. Its counts lie in one key, so on
// one shard.
func globalLimit(ctx context.Context, o options) ([]figures.Figure, error) {
	c, err := openCluster(ctx, mostShards)
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
	if _, err := fleet.during(ctx, calls, o.slice/5); err != nil {
		return nil, err
	}
	return measureLimit(ctx, o, c, fleet, calls)
}

// measureLimit measures without a limit; with nearLimit, taken from by every call and
// then leased; and with farLimit, in the same two ways. The order matters, since an edit
// keeps the counts.
func measureLimit(ctx context.Context, o options, c *cluster, f fleet,
	calls []enforce.Call) ([]figures.Figure, error) {
	without, err := measureCosts(ctx, o, c, f, calls)
	if err != nil {
		return nil, err
	}
	reached, err := exhaust(ctx, c, f, calls, func(s *policy.Set) {
		s.Global.Limits = []limiter.Limit{nearLimit}
	})
	if err != nil {
		return nil, err
	}
	leased, err := exhaust(ctx, c, f, calls, func(s *policy.Set) {
		s.Global = policy.Scope{} // the same limit on all calls of a route has counts of its own
		s.Routes = []policy.Route{{Name: "all", Cost: 1, Shared: []limiter.Limit{nearLimit},
			SharedLease: lease}}
	})
	if err != nil {
		return nil, err
	}
	if err := c.Edit(ctx, func(s *policy.Set) {
		s.Routes, s.Global.Limits = nil, []limiter.Limit{farLimit}
	}); err != nil {
		return nil, err
	}
	with, err := measureCosts(ctx, o, c, f, calls)
	if err != nil {
		return nil, err
	}
	if err := c.Edit(ctx, func(s *policy.Set) { s.Global.Lease = lease }); err != nil {
		return nil, err
	}
	withLease, err := measureCosts(ctx, o, c, f, calls)
	if err != nil {
		return nil, err
	}
	hot, leasedHot := with.value("hot_shard_us"), withLease.value("hot_shard_us")
	return []figures.Figure{
		figure("global.environments", sharers, "environments"),
		figure("global.limit", float64(nearLimit.Requests), "calls"),
		figure("global.attempts", float64(reached.calls), "calls"),
		figure("global.admitted", float64(reached.allowed), "calls"),
		figure("global.rate_without", without.value("rate"), "checks/s"),
		figure("global.rate", with.value("rate"), "checks/s"),
		figure("global.hot_shard_us", hot, "µs"),
		figure("global.per_hot_core", 1e6/hot, "checks/s"),
		figure("global.lease_ms", float64(time.Duration(lease).Milliseconds()), "ms"),
		figure("global.leased_admitted", float64(leased.allowed), "calls"),
		figure("global.leased_rate", withLease.value("rate"), "checks/s"),
		figure("global.leased_hot_shard_us", leasedHot, "µs"),
		figure("global.leased_per_hot_core", 1e6/leasedHot, "checks/s"),
	}, nil
}

// exhaust saves an edit that puts nearLimit in force, and makes three times as many calls
// as it admits.
func exhaust(ctx context.Context, c *cluster, f fleet, calls []enforce.Call,
	edit func(*policy.Set)) (fleetResult, error) {
	if err := c.Edit(ctx, edit); err != nil {
		return fleetResult{}, err
	}
	reached, err := f.each(ctx, calls, 3*int(nearLimit.Requests))
	if err == nil && reached.allowed > nearLimit.Requests {
		err = fmt.Errorf("%d environments were let through %d times, the limit is %d", sharers,
			reached.allowed, nearLimit.Requests)
	}
	return reached, err
}
