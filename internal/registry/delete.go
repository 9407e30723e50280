package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
)

// Delete removes a key, its counts and its places in the lists.
func (s *Store) Delete(ctx context.Context, id string, edit Edit) error {
	set, err := s.Set(ctx)
	if err != nil {
		return err
	}
	k, _, err := s.get(ctx, set, id)
	if errors.Is(err, policy.ErrUnreadable) {
		return s.remove(ctx, set, id, edit)
	}
	if err != nil {
		return err
	}
	before, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("registry: delete key: %w", err)
	}
	w := write{
		id: id, key: keyspace.Record(id), versionAt: policyset.PublicAt + 1, expected: k.Version,
		forget: s.states(set, id),
		entry: audit.Entry{By: edit.By, Action: audit.KeyDelete, Name: k.Name, Reason: edit.Reason,
			Version: k.Version + 1, Before: before},
	}
	if _, err := s.write(ctx, w); err != nil {
		return err
	}
	s.updateIndex(ctx, k, policy.Key{})
	return nil
}

// remove deletes a key whose record cannot be read. Its name, lists and version are not
// known; List drops what has no record.
func (s *Store) remove(ctx context.Context, set *policy.Set, id string, edit Edit) error {
	record, err := s.client.Do(ctx, s.client.B().Get().Key(keyspace.Record(id)).Build()).AsBytes()
	if err != nil && !valkey.IsValkeyNil(err) {
		return fmt.Errorf("registry: delete key: %w", err)
	}
	w := write{
		id: id, key: keyspace.Record(id), versionAt: 1, found: record, forget: s.states(set, id),
		entry: audit.Entry{By: edit.By, Action: audit.KeyDelete, Reason: edit.Reason},
	}
	_, err = s.write(ctx, w)
	return err
}

// Reset deletes all counts of the key and its automatic bans, in one step with the audit
// entry. It fails with ErrConflict, and deletes nothing, when the key was edited
// meanwhile.
func (s *Store) Reset(ctx context.Context, id string, edit Edit) (policy.Key, error) {
	set, err := s.Set(ctx)
	if err != nil {
		return policy.Key{}, err
	}
	k, hashes, err := s.get(ctx, set, id)
	if err != nil {
		return policy.Key{}, err
	}
	return s.replace(ctx, set, k, k, hashes, audit.KeyReset, edit, s.states(set, id)...)
}

// states names everything that is counted for a subject under this Set.
func (s *Store) states(set *policy.Set, id string) []string {
	names := []string{keyspace.State(id), keyspace.Of(id, "sb"), keyspace.Of(id, "sd"), keyspace.Of(id, "sk")}
	for _, r := range set.Routes {
		names = append(names, keyspace.Of(id, "s"+policy.RouteTag(r.Name)))
	}
	return names
}
