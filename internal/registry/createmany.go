package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/changes"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
)

// Created is what CreateMany did with one key.
type Created struct {
	Key    policy.Key
	Secret apikey.Secret
	Err    error // an *InvalidError, or ErrConflict: a key with this value exists, with the id of Key
}

// CreateMany creates up to MaxKeys keys, as Create does, in one change of the log. What is
// wrong with one key is in its result. With changes.ErrUnknown the results are returned too.
func (s *Store) CreateMany(ctx context.Context, keys []policy.NewKey, edit Edit) ([]Created, error) {
	if err := edit.Validate(); err != nil {
		return nil, err
	}
	if len(keys) > MaxKeys {
		return nil, fmt.Errorf("registry: %d keys are more than %d", len(keys), MaxKeys)
	}
	secrets, problems := make([]apikey.Secret, len(keys)), make([]error, len(keys))
	ids := []string{changes.Policy}
	for i, n := range keys {
		if apikey.ValidEnv(n.Env) {
			secrets[i], problems[i] = s.newSecret(n)
		} else {
			problems[i] = s.invalidKey(ctx, s.newKey(n))
		}
		if id := secrets[i].ID(); problems[i] == nil && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	var results []Created
	receipt, err := s.log.Edit(ctx, edit.change(KeyCreate),
		func(ctx context.Context, r *changes.Reader) (items []changes.Item, err error) {
			found, err := r.Get(ctx, ids...)
			if err != nil {
				return nil, err
			}
			set, err := policyset.DecodeSet(found[0].Number, found[0].Content)
			if err != nil {
				return nil, err
			}
			taken := existing(found[1:])
			results = make([]Created, len(keys))
			var made []storedKey
			for i, n := range keys {
				c := &results[i]
				*c = Created{Key: s.newKey(n), Secret: secrets[i], Err: problems[i]}
				c.Key.ID = secrets[i].ID()
				switch {
				case c.Err != nil:
				case taken[c.Key.ID]:
					c.Err = policy.ErrConflict
				default:
					c.Err = c.Key.Validate(set, policy.Key{})
				}
				if c.Err == nil {
					taken[c.Key.ID] = true
					made = append(made, s.withHash(c.Key, c.Secret))
				}
			}
			return s.items(ctx, r, make([]storedKey, len(made)), made)
		})
	if err != nil && !errors.Is(err, changes.ErrUnknown) {
		return nil, editError(err)
	}
	for i := range results {
		results[i].Key.Version = int64(receipt.Number)
	}
	if err != nil {
		return results, editError(err)
	}
	return results, acknowledge(receipt)
}

// existing returns the names of the records that exist.
func existing(found []changes.Record) map[string]bool {
	names := map[string]bool{}
	for _, record := range found {
		names[record.Name] = len(record.Content) > 0
	}
	return names
}

// withHash returns a key with the hash of its secret.
func (s *Store) withHash(k policy.Key, secret apikey.Secret) storedKey {
	return storedKey{Key: k, hashes: policyset.Secrets{Current: s.pepper.Hash(secret)}}
}

// newKey returns a key to create, without its id.
func (s *Store) newKey(n policy.NewKey) policy.Key {
	now := s.Now().UTC().Truncate(time.Second)
	status := n.Status
	if status == "" {
		status = policy.Active
	}
	return policy.Key{Kind: policy.APIKey, Name: n.Name, Env: n.Env, Foreign: n.Value != "", Tags: n.Tags,
		Group: n.Group, Opens: n.Opens, Plan: n.Plan, Expires: n.Expires, Billing: n.Billing,
		Status: status, Created: now, Updated: now}
}
