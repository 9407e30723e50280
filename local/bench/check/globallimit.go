//go:build unix

package check

import (
	"context"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/local/bench/figures"
	"tidegate/local/bench/runtimeapi"
)

// globalLimit measures checks under a limit of all calls. The first call of a key under a
// version of the policies takes two round trips, the second one, since the function has
// just allowed the caller.
func (b *bench) globalLimit(ctx context.Context) ([]figures.Figure, error) {
	function, err := runtimeapi.Start(ctx, b.ours())
	if err != nil {
		return nil, err
	}
	defer function.Close()
	var first, known []time.Duration
	for len(known) < b.calls {
		if err := b.forget(ctx); err != nil {
			return nil, err
		}
		if _, err := allowed(function, b.events[0]); err != nil { // it reads the policies
			return nil, err
		}
		for _, event := range b.events[1:] {
			unseen, err := allowed(function, event)
			if err != nil {
				return nil, err
			}
			seen, err := allowed(function, event)
			if err != nil {
				return nil, err
			}
			first, known = append(first, unseen), append(known, seen)
		}
	}
	one, two := figures.Quantile(known, 0.5), figures.Quantile(first, 0.5)
	return []figures.Figure{
		figures.Of("check.global_known_p50_us", figures.Micros(one), "µs"),
		figures.Of("check.global_first_p50_us", figures.Micros(two), "µs"),
		figures.Of("check.global_first_vs_known", float64(two)/float64(one), "ratio"),
	}, nil
}

// forget saves a new version of the policies, with limits that are never reached. No
// caller then counts as one that the function allowed lately.
func (b *bench) forget(ctx context.Context) error {
	return b.keys.Edit(ctx, func(set *policy.Set) {
		set.Plans[0].Limits = []limiter.Limit{{Requests: 1_000_000, Window: time.Hour}}
		set.Global = policy.Scope{Limits: []limiter.Limit{{Requests: 100_000_000, Window: 10 * time.Second}}}
	})
}
