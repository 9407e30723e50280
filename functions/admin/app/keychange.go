package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidegate/internal/policy"
	"tidegate/internal/registry"
)

// The values of KeyChange.Do.
const (
	Plan         = "plan"     // sets the plan
	Override     = "override" // sets an override
	EndOverride  = "end"      // removes the override
	Reset        = "reset"    // sets the counts to zero
	Revoke       = "revoke"
	Unrevoke     = "unrevoke"
	Ban          = "ban"
	Unban        = "unban" // lifts a ban
	AddTags      = "tag"
	RemoveTags   = "untag"
	SetGroup     = "group"
	SetExpiry    = "expiry"
	Details      = "edit" // sets name, tags, group, plan, routes or expiry
	Delete       = "delete"
	Rotate       = "rotate"        // made by Registry.Rotate
	ExpireSecret = "expire-secret" // ends the grace period of the old secret
)

// KeyChange is a change of a key.
type KeyChange struct {
	Do         string            `json:"do"`
	PlanNumber int               `json:"planNumber,omitempty"` // for Plan
	Override   *policy.Override  `json:"override,omitempty"`   // for Override
	Until      time.Time         `json:"until,omitzero"`       // for Ban and SetExpiry; zero: no expiry
	Tags       []string          `json:"tags,omitempty"`       // for AddTags and RemoveTags
	Group      string            `json:"group,omitempty"`      // for SetGroup; empty for none
	Accepts    Accepts           `json:"-"`                    // for Override; nil accepts every warning, to restore one
	Details    func(*policy.Key) `json:"-"`                    // for Details
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

// Change changes a version of a key, or registry.AnyVersion, and returns its new state; a
// deleted key has no ID. If another change came first, it returns the key as that change
// left it, and policy.ErrConflict. If an override has warnings that c does not accept, it
// returns an *UnconfirmedError.
func (r *Registry) Change(
	ctx context.Context, id string, version int64, c KeyChange, e Edit,
) (policy.Key, error) {
	if err := r.confirmOverride(ctx, c.Override, c.Accepts); err != nil {
		k, getErr := r.Get(ctx, id)
		if getErr == nil && version != registry.AnyVersion && k.Version != version {
			err = policy.ErrConflict
		}
		return k, cmp.Or(getErr, err)
	}
	e.Version = max(version, 0)
	saved, err := c.save(ctx, r.store, id, version, e)
	if err = Noted(ctx, err); errors.Is(err, policy.ErrConflict) && saved.ID == "" { // Delete
		var getErr error
		saved, getErr = r.Get(ctx, id)
		err = cmp.Or(getErr, err)
	}
	return saved, err
}

// actions has the audit's action of each change that Alter makes, also of many keys.
var actions = map[string]string{
	Plan: registry.KeyPlan, Override: registry.KeyOverride, EndOverride: registry.KeyOverrideEnd,
	Reset: registry.KeyReset, Revoke: registry.KeyRevoke, Unrevoke: registry.KeyUnrevoke,
	Ban: registry.KeyBan, Unban: registry.KeyUnban, AddTags: registry.KeyEdit, RemoveTags: registry.KeyEdit,
	SetGroup: registry.KeyEdit, SetExpiry: registry.KeyEdit, Details: registry.KeyEdit,
}

// Action returns the audit's action of a change.
func Action(do string) string {
	switch do {
	case Rotate:
		return registry.KeyRotate
	case ExpireSecret:
		return registry.KeyExpire
	}
	return actions[do]
}

// Alter makes the change to the record of a key. It sets the number of a plan, not its
// name, and changes no secrets. The store sets the time of a reset.
func (c KeyChange) Alter(k *policy.Key) {
	switch c.Do {
	case Plan:
		k.PlanNumber = c.PlanNumber
	case Override:
		k.Override = c.Override
	case EndOverride:
		k.Override = nil
	case Revoke:
		k.Status = policy.Revoked
	case Unrevoke:
		k.Status = policy.Active
	case Ban:
		k.Banned = c.Until.UTC()
	case Unban:
		k.Banned = time.Time{}
	case AddTags:
		present := func(tag string) bool { return slices.Contains(k.Tags, tag) }
		k.Tags = slices.Concat(k.Tags, slices.DeleteFunc(slices.Clone(c.Tags), present))
	case RemoveTags:
		k.Tags = slices.DeleteFunc(slices.Clone(k.Tags), func(tag string) bool {
			return slices.Contains(c.Tags, tag)
		})
	case SetGroup:
		k.Group = c.Group
	case SetExpiry:
		k.Expires = c.Until.UTC()
	case Details:
		c.Details(k)
		k.Name = strings.TrimSpace(k.Name)
	}
}

// Result returns a key as the change leaves it, and whether that differs from before.
func (c KeyChange) Result(set *policy.Set, k policy.Key) (after policy.Key, differs bool) {
	after = k
	c.Alter(&after)
	if after.PlanNumber != k.PlanNumber {
		after.Plan = set.PlanName(after.PlanNumber)
	}
	return after, c.Do == Reset || !sameFields(k, after)
}

// Validate validates what a change sets, whatever the key. It fails with a
// *policy.InvalidError.
func (c KeyChange) Validate() error {
	var fields []policy.FieldError
	add := func(field, message string) {
		if message != "" {
			fields = append(fields, policy.FieldError{Field: field, Message: message})
		}
	}
	switch c.Do {
	case Ban:
		if !c.Until.After(time.Now()) {
			add("until", "must be in the future; to block a key for good, revoke it")
		}
		add("until", policy.TimeProblem(c.Until))
	case SetExpiry:
		if !c.Until.IsZero() && !c.Until.After(time.Now()) {
			add("until", "must be in the future; to block keys now, revoke them")
		}
		add("until", policy.TimeProblem(c.Until))
	case AddTags, RemoveTags:
		if n := len(c.Tags); n == 0 || n > policy.MaxTags {
			add("tags", fmt.Sprintf("%d given: must be 1 to %d", n, policy.MaxTags))
		}
		fields = append(fields, policy.TagErrors(c.Tags)...)
	case SetGroup:
		if c.Group != "" {
			add("group", policy.GroupProblem(c.Group))
		}
	}
	return policy.Invalid(fields)
}

// save makes the change to a version of a key. Reset and Delete find it in e.
func (c KeyChange) save(
	ctx context.Context, store *registry.Store, id string, version int64, e Edit,
) (policy.Key, error) {
	if err := c.Validate(); err != nil {
		return policy.Key{}, err
	}
	switch c.Do {
	case Reset:
		return store.Reset(ctx, id, e)
	case Unban:
		return store.Unban(ctx, id, version, e)
	case ExpireSecret:
		return store.ExpireSecret(ctx, id, version, e)
	case Delete:
		return policy.Key{}, store.Delete(ctx, id, e)
	}
	return store.Update(ctx, id, version, actions[c.Do], e, c.Alter)
}
