package registry

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/policy"
)

// MaxGrace is the longest time for which a rotated key's old secret is good.
const MaxGrace = 90 * 24 * time.Hour

// Rotate gives an API key a new secret under the same id, so that its counts, plan and
// history stay. The old secret is good for grace more, 0 to MaxGrace; a secret from
// before that one no longer is. It works as Update does.
func (s *Store) Rotate(ctx context.Context, id string, version int64, grace time.Duration,
	edit Edit) (policy.Key, apikey.Secret, error) {
	if grace < 0 || grace > MaxGrace {
		return policy.Key{}, apikey.Secret{}, policy.Invalid(
			[]policy.FieldError{{Field: "grace", Message: fmt.Sprintf("is %s: must be 0 to 90 days", grace)}},
		)
	}
	set, old, hashes, err := s.edited(ctx, id, version)
	switch {
	case err != nil:
		return old, apikey.Secret{}, err
	case old.Kind != policy.APIKey:
		return policy.Key{}, apikey.Secret{}, policy.ErrNotFound
	}
	secret, err := apikey.Renew(old.Env, old.ID)
	if err != nil {
		return policy.Key{}, apikey.Secret{}, fmt.Errorf("registry: rotate key: %w", err)
	}
	k := old
	hashes.Previous, hashes.Current = hashes.Current, s.pepper.Hash(secret)
	k.Grace, k.Foreign = time.Time{}, false
	if grace > 0 {
		k.Grace = s.Now().UTC().Add(grace).Truncate(time.Second)
	}
	k, err = s.replace(ctx, set, old, k, hashes, audit.KeyRotate, edit)
	if err != nil {
		return k, apikey.Secret{}, err
	}
	return k, secret, nil
}

// ExpireSecret ends the grace of the secret before the last rotation. Without one it
// writes nothing. It works as Update does.
func (s *Store) ExpireSecret(ctx context.Context, id string, version int64, edit Edit) (policy.Key, error) {
	set, old, hashes, err := s.edited(ctx, id, version)
	if err != nil || !old.Grace.After(s.Now()) {
		return old, err
	}
	k := old
	k.Grace, hashes.Previous = time.Time{}, [sha256.Size]byte{}
	return s.replace(ctx, set, old, k, hashes, audit.KeyExpire, edit)
}
