//go:build unix

package scale

import (
	"context"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/store"
	"tidegate/local/bench/keys"
)

const (
	pepper = "a pepper that only this benchmark uses"
	wait   = 10 * time.Second
)

func open(ctx context.Context, url string, pooled bool) (valkey.Client, error) {
	return store.Open(ctx, url, store.Options{Dial: wait, Write: wait, Pooled: pooled})
}

// keyRegistry creates keys as the dashboard does.
type keyRegistry struct {
	*keys.Store
	client valkey.Client
}

func openRegistry(ctx context.Context, url string) (*keyRegistry, error) {
	client, err := open(ctx, url, false)
	if err != nil {
		return nil, err
	}
	return &keyRegistry{keys.Open(client, pepper, "scale"), client}, nil
}

// calls creates keys and returns a call with each.
func (r *keyRegistry) calls(ctx context.Context, plan string, n int) ([]enforce.Call, error) {
	made, err := r.Make(ctx, plan, "test", n)
	calls := make([]enforce.Call, len(made))
	for i, k := range made {
		calls[i] = enforce.Call{Kind: policy.APIKey, Subject: k.ID, Secret: k.Secret}
	}
	return calls, err
}
