package app

import (
	"context"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
)

// Group is a group of keys as it stands.
type Group struct {
	Name   string
	Keys   int64
	Limits []GroupLimits // of the plans that have any
	Now    time.Time     // instant of the limits; of this function's clock without any
}

// GroupLimits are what one plan's limits on a group count.
type GroupLimits struct {
	Plan policy.Plan
	Now  limiter.Decision
}

// Group returns a group. It fails with policy.ErrNotFound for one without keys.
func (r *Registry) Group(ctx context.Context, set *policy.Set, name string) (Group, error) {
	n, err := r.store.Count(ctx, registry.Query{Group: name})
	switch {
	case err != nil:
		return Group{}, err
	case policy.GroupProblem(name) != "" || n == 0:
		return Group{}, policy.ErrNotFound
	}
	g := Group{Name: name, Keys: n, Now: time.Now()}
	decisions, err := r.store.GroupUsage(ctx, name, set.Plans)
	for i, d := range decisions {
		if len(d.Limits) > 0 {
			g.Limits, g.Now = append(g.Limits, GroupLimits{set.Plans[i], d}), d.Now
		}
	}
	return g, err
}

// Groups returns up to count groups whose names begin with a prefix, whatever the case.
func (r *Registry) Groups(ctx context.Context, prefix string, count int) ([]registry.Group, error) {
	return r.store.Groups(ctx, prefix, count)
}

// ResetGroup deletes all counts of a group, and leaves those of its keys. It fails with
// policy.ErrNotFound for a group without keys.
func (r *Registry) ResetGroup(ctx context.Context, name string, e Edit) error {
	return r.store.ResetGroup(ctx, name, e)
}
