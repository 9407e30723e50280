// Package registrytest edits policies and keys as the dashboard does, for tests of the
// packages that obey those edits.
package registrytest

import (
	"context"
	"testing"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// A registry.Store. Its parts are interfaces, and the Edit a type parameter, since the
// registry's own tests use this package.
type (
	policies[Edit any] interface {
		Set(ctx context.Context) (*policy.Set, error)
		SaveSet(ctx context.Context, next policy.Set, edit Edit) (*policy.Set, error)
	}
	keys[Edit any] interface {
		Create(ctx context.Context, n policy.NewKey, edit Edit) (policy.Key, apikey.Secret, error)
		Update(ctx context.Context, id string, version int64, action string, edit Edit,
			change func(*policy.Key)) (policy.Key, error)
	}
)

// Save changes the policy set and saves it, also in a clean-up.
func Save[Edit any](t testing.TB, s policies[Edit], edit Edit, change func(*policy.Set)) *policy.Set {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	set, err := s.Set(ctx)
	if err != nil {
		t.Fatal(err)
	}
	change(set)
	saved, err := s.SaveSet(ctx, *set, edit)
	if err != nil {
		t.Fatal(err)
	}
	return saved
}

// Limits parses limits in words, such as "10 per minute, on search". It panics if one is
// wrong.
func Limits(words ...string) []limits.Limit {
	list := make([]limits.Limit, len(words))
	for i, text := range words {
		var err error
		if list[i], err = limits.Parse(text); err != nil {
			panic(err)
		}
	}
	return list
}

// Plan returns a change for Save that gives a plan these limits. It adds a plan that does
// not exist.
func Plan(name string, list ...limits.Limit) func(*policy.Set) {
	return func(s *policy.Set) {
		for i := range s.Plans {
			if s.Plans[i].Name == name {
				s.Plans[i].Limits = list
				return
			}
		}
		s.Plans = append(s.Plans, policy.Plan{Name: name, Limits: list})
	}
}

// Route returns a route of calls that cost something: 0 for nothing in every unit. It
// panics at a mistake in a pattern.
func Route(name string, cost int64, patterns ...string) limits.Route {
	r := limits.Route{Name: name, Cost: limits.Costs{Free: cost == 0}}
	if cost > 0 {
		r.Cost.Units = map[string]int64{limits.Cost: cost}
	}
	for _, text := range patterns {
		p, err := route.Parse(text)
		if err != nil {
			panic(err)
		}
		r.Match = append(r.Match, p)
	}
	return r
}

// Create creates a key.
func Create[Edit any](t testing.TB, s keys[Edit], edit Edit, n policy.NewKey) (policy.Key, apikey.Secret) {
	t.Helper()
	k, secret, err := s.Create(t.Context(), n, edit)
	if err != nil {
		t.Fatal(err)
	}
	return k, secret
}

// Override replaces the limits of the key's plan until the override ends. A nil override
// restores them.
func Override[Edit any](ctx context.Context, s keys[Edit], id string, version int64, o *policy.Override,
	edit Edit) (policy.Key, error) {
	action := audit.KeyOverride
	if o == nil {
		action = audit.KeyOverrideEnd
	}
	return s.Update(ctx, id, version, action, edit, func(k *policy.Key) { k.Override = o })
}

// Revoke makes the key unknown to every check that starts after it returns.
func Revoke[Edit any](ctx context.Context, s keys[Edit], id string, version int64,
	edit Edit) (policy.Key, error) {
	return s.Update(ctx, id, version, audit.KeyRevoke, edit, func(k *policy.Key) {
		k.Status = policy.Revoked
	})
}
