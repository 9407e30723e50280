package registry

import (
	"bytes"
	"context"
	"errors"
	"time"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
)

// Edit says who changes something and why.
type Edit struct {
	By     audit.Actor
	Reason string // up to 200 characters; may be empty
	Job    string // id of the bulk job that the change is part of; empty for none
}

// Validate reports a Reason that is too long or not printable.
func (e Edit) Validate() error {
	if e.Reason == "" {
		return nil
	}
	if problem := policy.TextProblem(e.Reason, policy.MaxReasonLen); problem != "" {
		return policy.Invalid([]policy.FieldError{{Field: "reason", Message: problem}})
	}
	return nil
}

// edited reads what an edit that was based on a version starts from. When another version
// is current, that Key comes back with ErrConflict.
func (s *Store) edited(ctx context.Context, id string, version int64) (*policy.Set, policy.Key,
	policyset.Secrets, error) {
	set, err := s.Set(ctx)
	if err != nil {
		return nil, policy.Key{}, policyset.Secrets{}, err
	}
	old, hashes, err := s.get(ctx, set, id)
	if err != nil {
		return nil, policy.Key{}, policyset.Secrets{}, err
	}
	if old.Version != version {
		return nil, old, policyset.Secrets{}, policy.ErrConflict
	}
	return set, old, hashes, nil
}

// Update changes a key: change gets the current one and alters what it likes of Name,
// Tags, Plan, Status, Override, Expires and Banned. Every check that starts after it
// returns obeys; counts stay as they are. version is the one that the edit was based on:
// when it is no longer current nothing is written, and the current Key comes back with
// ErrConflict. A change that alters nothing writes nothing, and the Key comes back as it
// is. Bad input is an *InvalidError. action names the change in the audit
// ("key.override").
func (s *Store) Update(ctx context.Context, id string, version int64, action string, edit Edit,
	change func(*policy.Key)) (policy.Key, error) {
	set, old, hashes, err := s.edited(ctx, id, version)
	if err != nil {
		return old, err
	}
	k := old
	change(&k)
	k.ID, k.Kind, k.Env, k.Created, k.Grace = old.ID, old.Kind, old.Env, old.Created, old.Grace
	k.Foreign = old.Foreign
	if err := k.Validate(set); err != nil {
		return policy.Key{}, err
	}
	if unchanged(old, k, hashes) {
		return old, nil
	}
	return s.replace(ctx, set, old, k, hashes, action, edit)
}

// unchanged reports whether two versions of a key have the same record.
func unchanged(old, k policy.Key, hashes policyset.Secrets) bool {
	before, err := policyset.EncodeRecord(old, hashes)
	if err != nil {
		return false
	}
	after, err := policyset.EncodeRecord(k, hashes)
	return err == nil && bytes.Equal(before, after)
}

func (s *Store) replace(
	ctx context.Context,
	set *policy.Set,
	old, k policy.Key,
	hashes policyset.Secrets,
	action string,
	edit Edit,
	forget ...string,
) (policy.Key, error) {
	k.Version = old.Version + 1
	k.Updated = s.Now().UTC().Truncate(time.Second)
	if err := k.Validate(set); err != nil {
		return policy.Key{}, err
	}
	err := s.put(ctx, old, k, hashes, action, edit, forget...)
	if errors.Is(err, policy.ErrConflict) {
		current, _, getErr := s.get(ctx, set, old.ID)
		return current, errors.Join(err, getErr)
	}
	return k, err
}

// SetOverride replaces the limits of the key's plan, until they are ended by nil or end
// by themselves. It works as Update does.
func (s *Store) SetOverride(ctx context.Context, id string, version int64, o *policy.Override,
	edit Edit) (policy.Key, error) {
	action := audit.KeyOverride
	if o == nil {
		action = audit.KeyOverrideEnd
	}
	return s.Update(ctx, id, version, action, edit, func(k *policy.Key) { k.Override = o })
}

// Revoke makes the key unknown to every check that starts after it returns. It works as
// Update does.
func (s *Store) Revoke(ctx context.Context, id string, version int64, edit Edit) (policy.Key, error) {
	return s.Update(ctx, id, version, audit.KeyRevoke, edit, func(k *policy.Key) {
		k.Status = policy.Revoked
	})
}
