package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
)

// Get returns one key, or ErrNotFound.
func (s *Store) Get(ctx context.Context, id string) (policy.Key, error) {
	k, err := s.load(ctx, id)
	return k.Key, err
}

// storedKey is a key as it was read from Valkey.
type storedKey struct {
	policy.Key
	hashes policyset.Secrets
	set    *policy.Set // the policy set at that time
}

// load reads a key and the policy set. If only the key fails, the result has the set.
func (s *Store) load(ctx context.Context, id string) (storedKey, error) {
	set, err := s.Set(ctx)
	if err != nil {
		return storedKey{}, err
	}
	k, hashes, err := s.get(ctx, set, id)
	return storedKey{k, hashes, set}, err
}

func (s *Store) get(ctx context.Context, set *policy.Set, id string) (policy.Key, policyset.Secrets, error) {
	if !validID(id) {
		return policy.Key{}, policyset.Secrets{}, policy.ErrNotFound
	}
	record, err := s.client.Do(ctx, s.getRecord(id)).AsBytes()
	if valkey.IsValkeyNil(err) {
		return policy.Key{}, policyset.Secrets{}, policy.ErrNotFound
	}
	if err != nil {
		return policy.Key{}, policyset.Secrets{}, fmt.Errorf("registry: get key: %w", err)
	}
	k, hashes, err := policyset.DecodeRecord(id, record)
	k.Plan = set.PlanName(k.PlanNumber)
	k.Override = set.Renamed(k.Override)
	return k, hashes, err
}

// getRecord returns the command that reads a key's record.
func (s *Store) getRecord(id string) valkey.Completed {
	return s.client.B().Get().Key(keyspace.Record(id)).Build()
}

// validID reports whether a text can be a subject's id: 1 to 64 letters, digits, hyphens
// and underscores, but not the policy set's.
func validID(id string) bool {
	return id != "" && len(id) <= 64 && !strings.ContainsFunc(id, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) && id != policyset.SetID
}

// Many returns the keys with these ids, in order, without those that have no record.
func (s *Store) Many(ctx context.Context, set *policy.Set, ids []string) ([]policy.Key, error) {
	valid := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !validID(id) })
	keys, err := s.getAll(ctx, set, valid)
	return slices.DeleteFunc(keys, func(k policy.Key) bool { return k.ID == "" }), err
}

// getAll returns the key of each id, in order: the zero Key where there is no record, a
// key with the status Unreadable where the record cannot be decoded.
func (s *Store) getAll(ctx context.Context, set *policy.Set, ids []string) ([]policy.Key, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	commands := make(valkey.Commands, len(ids))
	for i, id := range ids {
		commands[i] = s.getRecord(id)
	}
	keys := make([]policy.Key, len(ids))
	for i, result := range s.client.DoMulti(ctx, commands...) {
		k, err := policyset.DecodeReply(ids[i], result)
		switch {
		case errors.Is(err, policy.ErrUnreadable): // one bad record must not hide the others
			k = policy.Key{ID: ids[i], Status: policy.Unreadable}
		case err != nil:
			return nil, fmt.Errorf("registry: list keys: %w", err)
		}
		k.Plan = set.PlanName(k.PlanNumber)
		k.Override = set.Renamed(k.Override)
		keys[i] = k
	}
	return keys, nil
}
