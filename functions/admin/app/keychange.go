package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
)

// What a KeyChange does.
const (
	Plan         = "plan"     // gives another plan
	Override     = "override" // replaces the limits
	EndOverride  = "end"      // ends overrides
	Reset        = "reset"    // forgets the counts
	Revoke       = "revoke"
	Unrevoke     = "unrevoke"
	Ban          = "ban"
	Unban        = "unban" // whoever made the ban
	Details      = "edit"  // sets name, tags, group, plan, routes or expiry
	Delete       = "delete"
	Rotate       = "rotate"        // has a method of its own
	ExpireSecret = "expire-secret" // ends the grace of the secret before
)

// KeyChange is what is done to a key.
type KeyChange struct {
	Do       string
	Plan     string            // with Plan
	Override *policy.Override  // with Override
	Until    time.Time         // with Ban; in the future
	Details  func(*policy.Key) // with Details
}

// Fits reports whether the change makes sense for keys of a status.
func (c KeyChange) Fits(s policy.Status) bool {
	switch c.Do {
	case Delete:
		return true
	case Details:
		return s != policy.Unreadable
	case Unrevoke:
		return s == policy.Revoked
	}
	return s == policy.Active
}

// make changes a version of a key, or for Reset and Delete the current one.
func (c KeyChange) make(
	ctx context.Context, store *registry.Store, id string, version int64, e Edit,
) (policy.Key, error) {
	update := func(action string, change func(*policy.Key)) (policy.Key, error) {
		return store.Update(ctx, id, version, action, e, change)
	}
	switch c.Do {
	case Plan:
		return update(audit.KeyPlan, func(k *policy.Key) { k.Plan = c.Plan })
	case Override:
		return store.SetOverride(ctx, id, version, c.Override, e)
	case EndOverride:
		return store.SetOverride(ctx, id, version, nil, e)
	case Reset:
		return store.Reset(ctx, id, e)
	case Revoke:
		return store.Revoke(ctx, id, version, e)
	case Unrevoke:
		return update(audit.KeyUnrevoke, func(k *policy.Key) { k.Status = policy.Active })
	case Ban:
		if !c.Until.After(time.Now()) {
			return policy.Key{}, &policy.InvalidError{Fields: []policy.FieldError{{Field: "until",
				Message: "must be in the future; revoke a key to shut it out for good"}}}
		}
		return update(audit.KeyBan, func(k *policy.Key) { k.Banned = c.Until.UTC() })
	case Unban:
		return store.Unban(ctx, id, version, e)
	case ExpireSecret:
		return store.ExpireSecret(ctx, id, version, e)
	case Details:
		return update(audit.KeyEdit, func(k *policy.Key) {
			c.Details(k)
			k.Name = strings.TrimSpace(k.Name)
		})
	case Delete:
		return policy.Key{}, store.Delete(ctx, id, e)
	}
	return policy.Key{}, fmt.Errorf("app: no change is called %q", c.Do)
}

// apply changes a key, once more if somebody else just did, and reports whether there was
// anything to change. Keys that are not active are left alone.
func (c KeyChange) apply(ctx context.Context, keys *Registry, k policy.Key,
	edit Edit) (bool, error) {
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

func (c KeyChange) change(ctx context.Context, keys *Registry, k policy.Key,
	edit Edit) (changed bool, current policy.Key, err error) {
	switch {
	case c.Do == Plan && k.Plan == c.Plan, c.Do == EndOverride && k.Override == nil:
		return false, k, nil
	}
	current, err = keys.Change(ctx, k.ID, Base{Version: k.Version}, c, edit)
	return current.Version != k.Version, current, err
}
