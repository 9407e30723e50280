package registry

import (
	"context"
	"crypto/subtle"
	"errors"

	"tidegate/internal/apikey"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
)

// Authenticate returns the API key whose secret a text is: its current one, or the one
// before while its grace lasts. It fails with policy.ErrUnknownKey for every key that
// checks refuse or deny whatever its limits: unknown, revoked, expired or banned.
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
	until, err := policyset.BannedUntil(ctx, s.client, set, []policy.Key{k})
	if err != nil {
		return policy.Key{}, err
	}
	if until[0].After(now) {
		return policy.Key{}, policy.ErrUnknownKey
	}
	return k, nil
}
