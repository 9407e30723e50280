package registry

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
)

// Create stores a new API key under a fresh id and returns it with its secret, which
// cannot be read again. The id of a key with a given value is derived from the value. If
// that key exists, the returned key has its id and the error is ErrConflict. Bad input is
// an *InvalidError. With changes.ErrUnknown the secret is returned too: the key may be
// stored, and nobody else has its secret. With edit.Repeat, see there.
func (s *Store) Create(ctx context.Context, n policy.NewKey, edit Edit) (policy.Key, apikey.Secret, error) {
	k := s.newKey(n)
	if !apikey.ValidEnv(n.Env) {
		return policy.Key{}, apikey.Secret{}, s.invalidKey(ctx, k)
	}
	if edit.Repeat != nil {
		return s.createOnce(ctx, n, k, edit)
	}
	secret, err := s.newSecret(n)
	if err != nil {
		return policy.Key{}, apikey.Secret{}, err
	}
	k.ID = secret.ID()
	create := func(set *policy.Set, stored *storedKey) error {
		stored.Key = k
		stored.hashes = policyset.Secrets{Current: s.pepper.Hash(secret)}
		return stored.Validate(set, policy.Key{})
	}
	created, err := s.editKey(ctx, k.ID, KeyCreate, edit, true, create)
	switch {
	case errors.Is(err, policy.ErrConflict):
		return policy.Key{ID: k.ID}, apikey.Secret{}, err
	case !made(err):
		return policy.Key{}, apikey.Secret{}, err
	}
	return created, secret, err
}

// invalidKey returns everything that is wrong with a key for which no secret can be made.
func (s *Store) invalidKey(ctx context.Context, k policy.Key) error {
	set, err := s.Set(ctx)
	if err != nil {
		return err
	}
	return k.Validate(set, policy.Key{})
}

// Adopt stores a record for a caller without an API key, so that it can have an override
// or a ban. id is the id that checks give to the caller of a token or an address. name is
// shown to people. Adopt fails with ErrConflict if there is a record, unless the request
// edit.Repeat made it.
func (s *Store) Adopt(ctx context.Context, kind policy.Kind, id, name string, o *policy.Override,
	edit Edit) (policy.Key, error) {
	if kind == policy.APIKey || !validID(id) {
		return policy.Key{}, invalid("id",
			"must be the id of a caller with a token or an address, as checks report it")
	}
	now := s.Now().UTC().Truncate(time.Second)
	repeat := s.request(KeyAdopt, id, edit.Repeat)
	edit.id = repeat.change()
	k, err := s.editKey(ctx, id, KeyAdopt, edit, true, func(set *policy.Set, stored *storedKey) error {
		stored.Key = policy.Key{ID: id, Kind: kind, Name: name, Status: policy.Active, Override: o,
			Created: now, Updated: now}
		return stored.Validate(set, policy.Key{})
	})
	if repeat == nil || !errors.Is(err, policy.ErrConflict) {
		return k, err
	}
	k, _, err = s.repeated(ctx, id, repeat,
		func(string, uint64) (apikey.Secret, error) { return apikey.Secret{}, nil })
	return k, err
}

// SecretUse is what a secret is to its key.
type SecretUse int

// The uses of a secret.
const (
	DeadSecret     SecretUse = iota // replaced by a rotation: calls get 401
	CurrentSecret                   // the newest
	PreviousSecret                  // replaced by the last rotation, and valid until Key.Grace
)

// SecretOf returns the key that a secret names, and what the secret is to it. It fails with
// policy.ErrNotFound for a text that is no secret.
func (s *Store) SecretOf(ctx context.Context, set *policy.Set, text string) (policy.Key, SecretUse, error) {
	secret, err := apikey.Parse(text)
	if err != nil && s.ForeignKeys {
		secret, err = s.subjects.Foreign(text)
	}
	if err != nil {
		return policy.Key{}, DeadSecret, policy.ErrNotFound
	}
	k, err := s.get(ctx, set, secret.ID())
	if err != nil {
		return policy.Key{}, DeadSecret, err
	}
	sum := s.pepper.Hash(secret)
	switch {
	case subtle.ConstantTimeCompare(k.hashes.Current[:], sum[:]) == 1:
		return k.Key, CurrentSecret, nil
	case subtle.ConstantTimeCompare(k.hashes.Previous[:], sum[:]) == 1 && s.Now().Before(k.Grace):
		return k.Key, PreviousSecret, nil
	}
	return k.Key, DeadSecret, nil
}

// Authenticate returns the API key that a secret belongs to: as its current secret, or as
// its previous secret during the grace. It fails with policy.ErrUnknownKey for every key
// that checks refuse regardless of limits: unknown, revoked, expired or banned.
func (s *Store) Authenticate(ctx context.Context, set *policy.Set, text string) (policy.Key, error) {
	k, use, err := s.SecretOf(ctx, set, text)
	if errors.Is(err, policy.ErrNotFound) || errors.Is(err, policy.ErrUnreadable) {
		return policy.Key{}, policy.ErrUnknownKey
	}
	if err != nil {
		return policy.Key{}, err
	}
	now := s.Now()
	if use == DeadSecret || k.Kind != policy.APIKey || k.Status != policy.Active ||
		!k.Expires.IsZero() && !now.Before(k.Expires) || k.Banned.After(now) {
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
// to 90 days. The secret before it becomes invalid. Rotate works as Update does. With
// changes.ErrUnknown it returns the secret too, which may be the valid one.
func (s *Store) Rotate(ctx context.Context, id string, version int64, grace time.Duration,
	edit Edit) (policy.Key, apikey.Secret, error) {
	if grace < 0 || grace > maxGrace {
		return policy.Key{}, apikey.Secret{}, invalid("grace",
			fmt.Sprintf("is %s: must be 0 to 90 days", grace))
	}
	var secret apikey.Secret
	repeat := s.request(KeyRotate, id, edit.Repeat)
	edit.id = repeat.change()
	k, err := s.editKey(ctx, id, KeyRotate, edit, false, func(_ *policy.Set, k *storedKey) (err error) {
		switch {
		case k.Version != version:
			return policy.ErrConflict
		case k.Kind != policy.APIKey:
			return policy.ErrNotFound
		}
		switch { // the judge may be asked again
		case repeat != nil:
			secret, err = s.pepper.Repeated(k.Env, k.ID, repeat.seed, k.next)
		case secret.ID() == "":
			secret, err = apikey.Renew(k.Env, k.ID)
		}
		if err != nil {
			return fmt.Errorf("registry: rotate key: %w", err)
		}
		k.hashes = policyset.Secrets{Current: s.pepper.Hash(secret), Previous: k.hashes.Current}
		k.Grace, k.Foreign = time.Time{}, false
		if grace > 0 {
			k.Grace = s.Now().UTC().Add(grace).Truncate(time.Second)
		}
		return nil
	})
	if !made(err) {
		return k, apikey.Secret{}, err
	}
	return k, secret, err
}

// ExpireSecret ends the grace of the previous secret. If there is no grace, it writes
// nothing. It works as Update does.
func (s *Store) ExpireSecret(ctx context.Context, id string, version int64, edit Edit) (policy.Key, error) {
	return s.editKey(ctx, id, KeyExpire, edit, false, func(_ *policy.Set, k *storedKey) error {
		if stale(k, version) {
			return policy.ErrConflict
		}
		if k.Grace.After(s.Now()) {
			k.Grace, k.hashes.Previous = time.Time{}, [sha256.Size]byte{}
		}
		return nil
	})
}

// load reads a key and the policy set.
func (s *Store) load(ctx context.Context, id string) (*policy.Set, storedKey, error) {
	set, err := s.Set(ctx)
	if err != nil {
		return nil, storedKey{}, err
	}
	k, err := s.get(ctx, set, id)
	return set, k, err
}

func (s *Store) get(ctx context.Context, set *policy.Set, id string) (storedKey, error) {
	if !validID(id) {
		return storedKey{}, policy.ErrNotFound
	}
	found, err := s.log.Records(ctx, id)
	if err != nil {
		return storedKey{}, fmt.Errorf("registry: get key: %w", err)
	}
	return decodeKey(set, found[0])
}
