package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
)

// The values of KeyChange.Do.
const (
	Plan         = "plan"     // sets the plan
	Override     = "override" // sets an override
	EndOverride  = "end"      // removes the override
	Reset        = "reset"    // deletes the counts
	Revoke       = "revoke"
	Unrevoke     = "unrevoke"
	Ban          = "ban"
	Unban        = "unban" // lifts a manual or automatic ban
	Details      = "edit"  // sets name, tags, group, plan, routes or expiry
	Delete       = "delete"
	Rotate       = "rotate"        // made by Registry.Rotate
	ExpireSecret = "expire-secret" // ends the grace period of the old secret
)

// KeyChange is a change of one key.
type KeyChange struct {
	Do         string
	PlanNumber int               // for Plan
	Override   *policy.Override  // for Override
	Accepts    Accepts           // for Override; nil accepts every warning, to restore one
	Until      time.Time         // for Ban; in the future
	Details    func(*policy.Key) // for Details
}

// Fits reports whether the change can be made to keys of a status.
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

// Base is the version of a key that a change is based on.
type Base struct {
	Version int64
	Newer   bool // apply the change to a newer version too
}

// Tries is how often Change attempts a change while others change the same key.
const Tries = 5

// Change changes a key and returns its new state; a deleted key has no ID. If another
// change came first, it returns the key as that change left it, and policy.ErrConflict.
// If an override has warnings that c does not accept, it returns an *UnconfirmedError.
func (r *Registry) Change(
	ctx context.Context, id string, base Base, c KeyChange, e Edit,
) (policy.Key, error) {
	if err := confirmOverride(c.Override, c.Accepts); err != nil {
		k, getErr := r.Get(ctx, id)
		if getErr == nil && !base.Newer && k.Version != base.Version {
			err = policy.ErrConflict
		}
		return k, cmp.Or(getErr, err)
	}
	for try := 1; ; try++ {
		if e.Version = base.Version; base.Newer {
			e.Version = 0
		}
		saved, err := c.save(ctx, r.store, id, base.Version, e)
		if !errors.Is(err, policy.ErrConflict) {
			return saved, err
		}
		if saved.ID == "" {
			var getErr error
			if saved, getErr = r.Get(ctx, id); getErr != nil {
				return saved, getErr
			}
		}
		if !base.Newer || try == Tries {
			return saved, err
		}
		base.Version = saved.Version
	}
}

// save makes the change to a version of a key. Reset and Delete find it in e.
func (c KeyChange) save(
	ctx context.Context, store *registry.Store, id string, version int64, e Edit,
) (policy.Key, error) {
	update := func(action string, change func(*policy.Key)) (policy.Key, error) {
		return store.Update(ctx, id, version, action, e, change)
	}
	switch c.Do {
	case Plan:
		return update(audit.KeyPlan, func(k *policy.Key) { k.PlanNumber = c.PlanNumber })
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
				Message: "must be in the future; to block a key for good, revoke it"}}}
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
	return policy.Key{}, fmt.Errorf("app: unknown change %q", c.Do)
}

// apply changes a key for a job and reports whether the key differs now. After a conflict
// it tries once more. It skips keys that are not active or were deleted.
func (c KeyChange) apply(ctx context.Context, keys *Registry, k policy.Key,
	edit Edit) (bool, error) {
	if k.Status != policy.Active {
		return false, nil
	}
	changed, current, err := c.applyOnce(ctx, keys, k, edit)
	if errors.Is(err, policy.ErrConflict) && current.Status == policy.Active {
		changed, _, err = c.applyOnce(ctx, keys, current, edit)
	}
	if errors.Is(err, policy.ErrNotFound) {
		return false, nil
	}
	return changed, err
}

func (c KeyChange) applyOnce(ctx context.Context, keys *Registry, k policy.Key,
	edit Edit) (changed bool, current policy.Key, err error) {
	switch {
	case c.Do == Plan && k.PlanNumber == c.PlanNumber, c.Do == EndOverride && k.Override == nil:
		return false, k, nil
	}
	current, err = keys.Change(ctx, k.ID, Base{Version: k.Version}, c, edit)
	return current.Version != k.Version, current, err
}
