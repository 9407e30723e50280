package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/audit"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/usage/statelist"
)

// put writes k in place of old, and forgets some keys of the same subject with that; an
// old without an ID stands for none.
func (s *Store) put(ctx context.Context, old, k policy.Key, hashes policyset.Secrets, action string,
	edit Edit, forget ...string) error {
	record, err := policyset.EncodeRecord(k, hashes)
	if err != nil {
		return err
	}
	if err := edit.Validate(); err != nil { // before there is something to undo
		return err
	}
	// The lists come first: an entry without a record is dropped by readers, a record
	// without an entry could never be found to be revoked.
	if err := s.addToIndex(ctx, k); err != nil {
		return err
	}
	entry := audit.Entry{
		By: edit.By, Action: action, Name: k.Name, Reason: edit.Reason, Job: edit.Job, Version: k.Version,
	}
	if entry.After, err = json.Marshal(k); err != nil {
		return fmt.Errorf("policy: write key: %w", err)
	}
	if old.ID != "" {
		if entry.Before, err = json.Marshal(old); err != nil {
			return fmt.Errorf("policy: write key: %w", err)
		}
	}
	w := write{
		id: k.ID, key: keyspace.Record(k.ID), versionAt: policyset.PublicAt + 1,
		expected: old.Version, record: record, forget: forget, entry: entry,
	}
	switch _, err := s.write(ctx, w); {
	case errors.Is(err, policy.ErrConflict) || errors.Is(err, policy.ErrNotFound):
		s.removeFromIndex(ctx, k)
		return err
	case err != nil: // it may yet be written
		return err
	}
	s.updateIndex(ctx, old, k)
	if k.Banned.After(s.Now()) { // a denial lists it again, where this fails
		s.client.DoMulti(ctx, statelist.Add(s.client, statelist.Banned, k.ID, k.Banned)...)
	}
	return nil
}

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
		return policy.Key{}, policyset.Secrets{}, fmt.Errorf("policy: get key: %w", err)
	}
	k, hashes, err := policyset.DecodeRecord(id, record)
	k.Plan = set.PlanName(k.PlanNumber)
	return k, hashes, err
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
		return fmt.Errorf("policy: delete key: %w", err)
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
		return fmt.Errorf("policy: delete key: %w", err)
	}
	w := write{
		id: id, key: keyspace.Record(id), versionAt: 1, found: record, forget: s.states(set, id),
		entry: audit.Entry{By: edit.By, Action: audit.KeyDelete, Reason: edit.Reason},
	}
	_, err = s.write(ctx, w)
	return err
}

// states names everything that is counted for a subject under this Set.
func (s *Store) states(set *policy.Set, id string) []string {
	names := []string{keyspace.State(id), keyspace.Of(id, "sb"), keyspace.Of(id, "sd"), keyspace.Of(id, "sk")}
	for _, r := range set.Routes {
		names = append(names, keyspace.Of(id, "s"+policy.RouteTag(r.Name)))
	}
	return names
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

// Usage answers, for each key in order, what a call of cost 1 would get now. It takes
// nothing. An unreadable key, or one with mode Off, gets the zero Decision.
func (s *Store) Usage(ctx context.Context, set *policy.Set, keys []policy.Key) ([]limiter.Decision, error) {
	var subjects []limiter.Exchange
	var at []int
	for i, k := range keys {
		e, found := set.Effective(k, s.Now())
		if k.Status == policy.Unreadable || !found || e.Mode == policy.Off {
			continue
		}
		program, err := limiter.Compile(e.Limits, s.Now())
		if err != nil {
			return nil, fmt.Errorf("policy: usage: %w", err)
		}
		subjects, at = append(subjects,
			limiter.Exchange{Key: keyspace.State(k.ID), Program: program, Limits: e.Limits}), append(at, i)
	}
	peeked, err := limiter.PeekMany(ctx, s.client, subjects)
	if err != nil {
		return nil, fmt.Errorf("policy: usage: %w", err)
	}
	decisions := make([]limiter.Decision, len(keys))
	for i, d := range peeked {
		decisions[at[i]] = d
	}
	return decisions, nil
}

func validID(id string) bool {
	return id != "" && len(id) <= 64 && !strings.ContainsFunc(id, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) && id != policyset.SetID
}
