//go:build unix

package main

import (
	"context"
	"fmt"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/local/bench/figures"
	"tidegate/local/bench/runtimeapi"
)

// sharedLimit measures checks under a limit of all calls. The first call of a key under a
// version of the policies takes two round trips, the second one, since the function has
// just allowed the caller.
func (b *bench) sharedLimit(ctx context.Context) ([]figures.Figure, error) {
	api, err := runtimeapi.New()
	if err != nil {
		return nil, err
	}
	defer api.Close()
	b.api = api
	process, err := api.Start(ctx, b.ours())
	if err != nil {
		return nil, err
	}
	defer runtimeapi.Stop(process)
	var first, known []time.Duration
	for len(known) < b.calls {
		if err := b.forget(ctx); err != nil {
			return nil, err
		}
		if _, err := b.allowed(b.events[0]); err != nil { // it reads the policies
			return nil, err
		}
		for _, event := range b.events[1:] {
			unseen, err := b.allowed(event)
			if err != nil {
				return nil, err
			}
			seen, err := b.allowed(event)
			if err != nil {
				return nil, err
			}
			first, known = append(first, unseen), append(known, seen)
		}
	}
	one, two := figures.Quantile(known, 0.5), figures.Quantile(first, 0.5)
	return []figures.Figure{
		figures.Of("check.global_known_p50_us", micros(one), "µs"),
		figures.Of("check.global_first_p50_us", micros(two), "µs"),
		figures.Of("check.global_first_vs_known", float64(two)/float64(one), "ratio"),
	}, nil
}

// forget saves a new version of the policies, with limits that are never reached. No
// caller then counts as one that the function allowed lately.
func (b *bench) forget(ctx context.Context) error {
	set, err := b.policy.Set(ctx)
	if err != nil {
		return fmt.Errorf("shared limit: %w", err)
	}
	set.Plans[0].Limits = []limiter.Limit{{Requests: 1_000_000, Window: time.Hour}}
	set.Global = policy.Scope{Limits: []limiter.Limit{{Requests: 100_000_000, Window: 10 * time.Second}}}
	if _, err := b.policy.SaveSet(ctx, *set, edit); err != nil {
		return fmt.Errorf("shared limit: %w", err)
	}
	return nil
}
