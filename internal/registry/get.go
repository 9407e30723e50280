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
	set, err := s.Set(ctx)
	if err != nil {
		return policy.Key{}, err
	}
	k, _, err := s.get(ctx, set, id)
	return k, err
}

func (s *Store) get(ctx context.Context, set *policy.Set, id string) (policy.Key, policyset.Secrets, error) {
	if !validID(id) {
		return policy.Key{}, policyset.Secrets{}, policy.ErrNotFound
	}
	record, err := s.client.Do(ctx, s.client.B().Get().Key(keyspace.Record(id)).Build()).AsBytes()
	if valkey.IsValkeyNil(err) {
		return policy.Key{}, policyset.Secrets{}, policy.ErrNotFound
	}
	if err != nil {
		return policy.Key{}, policyset.Secrets{}, fmt.Errorf("registry: get key: %w", err)
	}
	k, hashes, err := policyset.DecodeRecord(id, record)
	k.Plan = set.PlanName(k.PlanNumber)
	return k, hashes, err
}

func validID(id string) bool {
	return id != "" && len(id) <= 64 && !strings.ContainsFunc(id, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) && id != policyset.SetID
}

// Many returns the keys with these ids, in order, leaving out those that have no record.
func (s *Store) Many(ctx context.Context, set *policy.Set, ids []string) ([]policy.Key, error) {
	members := make([]string, 0, len(ids))
	for _, id := range ids {
		if validID(id) {
			members = append(members, "\x00"+id)
		}
	}
	keys, err := s.getAll(ctx, set, members)
	return slices.DeleteFunc(keys, func(k policy.Key) bool { return k.ID == "" }), err
}

// getAll returns the key of each member; the zero Key where there is no record.
func (s *Store) getAll(ctx context.Context, set *policy.Set, members []string) ([]policy.Key, error) {
	if len(members) == 0 {
		return nil, nil
	}
	keys := make([]policy.Key, len(members))
	commands := make(valkey.Commands, len(members))
	for i, m := range members {
		keys[i].ID = memberID(m)
		commands[i] = s.client.B().Get().Key(keyspace.Record(keys[i].ID)).Build()
	}
	for i, result := range s.client.DoMulti(ctx, commands...) {
		k, err := policyset.Recorded(keys[i].ID, result)
		switch {
		case errors.Is(err, policy.ErrUnreadable): // one bad record must not hide the others
			k = policy.Key{ID: keys[i].ID, Status: policy.Unreadable}
		case err != nil:
			return nil, fmt.Errorf("registry: list keys: %w", err)
		}
		k.Plan = set.PlanName(k.PlanNumber)
		keys[i] = k
	}
	return keys, nil
}
