// Package registrytest edits keys as the dashboard does, for tests of the packages that
// obey those edits.
package registrytest

import (
	"context"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
)

// store is a registry.Store. It is an interface, and the Edit a type parameter, since the
// registry's own tests use this package.
type store[Edit any] interface {
	Update(ctx context.Context, id string, version int64, action string, edit Edit,
		change func(*policy.Key)) (policy.Key, error)
}

// Override replaces the limits of the key's plan until the override ends. A nil override
// restores them.
func Override[Edit any](ctx context.Context, s store[Edit], id string, version int64, o *policy.Override,
	edit Edit) (policy.Key, error) {
	action := audit.KeyOverride
	if o == nil {
		action = audit.KeyOverrideEnd
	}
	return s.Update(ctx, id, version, action, edit, func(k *policy.Key) { k.Override = o })
}

// Revoke makes the key unknown to every check that starts after it returns.
func Revoke[Edit any](ctx context.Context, s store[Edit], id string, version int64,
	edit Edit) (policy.Key, error) {
	return s.Update(ctx, id, version, audit.KeyRevoke, edit, func(k *policy.Key) {
		k.Status = policy.Revoked
	})
}
