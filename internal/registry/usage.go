package registry

import (
	"context"
	"fmt"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
)

// Usage returns, for each key in order, what a call of cost 1 would get now. It takes
// nothing. An unreadable key, or one whose override has no limits, gets the zero Decision.
func (s *Store) Usage(ctx context.Context, set *policy.Set, keys []policy.Key) ([]limiter.Decision, error) {
	return s.peek(ctx, len(keys), func(i int) (string, []limiter.Limit) {
		e, found := set.Effective(keys[i], s.Now())
		if keys[i].Status == policy.Unreadable || !found || e.Mode == policy.Off {
			return "", nil
		}
		return keyspace.State(keys[i].ID), e.Limits
	})
}

// peek returns n decisions about a call of cost 1 now. state returns the name in Valkey
// and the limits of each; an empty name stands for the zero Decision.
func (s *Store) peek(ctx context.Context, n int,
	state func(i int) (string, []limiter.Limit)) ([]limiter.Decision, error) {
	var states []limiter.State
	var at []int // index of each state's decision
	for i := range n {
		key, limits := state(i)
		if key == "" {
			continue
		}
		program, err := limiter.Compile(limits, s.Now())
		if err != nil {
			return nil, fmt.Errorf("registry: usage: %w", err)
		}
		states = append(states, limiter.State{Key: key, Program: program, Limits: limits})
		at = append(at, i)
	}
	peeked, err := limiter.PeekMany(ctx, s.client, states)
	if err != nil {
		return nil, fmt.Errorf("registry: usage: %w", err)
	}
	decisions := make([]limiter.Decision, n)
	for i, d := range peeked {
		decisions[at[i]] = d.Decision
	}
	return decisions, nil
}

// ScopedUsage is the state of a limit, and whose calls it counts.
type ScopedUsage struct {
	limiter.Usage
	Scope string // policy.ScopeKey, policy.ScopeGroup or policy.ScopeRoute
	Rule  string // name of the route rule; empty for another scope
}

// FurtherUsage returns, for each key in order, the states of the enforced limits beside
// the key's own: those on its group, and those of route rules on each key. It takes
// nothing, and reads the state of a group once.
func (s *Store) FurtherUsage(
	ctx context.Context, set *policy.Set, keys []policy.Key,
) ([][]ScopedUsage, error) {
	type source struct {
		state, scope, rule string
		limits             []limiter.Limit
		keys               []int
	}
	var sources []source
	groups := map[string]int{} // index of each group's source
	for i, k := range keys {
		p, _ := set.EffectivePlan(k)
		if k.Group != "" && len(p.PerGroup) > 0 && policy.OrEnforce(p.Mode) == policy.Enforce {
			state := keyspace.Of(policy.GroupID(k.Group), policy.GroupState(p.Number))
			at, known := groups[state]
			if !known {
				at = len(sources)
				groups[state] = at
				sources = append(sources, source{state: state, scope: policy.ScopeGroup, limits: p.PerGroup})
			}
			sources[at].keys = append(sources[at].keys, i)
		}
		for _, r := range set.Routes {
			if len(r.PerKey) > 0 && policy.OrEnforce(r.Mode) == policy.Enforce {
				sources = append(sources, source{keyspace.Of(k.ID, "s"+policy.RouteTag(r.Name)),
					policy.ScopeRoute, r.Name, r.PerKey, []int{i}})
			}
		}
	}
	decisions, err := s.peek(ctx, len(sources), func(i int) (string, []limiter.Limit) {
		return sources[i].state, sources[i].limits
	})
	if err != nil {
		return nil, err
	}
	all := make([][]ScopedUsage, len(keys))
	for i, d := range decisions {
		for _, u := range d.Limits {
			for _, key := range sources[i].keys {
				all[key] = append(all[key], ScopedUsage{u, sources[i].scope, sources[i].rule})
			}
		}
	}
	return all, nil
}
