package main

import (
	"context"
	"sync"

	"tidegate/internal/apikey"
	"tidegate/internal/policy"
	"tidegate/internal/store"
)

// connector is a checker that connects to Valkey when it is first used, and tries again as long as it could not: a function that starts while
// Valkey is away must still answer.
type connector struct {
	config config

	mu    sync.Mutex
	store *policy.Store
}

// Check connects if need be, and checks as policy.Store does.
func (c *connector) Check(ctx context.Context, secret apikey.Secret, cost int64) (policy.Checked, error) {
	s, err := c.connected(ctx)
	if err != nil {
		return policy.Checked{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*c.config.ValkeyTimeout/2)
	defer cancel()
	return s.Check(ctx, secret, cost)
}

func (c *connector) connected(ctx context.Context) (*policy.Store, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.store != nil {
		return c.store, nil
	}
	client, err := store.Open(ctx, c.config.ValkeyURL, store.Options{Dial: c.config.ValkeyTimeout, Write: c.config.ValkeyTimeout, Pooled: true})
	if err != nil {
		return nil, err
	}
	c.store = policy.NewStore(client, c.config.pepper)
	return c.store, nil
}
