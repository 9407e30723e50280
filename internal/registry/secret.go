package registry

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
)

// Authenticate returns the API key that a secret belongs to: as its current secret, or as
// its previous secret during the grace. It fails with policy.ErrUnknownKey for every key
// that checks refuse regardless of limits: unknown, revoked, expired or banned.
func (s *Store) Authenticate(ctx context.Context, set *policy.Set, text string) (policy.Key, error) {
	secret, err := apikey.Parse(text)
	if err != nil && s.ForeignKeys {
		secret, err = s.subjects.Foreign(text)
	}
	if err != nil {
		return policy.Key{}, policy.ErrUnknownKey
	}
	k, hashes, err := s.get(ctx, set, secret.ID())
	if errors.Is(err, policy.ErrNotFound) || errors.Is(err, policy.ErrUnreadable) {
		return policy.Key{}, policy.ErrUnknownKey
	}
	if err != nil {
		return policy.Key{}, err
	}
	now, sum := s.Now(), s.pepper.Hash(secret)
	good := subtle.ConstantTimeCompare(hashes.Current[:], sum[:]) == 1 ||
		subtle.ConstantTimeCompare(hashes.Previous[:], sum[:]) == 1 && now.Before(k.Grace)
	if !good || k.Kind != policy.APIKey || k.Status != policy.Active ||
		!k.Expires.IsZero() && !now.Before(k.Expires) {
		return policy.Key{}, policy.ErrUnknownKey
	}
	if k.Banned.After(now) {
		return policy.Key{}, policy.ErrUnknownKey
	}
	return k, nil
}

// ForeignID returns the id of the key with this value, if another system made the key. It
// reports false if the text cannot be such a value, or if ForeignKeys is off.
func (s *Store) ForeignID(text string) (string, bool) {
	if !s.ForeignKeys {
		return "", false
	}
	secret, err := s.subjects.Foreign(text)
	return secret.ID(), err == nil
}

// newSecret returns the secret of a key to create: a random one, or the given value.
func (s *Store) newSecret(n policy.NewKey) (apikey.Secret, error) {
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
	return apikey.Secret{}, invalid("value", problem)
}

const maxGrace = 90 * 24 * time.Hour // longest time for which the previous secret of a key is valid

// Rotate gives an API key a new secret under the same id, so that its counts, plan and
// history stay. The current secret becomes the previous one and stays valid for grace, 0
// to 90 days. The secret before it becomes invalid. Rotate works as Update does.
func (s *Store) Rotate(ctx context.Context, id string, version int64, grace time.Duration,
	edit Edit) (policy.Key, apikey.Secret, error) {
	if grace < 0 || grace > maxGrace {
		return policy.Key{}, apikey.Secret{}, invalid("grace",
			fmt.Sprintf("is %s: must be 0 to 90 days", grace))
	}
	old, err := s.loadVersion(ctx, id, version)
	switch {
	case err != nil:
		return old.Key, apikey.Secret{}, err
	case old.Kind != policy.APIKey:
		return policy.Key{}, apikey.Secret{}, policy.ErrNotFound
	}
	secret, err := apikey.Renew(old.Env, old.ID)
	if err != nil {
		return policy.Key{}, apikey.Secret{}, fmt.Errorf("registry: rotate key: %w", err)
	}
	next := old
	next.hashes = policyset.Secrets{Current: s.pepper.Hash(secret), Previous: old.hashes.Current}
	next.Grace, next.Foreign = time.Time{}, false
	if grace > 0 {
		next.Grace = s.Now().UTC().Add(grace).Truncate(time.Second)
	}
	k, err := s.replace(ctx, old.Key, next, audit.KeyRotate, edit)
	if err != nil {
		return k, apikey.Secret{}, err
	}
	return k, secret, nil
}

// ExpireSecret ends the grace of the previous secret. If there is no grace, it writes
// nothing. It works as Update does.
func (s *Store) ExpireSecret(ctx context.Context, id string, version int64, edit Edit) (policy.Key, error) {
	old, err := s.loadVersion(ctx, id, version)
	if err != nil || !old.Grace.After(s.Now()) {
		return old.Key, err
	}
	next := old
	next.Grace, next.hashes.Previous = time.Time{}, [sha256.Size]byte{}
	return s.replace(ctx, old.Key, next, audit.KeyExpire, edit)
}
