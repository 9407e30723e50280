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

// lease is the duration of leases in the measurements with leases.
const lease = policy.Duration(time.Second)

// sharers is the number of environments that share the global limit.
const sharers = 100

// The limits on all callers. The measurements reach lowLimit and never reach highLimit.
var (
	highLimit = limiter.Limit{Requests: 100_000_000, Window: 10 * time.Second}
	lowLimit  = limiter.Limit{Requests: 5_000, Window: time.Hour}
)

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
	if _, err := fleet.checkFor(ctx, calls, o.slice/5); err != nil {
		return nil, err
	}
	return measureLimit(ctx, o, c, fleet, calls)
}

// measureLimit measures without a limit, with lowLimit and with highLimit, each limit
// first without leases and then with leases. The order matters, since an edit keeps the
// counts.
func measureLimit(ctx context.Context, o options, c *cluster, f fleet,
	calls []enforce.Call) ([]figures.Figure, error) {
	without, err := measureCosts(ctx, o, c, f, calls, true)
	if err != nil {
		return nil, err
	}
	reached, err := exhaust(ctx, c, f, calls, func(s *policy.Set) {
		s.Global.Limits = []limiter.Limit{lowLimit}
	})
	if err != nil {
		return nil, err
	}
	leased, err := exhaust(ctx, c, f, calls, func(s *policy.Set) {
		s.Global = policy.Scope{} // a shared limit of a route, since it has new counts
		s.Routes = []policy.Route{{Name: "all", Cost: 1, Shared: []limiter.Limit{lowLimit},
			SharedLease: lease}}
	})
	if err != nil {
		return nil, err
	}
	if err := c.Edit(ctx, func(s *policy.Set) {
		s.Routes, s.Global.Limits = nil, []limiter.Limit{highLimit}
	}); err != nil {
		return nil, err
	}
	with, err := measureCosts(ctx, o, c, f, calls, true)
	if err != nil {
		return nil, err
	}
	if err := c.Edit(ctx, func(s *policy.Set) { s.Global.Lease = lease }); err != nil {
		return nil, err
	}
	withLease, err := measureCosts(ctx, o, c, f, calls, true)
	if err != nil {
		return nil, err
	}
	hot, leasedHot := with.value("hot_shard_us"), withLease.value("hot_shard_us")
	return []figures.Figure{
		figure("global.environments", sharers, "environments"),
		figure("global.limit", float64(lowLimit.Requests), "calls"),
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

// exhaust saves an edit that puts lowLimit in force, and makes three times as many calls
// as it allows. It returns an error if more calls were allowed.
func exhaust(ctx context.Context, c *cluster, f fleet, calls []enforce.Call,
	edit func(*policy.Set)) (fleetResult, error) {
	if err := c.Edit(ctx, edit); err != nil {
		return fleetResult{}, err
	}
	reached, err := f.checkTimes(ctx, calls, 3*int(lowLimit.Requests))
	if err == nil && reached.allowed > lowLimit.Requests {
		err = fmt.Errorf("%d calls of %d environments were allowed, the limit is %d", reached.allowed,
			sharers, lowLimit.Requests)
	}
	return reached, err
}
