package app

import (
	"cmp"
	"context"
	"errors"

	"tidegate/internal/policy"
	"tidegate/internal/registry"
)

// KeyChange is a change of the record of a key. It is the same for one key and for many.
type KeyChange struct {
	Action string // the audit's action
	// Alter sets the number of a plan, not its name, and changes no secrets. The store sets
	// the time of a reset.
	Alter func(k *policy.Key)
}

// Change makes a change to a version of a key, or to registry.AnyVersion, and
// returns its new state. If another change came first, it returns the key as that change
// left it, and policy.ErrConflict.
func (r *Registry) Change(ctx context.Context, id string, version int64, c KeyChange, e Edit) (policy.Key,
	error) {
	e.Version = max(version, 0)
	var k policy.Key
	var err error
	switch c.Action {
	case registry.KeyReset:
		k, err = r.store.Reset(ctx, id, e)
	case registry.KeyUnban:
		k, err = r.store.Unban(ctx, id, version, e)
	default:
		k, err = r.store.Update(ctx, id, version, c.Action, e, c.Alter)
	}
	return k, Noted(ctx, err)
}

// ExpireSecret ends the grace period of the previous secret. It fails as Change does.
func (r *Registry) ExpireSecret(ctx context.Context, id string, version int64, e Edit) (policy.Key, error) {
	k, err := r.store.ExpireSecret(ctx, id, version, e)
	return k, Noted(ctx, err)
}

// Delete removes a version of a key. It fails as Change does.
func (r *Registry) Delete(ctx context.Context, id string, version int64, e Edit) (policy.Key, error) {
	e.Version = max(version, 0)
	err := Noted(ctx, r.store.Delete(ctx, id, e))
	if !errors.Is(err, policy.ErrConflict) {
		return policy.Key{}, err
	}
	k, getErr := r.Get(ctx, id)
	return k, cmp.Or(getErr, err)
}

// Changed returns a key as a change leaves it, and whether that differs from before.
func Changed(c KeyChange, set *policy.Set, k policy.Key) (after policy.Key, differs bool) {
	after = k
	c.Alter(&after)
	if after.PlanNumber != k.PlanNumber {
		after.Plan = set.PlanName(after.PlanNumber)
	}
	return after, c.Action == registry.KeyReset || !sameFields(k, after)
}
