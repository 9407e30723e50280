package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/changes"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/records"
	"tidegate/internal/store/keyspace"
)

// storedKey is a key with what is in its record alone.
type storedKey struct {
	policy.Key
	hashes policyset.Secrets
	next   uint64 // number of the change that is judged, if it is made
}

// decodeKey decodes a record, and names the plan and the routes of the override as the set
// does. It fails with ErrNotFound and policy.ErrUnreadable.
func decodeKey(set *policy.Set, found changes.Record) (storedKey, error) {
	if len(found.Content) == 0 {
		return storedKey{}, policy.ErrNotFound
	}
	k, hashes, err := policyset.DecodeRecord(found.Name, found.Number, found.Content)
	k.Plan = set.PlanName(k.PlanNumber)
	k.Override = set.Renamed(k.Override)
	for _, m := range found.Marks {
		k = marked(k, m)
	}
	return storedKey{Key: k, hashes: hashes}, err
}

// sameRecord reports whether two states of a key have the same record.
func sameRecord(a, b storedKey) bool {
	first, err := policyset.EncodeRecord(a.Key, a.hashes)
	if err != nil {
		return false
	}
	second, err := policyset.EncodeRecord(b.Key, b.hashes)
	return err == nil && bytes.Equal(first, second)
}

// keyEdit is the judge of an edit of one key.
type keyEdit struct {
	s   *Store
	id  string
	old storedKey
	now storedKey // after the edit
}

// change returns a judge that replaces a key by what do makes of it. do gets a copy, and the
// policy set. No record is an error, unless create is true.
func (e *keyEdit) change(create bool, do func(*policy.Set, *storedKey) error) changes.Judge {
	return func(ctx context.Context, r *changes.Reader) ([]changes.Item, error) {
		found, err := r.Get(ctx, changes.Policy, e.id)
		if err != nil {
			return nil, err
		}
		set, err := policyset.DecodeSet(found[0].Number, found[0].Content)
		if err != nil {
			return nil, err
		}
		e.old, err = decodeKey(set, found[1])
		switch {
		case create && err == nil:
			return nil, policy.ErrConflict
		case create && errors.Is(err, policy.ErrNotFound):
		case err != nil:
			return nil, err
		}
		e.now = e.old
		e.now.next = r.Now() + 1
		if err := do(set, &e.now); err != nil {
			return nil, err
		}
		now := []storedKey{e.now}
		items, err := e.s.items(ctx, r, []storedKey{e.old}, now)
		e.now = now[0]
		return items, err
	}
}

// items returns the items that give keys new contents, and one for each group that has its
// first key. Keys without an id before are created. What stays the same has none.
func (s *Store) items(ctx context.Context, r *changes.Reader, before, after []storedKey) (
	[]changes.Item, error) {
	var items []changes.Item
	groups := map[string]string{} // names by id
	for i, k := range after {
		if before[i].ID != "" {
			if sameRecord(before[i], k) {
				continue
			}
			k.Updated = s.Now().UTC().Truncate(time.Second)
			after[i].Updated = k.Updated
		}
		record, err := policyset.EncodeRecord(k.Key, k.hashes)
		if err != nil {
			return nil, err
		}
		items = append(items, changes.Item{Record: k.ID, After: record})
		if k.Group != "" && k.Group != before[i].Group {
			groups[policy.GroupID(k.Group)] = k.Group
		}
	}
	for id, name := range groups {
		found, err := r.Get(ctx, id)
		if err != nil {
			return nil, err
		}
		if len(found[0].Content) == 0 {
			items = append(items, changes.Item{Record: id, After: policyset.EncodeGroup(0, name)})
		}
	}
	if len(items) > changes.MaxItems {
		return nil, invalid("group", fmt.Sprintf("keys join %d groups without keys: must be at most %d. "+
			"Change fewer keys at a time", len(groups), changes.MaxItems-MaxKeys))
	}
	return items, nil
}

// editKey edits one key. With ErrConflict it returns the current one.
func (s *Store) editKey(ctx context.Context, id, action string, edit Edit, create bool,
	do func(*policy.Set, *storedKey) error) (policy.Key, error) {
	if err := edit.Validate(); err != nil {
		return policy.Key{}, err
	}
	if !validID(id) {
		return policy.Key{}, policy.ErrNotFound
	}
	e := &keyEdit{s: s, id: id}
	receipt, err := s.log.Edit(ctx, edit.change(action), e.change(create, do))
	switch {
	case errors.Is(err, policy.ErrConflict):
		return e.old.Key, err
	case errors.Is(err, changes.ErrUnknown):
		return e.now.Key, editError(err)
	case err != nil:
		return policy.Key{}, editError(err)
	case receipt.Number == 0:
		return e.old.Key, nil
	}
	e.now.Version = int64(receipt.Number)
	return e.now.Key, acknowledge(receipt)
}

// AnyVersion is the version of an edit that is right for every version of a key.
const AnyVersion = -1

func stale(k *storedKey, version int64) bool { return version != AnyVersion && version != k.Version }

// Update changes a key: change gets the current one and may alter Name, Tags, Group, Plan or
// PlanNumber, Opens, Status, Override, Expires and Banned. A changed PlanNumber decides,
// whatever the name Plan. Every check that starts after Update returns obeys; counts stay.
// version is the one that the edit was based on, or AnyVersion. If it is no longer current,
// nothing is written, and Update returns the current key with ErrConflict. If change alters
// nothing, nothing is written and the key is returned as it is. Bad input is an
// *InvalidError.
//
// action names the change in the audit. With KeyRevoke and KeyBan the edit is in force
// before it is stored, so it does not wait for the log.
func (s *Store) Update(ctx context.Context, id string, version int64, action string, edit Edit,
	change func(*policy.Key)) (policy.Key, error) {
	do := func(set *policy.Set, k *storedKey) error {
		if stale(k, version) {
			return policy.ErrConflict
		}
		return alter(set, k, change)
	}
	if action == KeyRevoke || action == KeyBan {
		return s.takeRights(ctx, id, action, edit, do)
	}
	k, err := s.editKey(ctx, id, action, edit, false, do)
	s.listBan(ctx, k, err)
	return k, err
}

// alter changes what an edit may change of a key, and validates it.
func alter(set *policy.Set, k *storedKey, change func(*policy.Key)) error {
	old := k.Key
	change(&k.Key)
	k.ID, k.Kind, k.Env, k.Created, k.Grace = old.ID, old.Kind, old.Env, old.Created, old.Grace
	k.Foreign, k.Reset, k.Version = old.Foreign, old.Reset, old.Version
	if k.PlanNumber != old.PlanNumber {
		p, found := set.PlanByNumber(k.PlanNumber)
		if !found && k.PlanNumber > 0 {
			return invalid("plan", "was deleted since: choose another")
		}
		k.Plan = p.Name
	}
	return k.Validate(set, old)
}

// takeRights revokes or bans a key by a mark, which acts before it is stored. An edit that
// does something else too, or gives rights, is an ordinary one.
func (s *Store) takeRights(ctx context.Context, id, action string, edit Edit,
	do func(*policy.Set, *storedKey) error) (policy.Key, error) {
	if err := edit.Validate(); err != nil {
		return policy.Key{}, err
	}
	set, old, err := s.load(ctx, id)
	if err != nil {
		return policy.Key{}, err
	}
	k := old
	if err := do(set, &k); errors.Is(err, policy.ErrConflict) {
		return old.Key, err
	} else if err != nil {
		return policy.Key{}, err
	}
	m := changes.Mark{Record: id, Time: s.Now().UTC(), Action: action, By: edit.By.text(), Why: edit.Reason}
	if k.Banned.After(old.Banned) {
		m.Until = k.Banned.UnixMicro()
	}
	after := marked(old.Key, m)
	k.Updated = after.Updated
	wanted := storedKey{Key: after, hashes: old.hashes}
	if sameRecord(wanted, old) || !sameRecord(wanted, k) {
		k, err := s.editKey(ctx, id, action, edit, false, do)
		s.listBan(ctx, k, err)
		return k, err
	}
	receipt, err := s.log.Mark(ctx, m)
	if err != nil {
		return policy.Key{}, fmt.Errorf("registry: %w", err)
	}
	s.listBan(ctx, after, nil)
	if receipt.Number == 0 {
		return after, ErrNotStored
	}
	after.Version = int64(receipt.Number)
	return after, acknowledge(receipt)
}

// listBan lists a banned key for the pages. If this fails, the next denial lists it.
func (s *Store) listBan(ctx context.Context, k policy.Key, err error) {
	if made(err) && k.Banned.After(s.Now()) {
		s.client.DoMulti(ctx, records.Ban(s.client, k.ID, s.Now(), k.Banned)...)
	}
}

// Unban lifts a key's ban. It writes nothing for a key that is not banned, and fails as
// Update does.
func (s *Store) Unban(ctx context.Context, id string, version int64, edit Edit) (policy.Key, error) {
	k, err := s.Update(ctx, id, version, KeyUnban, edit, func(k *policy.Key) { k.Banned = time.Time{} })
	if made(err) {
		now := s.Now()
		s.client.DoMulti(ctx, records.Ban(s.client, id, now, now)...)
	}
	return k, err
}

// Reset writes into the key's record that what was counted up to now does not count. It
// fails with ErrConflict if the key has another version than edit.
func (s *Store) Reset(ctx context.Context, id string, edit Edit) (policy.Key, error) {
	now, err := s.serverTime(ctx, id)
	if err != nil {
		return policy.Key{}, err
	}
	return s.editKey(ctx, id, KeyReset, edit, false, func(_ *policy.Set, k *storedKey) error {
		if edit.Version > 0 && edit.Version != k.Version {
			return policy.ErrConflict
		}
		k.Reset = now
		return nil
	})
}

// serverTime returns the clock of the server that counts the calls of a subject.
func (s *Store) serverTime(ctx context.Context, id string) (time.Time, error) {
	times, err := s.serverTimes(ctx, []string{id})
	return times[keyspace.BucketOf(id)], err
}

// serverTimes returns, by bucket, the clocks of the servers that count the calls of subjects.
func (s *Store) serverTimes(ctx context.Context, ids []string) (map[keyspace.Bucket]time.Time, error) {
	const script = "local t = redis.call('TIME') return t[1] * 1000000 + t[2]"
	times := map[keyspace.Bucket]time.Time{}
	for _, id := range ids {
		times[keyspace.BucketOf(id)] = time.Time{}
	}
	buckets := slices.Collect(maps.Keys(times))
	commands := make(valkey.Commands, len(buckets))
	for i, b := range buckets {
		commands[i] = s.client.B().Eval().Script(script).Numkeys(1).Key(b.Records()).Build()
	}
	for i, result := range s.client.DoMulti(ctx, commands...) {
		us, err := result.AsInt64()
		if err != nil {
			return nil, fmt.Errorf("registry: read the server's time: %w", err)
		}
		times[buckets[i]] = time.UnixMicro(us).UTC()
	}
	return times, nil
}

// Delete removes a key. Its counts expire. It fails with ErrConflict if the key has another
// version than edit. A key whose record cannot be read can be deleted.
func (s *Store) Delete(ctx context.Context, id string, edit Edit) error {
	if err := edit.Validate(); err != nil {
		return err
	}
	if !validID(id) {
		return policy.ErrNotFound
	}
	receipt, err := s.log.Edit(ctx, edit.change(KeyDelete),
		func(ctx context.Context, r *changes.Reader) ([]changes.Item, error) {
			found, err := r.Get(ctx, id)
			switch {
			case err != nil:
				return nil, err
			case len(found[0].Content) == 0:
				return nil, policy.ErrNotFound
			case edit.Version > 0 && uint64(edit.Version) != found[0].Number:
				return nil, policy.ErrConflict
			}
			return []changes.Item{{Record: id}}, nil
		})
	if err != nil {
		return editError(err)
	}
	return acknowledge(receipt)
}
