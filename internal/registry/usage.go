package registry

import (
	"context"
	"fmt"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
)

// Usage answers, for each key in order, what a call of cost 1 would get now. It takes
// nothing. An unreadable key, or one with mode Off, gets the zero Decision.
func (s *Store) Usage(ctx context.Context, set *policy.Set, keys []policy.Key) ([]limiter.Decision, error) {
	var subjects []limiter.Exchange
	var at []int
	for i, k := range keys {
		e, found := set.Effective(k, s.Now())
		if k.Status == policy.Unreadable || !found || e.Mode == policy.Off {
			continue
		}
		program, err := limiter.Compile(e.Limits, s.Now())
		if err != nil {
			return nil, fmt.Errorf("registry: usage: %w", err)
		}
		subjects, at = append(subjects,
			limiter.Exchange{Key: keyspace.State(k.ID), Program: program, Limits: e.Limits}), append(at, i)
	}
	peeked, err := limiter.PeekMany(ctx, s.client, subjects)
	if err != nil {
		return nil, fmt.Errorf("registry: usage: %w", err)
	}
	decisions := make([]limiter.Decision, len(keys))
	for i, d := range peeked {
		decisions[at[i]] = d
	}
	return decisions, nil
}

// GroupUsage answers what a call of cost 1 would get now from a group's limits of each of
// some plans, in order. It takes nothing. A plan without limits on groups, or with mode
// Off, gets the zero Decision.
func (s *Store) GroupUsage(ctx context.Context, name string,
	plans []policy.Plan) ([]limiter.Decision, error) {
	var subjects []limiter.Exchange
	var at []int
	for i, p := range plans {
		if len(p.PerGroup) == 0 || p.Mode == policy.Off {
			continue
		}
		program, err := limiter.Compile(p.PerGroup, s.Now())
		if err != nil {
			return nil, fmt.Errorf("registry: usage of a group: %w", err)
		}
		key := keyspace.Of(policy.GroupID(name), policy.GroupState(p.Number))
		subjects = append(subjects, limiter.Exchange{Key: key, Program: program, Limits: p.PerGroup})
		at = append(at, i)
	}
	peeked, err := limiter.PeekMany(ctx, s.client, subjects)
	if err != nil {
		return nil, fmt.Errorf("registry: usage of a group: %w", err)
	}
	decisions := make([]limiter.Decision, len(plans))
	for i, d := range peeked {
		decisions[at[i]] = d
	}
	return decisions, nil
}
