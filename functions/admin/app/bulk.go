package app

import (
	"context"
	"errors"
	"reflect"
	"time"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
)

// What a Change does.
const (
	Plan     = "plan"     // gives another plan
	Override = "override" // replaces the limits
	End      = "end"      // ends overrides
	Reset    = "reset"    // forgets the counts
	Revoke   = "revoke"
)

// KeyChange is what is done to each key.
type KeyChange struct {
	Do       string
	Plan     string           // with Plan
	Override *policy.Override // with Override
}

// apply changes a key, once more if somebody else just did, and reports whether there was
// anything to change. Keys that are not active are left alone.
func (c KeyChange) apply(ctx context.Context, keys *registry.Store, k policy.Key,
	edit registry.Edit) (bool, error) {
	if k.Status != policy.Active {
		return false, nil
	}
	changed, current, err := c.change(ctx, keys, k, edit)
	if errors.Is(err, policy.ErrConflict) && current.Status == policy.Active {
		changed, _, err = c.change(ctx, keys, current, edit)
	}
	if errors.Is(err, policy.ErrNotFound) {
		return false, nil
	}
	return changed, err
}

func (c KeyChange) change(ctx context.Context, keys *registry.Store, k policy.Key,
	edit registry.Edit) (changed bool, current policy.Key, err error) {
	switch c.Do {
	case Plan:
		if k.Plan == c.Plan {
			return false, k, nil
		}
		current, err = keys.Update(ctx, k.ID, k.Version, audit.KeyPlan, edit, func(k *policy.Key) {
			k.Plan = c.Plan
		})
	case Override:
		if same(k.Override, c.Override) {
			return false, k, nil
		}
		current, err = keys.SetOverride(ctx, k.ID, k.Version, c.Override, edit)
	case End:
		if k.Override == nil {
			return false, k, nil
		}
		current, err = keys.SetOverride(ctx, k.ID, k.Version, nil, edit)
	case Revoke:
		current, err = keys.Revoke(ctx, k.ID, k.Version, edit)
	case Reset:
		return true, k, keys.Reset(ctx, k.ID, edit)
	}
	return true, current, err
}

// same compares what was stored with what is wanted: times to the second, and a mode that
// is not given is to enforce.
func same(stored, wanted *policy.Override) bool {
	if stored == nil || wanted == nil {
		return stored == wanted
	}
	a, b := *stored, *wanted
	if b.Mode == "" {
		b.Mode = policy.Enforce
	}
	if !a.Until.Truncate(time.Second).Equal(b.Until.Truncate(time.Second)) {
		return false
	}
	a.Until, b.Until = time.Time{}, time.Time{}
	return reflect.DeepEqual(a, b) || len(a.Limits)+len(b.Limits) == 0 && a.Mode == b.Mode &&
		a.Reason == b.Reason
}
