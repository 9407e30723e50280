// Package keys makes plans and API keys for benchmarks, as the dashboard does.
package keys

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
)

// creators is how many keys are made at a time.
const creators = 64

// Store is the registry of a Valkey, with the name of the benchmark for its audit.
type Store struct {
	*registry.Store
	By registry.Edit
}

// Open returns the store of a client's Valkey.
func Open(client valkey.Client, pepper, benchmark string) *Store {
	return &Store{registry.NewStore(client, apikey.Pepper(pepper)),
		registry.Edit{By: audit.Actor{Kind: "system", Name: benchmark}, Reason: benchmark}}
}

// Edit changes the policies.
func (s *Store) Edit(ctx context.Context, change func(*policy.Set)) error {
	set, err := s.Set(ctx)
	if err != nil {
		return err
	}
	change(set)
	if _, err := s.SaveSet(ctx, *set, s.By); err != nil {
		return fmt.Errorf("save the policies: %w", err)
	}
	return nil
}

// Plan adds a plan.
func (s *Store) Plan(ctx context.Context, name string, limits ...limiter.Limit) error {
	return s.Edit(ctx, func(set *policy.Set) {
		set.Plans = append(set.Plans, policy.Plan{Name: name, Limits: limits})
	})
}

// Key is a key that was made.
type Key struct {
	ID     string
	Secret apikey.Secret
}

// Make makes n keys of a plan, which are named after it and their numbers.
func (s *Store) Make(ctx context.Context, plan, environment string, n int) ([]Key, error) {
	keys, errs := make([]Key, n), make([]error, creators)
	var group sync.WaitGroup
	for c := range creators {
		group.Go(func() {
			for i := c; i < n && errs[c] == nil && ctx.Err() == nil; i += creators {
				key, secret, err := s.Create(ctx, policy.NewKey{Name: fmt.Sprintf("%s %d", plan, i+1),
					Env: environment, Plan: plan}, s.By)
				keys[i], errs[c] = Key{key.ID, secret}, err
			}
		})
	}
	group.Wait()
	if err := errors.Join(append(errs, ctx.Err())...); err != nil {
		return nil, fmt.Errorf("make keys: %w", err)
	}
	return keys, nil
}
