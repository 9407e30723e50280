package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
)

// What a KeyChange does.
const (
	Plan     = "plan"     // gives another plan
	Override = "override" // replaces the limits
	End      = "end"      // ends overrides
	Reset    = "reset"    // forgets the counts
	Revoke   = "revoke"
	Unrevoke = "unrevoke"
	Ban      = "ban"
	Unban    = "unban" // whoever made the ban
	Details  = "edit"  // sets name, tags, group, plan, routes or expiry
	Delete   = "delete"
	Rotate   = "rotate"        // has a method of its own
	Expire   = "expire-secret" // ends the grace of the secret before
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
	case End:
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
	case Expire:
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
