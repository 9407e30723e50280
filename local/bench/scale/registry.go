//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/store"
)

const (
	pepper   = "a pepper that only this benchmark uses"
	wait     = 10 * time.Second
	creators = 64 // keys that are made at a time
)

var byScale = registry.Edit{By: audit.Actor{Kind: "system", Name: "scale"}, Reason: "scale"}

func open(ctx context.Context, url string, pooled bool) (valkey.Client, error) {
	return store.Open(ctx, url, store.Options{Dial: wait, Write: wait, Pooled: pooled})
}

// keyRegistry creates keys as the dashboard does.
type keyRegistry struct {
	client valkey.Client
	keys   *registry.Store
}

func openRegistry(ctx context.Context, url string) (*keyRegistry, error) {
	client, err := open(ctx, url, false)
	if err != nil {
		return nil, err
	}
	return &keyRegistry{client, registry.NewStore(client, apikey.Pepper(pepper))}, nil
}

// save changes the Set.
func (r *keyRegistry) save(ctx context.Context, change func(*policy.Set)) error {
	set, err := r.keys.Set(ctx)
	if err != nil {
		return err
	}
	change(set)
	_, err = r.keys.SaveSet(ctx, *set, byScale)
	return err
}

func (r *keyRegistry) plan(ctx context.Context, name string, limits ...limiter.Limit) error {
	return r.save(ctx, func(s *policy.Set) {
		s.Plans = append(s.Plans, policy.Plan{Name: name, Limits: limits})
	})
}

// make creates keys and returns a call with each.
func (r *keyRegistry) make(ctx context.Context, plan string, n int) ([]enforce.Call, error) {
	calls, errs := make([]enforce.Call, n), make([]error, creators)
	var group sync.WaitGroup
	for c := range creators {
		group.Go(func() {
			for i := c; i < n && errs[c] == nil; i += creators {
				key, secret, err := r.keys.Create(ctx,
					policy.NewKey{Name: fmt.Sprintf("key %d", i), Env: "test", Plan: plan}, byScale)
				calls[i], errs[c] = enforce.Call{Kind: policy.APIKey, Subject: key.ID, Secret: secret}, err
			}
		})
	}
	group.Wait()
	return calls, errors.Join(errs...)
}
