package registry

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
)

// Create stores a new API key under a fresh id and returns it with its secret, which
// cannot be had again. A key with a given value has an id made from that. When there is
// such a key, its id comes back with ErrConflict. Bad input is an *InvalidError.
func (s *Store) Create(ctx context.Context, n policy.NewKey, edit Edit) (policy.Key, apikey.Secret, error) {
	set, err := s.Set(ctx)
	if err != nil {
		return policy.Key{}, apikey.Secret{}, err
	}
	now := s.Now().UTC().Truncate(time.Second)
	k := policy.Key{
		Kind:    policy.APIKey,
		Name:    n.Name,
		Env:     n.Env,
		Foreign: n.Value != "",
		Tags:    n.Tags,
		Group:   n.Group,
		Allow:   n.Allow,
		Plan:    n.Plan,
		Expires: n.Expires,
		Status:  cmp.Or(n.Status, policy.Active),
		Version: 1,
		Created: now,
		Updated: now,
	}
	if err := k.Validate(set); err != nil {
		return policy.Key{}, apikey.Secret{}, err
	}
	secret, err := s.secretOf(n)
	if err != nil {
		return policy.Key{}, apikey.Secret{}, err
	}
	k.ID = secret.ID()
	return k, secret, s.put(ctx, policy.Key{}, k, policyset.Secrets{Current: s.pepper.Hash(secret)},
		audit.KeyCreate, edit)
}

// secretOf is the secret of a key to create: a new one, or the given value.
func (s *Store) secretOf(n policy.NewKey) (apikey.Secret, error) {
	if n.Value == "" {
		secret, err := apikey.Generate(n.Env)
		if err != nil {
			return secret, fmt.Errorf("registry: create key: %w", err)
		}
		return secret, nil
	}
	problem := "cannot be given: set FOREIGN_KEYS=true for both functions first"
	if s.ForeignKeys {
		secret, err := s.subjects.Foreign(n.Value)
		if err == nil {
			return secret, nil
		}
		problem = err.Error()
	}
	return apikey.Secret{}, policy.Invalid([]policy.FieldError{{Field: "value", Message: problem}})
}

// ForeignID returns the id of the key that a text is the value of, if another system made
// the key. It reports false for a text that is no such value, or with ForeignKeys off.
func (s *Store) ForeignID(text string) (string, bool) {
	if !s.ForeignKeys {
		return "", false
	}
	secret, err := s.subjects.Foreign(text)
	return secret.ID(), err == nil
}

// Adopt stores a record for a caller that others vouch for, whom checks know by this id,
// so that it can have an override or a ban. The name is for people. It fails with
// ErrConflict when there is one.
func (s *Store) Adopt(ctx context.Context, kind policy.Kind, id, name string, o *policy.Override,
	edit Edit) (policy.Key, error) {
	if kind == policy.APIKey || !validID(id) {
		return policy.Key{}, policy.Invalid(
			[]policy.FieldError{{Field: "id",
				Message: "must be the id of a token's or address's caller, as checks report it"}},
		)
	}
	set, err := s.Set(ctx)
	if err != nil {
		return policy.Key{}, err
	}
	now := s.Now().UTC().Truncate(time.Second)
	k := policy.Key{ID: id, Kind: kind, Name: name, Status: policy.Active, Override: o, Version: 1,
		Created: now, Updated: now}
	if err := k.Validate(set); err != nil {
		return policy.Key{}, err
	}
	return k, s.put(ctx, policy.Key{}, k, policyset.Secrets{}, audit.KeyAdopt, edit)
}
