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

// lease is the time for which environments lease shares of a limit, where they do.
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
	defer c.close()
	if err != nil {
		return nil, err
	}
	if err := c.registry.Plan(ctx, "global",
		limiter.Limit{Requests: 1_000_000, Window: time.Hour}); err != nil {
		return nil, err
	}
	calls, err := c.registry.calls(ctx, "global", o.callers/10)
	if err != nil {
		return nil, err
	}
	fleet, err := newFleet(ctx, c.url, sharers, false)
	if err != nil {
		return nil, err
	}
	defer fleet.close(ctx)
	return measureLimit(ctx, o, c.registry, fleet, c.nodes, calls)
}

// measureLimit measures without a limit; with nearLimit, asked by every call and then
// leased; and with farLimit, asked and then leased. The order matters, since an edit
// keeps the counts.
func measureLimit(ctx context.Context, o options, r *keyRegistry, f fleet, all nodes,
	calls []enforce.Call) ([]figures.Figure, error) {
	if _, err := f.during(ctx, calls, o.slice/5); err != nil {
		return nil, err
	}
	without, _, err := busiest(ctx, o, f, all, calls)
	if err != nil {
		return nil, err
	}
	reached, err := exhaust(ctx, r, f, calls, func(s *policy.Set) {
		s.Global.Limits = []limiter.Limit{nearLimit}
	})
	if err != nil {
		return nil, err
	}
	leased, err := exhaust(ctx, r, f, calls, func(s *policy.Set) {
		s.Global = policy.Scope{} // the same limit on all calls of a route counts anew
		s.Routes = []policy.Route{{Name: "all", Cost: 1, Shared: []limiter.Limit{nearLimit},
			SharedLease: lease}}
	})
	if err != nil {
		return nil, err
	}
	if err := r.Edit(ctx, func(s *policy.Set) {
		s.Routes, s.Global.Limits = nil, []limiter.Limit{farLimit}
	}); err != nil {
		return nil, err
	}
	with, hot, err := busiest(ctx, o, f, all, calls)
	if err != nil {
		return nil, err
	}
	if err := r.Edit(ctx, func(s *policy.Set) { s.Global.Lease = lease }); err != nil {
		return nil, err
	}
	withLease, leasedHot, err := busiest(ctx, o, f, all, calls)
	if err != nil {
		return nil, err
	}
	return []figures.Figure{
		figure("global.environments", sharers, "environments"),
		figure("global.limit", float64(nearLimit.Requests), "calls"),
		figure("global.attempts", float64(reached.calls), "calls"),
		figure("global.admitted", float64(reached.allowed), "calls"),
		figure("global.rate_without", without, "checks/s"),
		figure("global.rate", with, "checks/s"),
		figure("global.hot_shard_us", hot, "µs"),
		figure("global.per_hot_core", 1e6/hot, "checks/s"),
		figure("global.lease_ms", float64(time.Duration(lease).Milliseconds()), "ms"),
		figure("global.leased_admitted", float64(leased.allowed), "calls"),
		figure("global.leased_rate", withLease, "checks/s"),
		figure("global.leased_hot_shard_us", leasedHot, "µs"),
		figure("global.leased_per_hot_core", 1e6/leasedHot, "checks/s"),
	}, nil
}

// exhaust saves an edit that puts nearLimit in force, and makes three times as many calls
// as it admits.
func exhaust(ctx context.Context, r *keyRegistry, f fleet, calls []enforce.Call,
	edit func(*policy.Set)) (fleetResult, error) {
	if err := r.Edit(ctx, edit); err != nil {
		return fleetResult{}, err
	}
	reached, err := f.each(ctx, repeated(calls, 3*nearLimit.Requests))
	if err == nil && reached.allowed > nearLimit.Requests {
		err = fmt.Errorf("%d environments were let through %d times, the limit is %d", sharers,
			reached.allowed, nearLimit.Requests)
	}
	return reached, err
}

// busiest returns medians: checks a second, and the busiest node's processor time for a
// check in microseconds.
func busiest(ctx context.Context, o options, f fleet, all nodes, calls []enforce.Call) (rate,
	hot float64, err error) {
	type slice struct{ rate, hot float64 }
	var slices []slice
	for range o.repeats {
		var done fleetResult
		used, err := all.during(ctx, func() (err error) {
			done, err = f.during(ctx, calls, o.slice)
			return err
		})
		if err != nil {
			return 0, 0, err
		}
		if done.allowed < done.calls {
			return 0, 0, fmt.Errorf("%d of %d checks were denied", done.calls-done.allowed, done.calls)
		}
		most := time.Duration(0)
		for _, u := range used {
			most = max(most, u.processor)
		}
		slices = append(slices, slice{done.rate(), figures.Micros(most) / float64(done.calls)})
	}
	rate = figures.Median(slices, func(s slice) float64 { return s.rate })
	hot = figures.Median(slices, func(s slice) float64 { return s.hot })
	return rate, hot, nil
}

func repeated(calls []enforce.Call, n int64) []enforce.Call {
	all := make([]enforce.Call, n)
	for i := range all {
		all[i] = calls[i%len(calls)]
	}
	return all
}
