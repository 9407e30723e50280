package registry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
)

// Edit says who changes something and why.
type Edit struct {
	By     audit.Actor
	Reason string // up to 200 characters; may be empty
	Job    string // id of the bulk job that the change is part of; empty for none
	// Version is the version that Reset and Delete are based on; 0 for any. Other changes
	// get it as an argument.
	Version int64
}

// Validate reports a Reason that is too long or not printable.
func (e Edit) Validate() error {
	if e.Reason == "" {
		return nil
	}
	if problem := policy.TextProblem(e.Reason, policy.MaxReasonLen); problem != "" {
		return invalid("reason", problem)
	}
	return nil
}

// entry returns the audit entry of an edit of a subject with this name. version is the
// subject's after the edit.
func (e Edit) entry(action, name string, version int64) audit.Entry {
	return audit.Entry{By: e.By, Action: action, Name: name, Reason: e.Reason, Job: e.Job, Version: version}
}

// Create stores a new API key under a fresh id and returns it with its secret, which
// cannot be read again. The id of a key with a given value is derived from the value. If
// that key exists, the returned key has its id and the error is ErrConflict. Bad input is
// an *InvalidError.
func (s *Store) Create(ctx context.Context, n policy.NewKey, edit Edit) (policy.Key, apikey.Secret, error) {
	set, err := s.Set(ctx)
	if err != nil {
		return policy.Key{}, apikey.Secret{}, err
	}
	now := s.Now().UTC().Truncate(time.Second)
	k := policy.Key{
		Kind:    policy.APIKey,
		Name:    n.Name,
		Env:     n.Env,
		Foreign: n.Value != "",
		Tags:    n.Tags,
		Group:   n.Group,
		Opens:   n.Opens,
		Plan:    n.Plan,
		Expires: n.Expires,
		Billing: n.Billing,
		Status:  cmp.Or(n.Status, policy.Active),
		Version: 1,
		Created: now,
		Updated: now,
	}
	if err := k.Validate(set, policy.Key{}); err != nil {
		return policy.Key{}, apikey.Secret{}, err
	}
	secret, err := s.newSecret(n)
	if err != nil {
		return policy.Key{}, apikey.Secret{}, err
	}
	k.ID = secret.ID()
	return k, secret, s.put(ctx, policy.Key{}, k, policyset.Secrets{Current: s.pepper.Hash(secret)},
		audit.KeyCreate, edit)
}

// Adopt stores a record for a caller without an API key, so that it can have an override
// or a ban. id is the id that checks give to the caller of a token or an address. name is
// shown to people. Adopt fails with ErrConflict if there is a record.
func (s *Store) Adopt(ctx context.Context, kind policy.Kind, id, name string, o *policy.Override,
	edit Edit) (policy.Key, error) {
	if kind == policy.APIKey || !validID(id) {
		return policy.Key{}, invalid("id",
			"must be the id of a caller with a token or an address, as checks report it")
	}
	set, err := s.Set(ctx)
	if err != nil {
		return policy.Key{}, err
	}
	now := s.Now().UTC().Truncate(time.Second)
	k := policy.Key{ID: id, Kind: kind, Name: name, Status: policy.Active, Override: o, Version: 1,
		Created: now, Updated: now}
	if err := k.Validate(set, policy.Key{}); err != nil {
		return policy.Key{}, err
	}
	return k, s.put(ctx, policy.Key{}, k, policyset.Secrets{}, audit.KeyAdopt, edit)
}

// Update changes a key: change gets the current one and may alter Name, Tags, Plan or
// PlanNumber, Status, Override, Expires and Banned. A changed PlanNumber decides, whatever
// the name Plan. Every check that starts after Update returns
// obeys; counts stay. version is the one that the edit was based on. If it is no longer
// current, nothing is written, and Update returns the current key with ErrConflict. If
// change alters nothing, nothing is written and the key is returned as it is. Bad input
// is an *InvalidError. action names the change in the audit ("key.override").
func (s *Store) Update(ctx context.Context, id string, version int64, action string, edit Edit,
	change func(*policy.Key)) (policy.Key, error) {
	old, err := s.loadVersion(ctx, id, version)
	if err != nil {
		return old.Key, err
	}
	k := old
	change(&k.Key)
	k.ID, k.Kind, k.Env, k.Created, k.Grace = old.ID, old.Kind, old.Env, old.Created, old.Grace
	k.Foreign = old.Foreign
	if err := usePlanNumber(&k, old.PlanNumber); err != nil {
		return policy.Key{}, err
	}
	if err := k.Validate(k.set, old.Key); err != nil {
		return policy.Key{}, err
	}
	if sameRecord(old, k) {
		return old.Key, nil
	}
	return s.replace(ctx, old.Key, k, action, edit)
}

// usePlanNumber gives a key the plan with its number if that number is not before.
func usePlanNumber(k *storedKey, before int) error {
	if k.PlanNumber == before {
		return nil
	}
	p, found := k.set.PlanByNumber(k.PlanNumber)
	if !found && k.PlanNumber > 0 {
		return invalid("plan", "was deleted since: choose another")
	}
	k.Plan = p.Name
	return nil
}

// loadVersion reads the key that an edit was based on. If another version is current, it
// returns that key with ErrConflict.
func (s *Store) loadVersion(ctx context.Context, id string, version int64) (storedKey, error) {
	k, err := s.load(ctx, id)
	switch {
	case err != nil:
		return storedKey{}, err
	case k.Version != version:
		return k, policy.ErrConflict
	}
	return k, nil
}

// sameRecord reports whether two versions of a key have the same record.
func sameRecord(a, b storedKey) bool {
	before, err := policyset.EncodeRecord(a.Key, a.hashes)
	if err != nil {
		return false
	}
	after, err := policyset.EncodeRecord(b.Key, b.hashes)
	return err == nil && bytes.Equal(before, after)
}

// replace writes k as the next version of old. With ErrConflict it returns the current key.
func (s *Store) replace(ctx context.Context, old policy.Key, k storedKey, action string,
	edit Edit) (policy.Key, error) {
	k.Version = old.Version + 1
	k.Updated = s.Now().UTC().Truncate(time.Second)
	err := s.put(ctx, old, k.Key, k.hashes, action, edit)
	if errors.Is(err, policy.ErrConflict) {
		current, _, getErr := s.get(ctx, k.set, old.ID)
		return current, errors.Join(err, getErr)
	}
	return k.Key, err
}

// Unban lifts a key's ban. The audit entry contains the end of the ban. Unban writes
// nothing for a key that is not banned, and fails as Update does.
func (s *Store) Unban(ctx context.Context, id string, version int64, edit Edit) (policy.Key, error) {
	k, err := s.loadVersion(ctx, id, version)
	if err != nil || k.Banned.IsZero() {
		return k.Key, err
	}
	old := k.Key
	k.Banned = time.Time{}
	return s.replace(ctx, old, k, audit.KeyUnban, edit)
}

// Reset writes into the key's record that what was counted up to now does not count. It
// fails with ErrConflict, and writes nothing, if the key was edited meanwhile or has
// another version than edit.
func (s *Store) Reset(ctx context.Context, id string, edit Edit) (policy.Key, error) {
	k, err := s.load(ctx, id)
	if err == nil && edit.Version > 0 && edit.Version != k.Version {
		return k.Key, policy.ErrConflict
	}
	if err != nil {
		return policy.Key{}, err
	}
	old := k.Key
	if k.Reset, err = s.serverTime(ctx, id); err != nil {
		return policy.Key{}, err
	}
	return s.replace(ctx, old, k, audit.KeyReset, edit)
}

// serverTime returns the clock of the server that counts the calls of a subject.
func (s *Store) serverTime(ctx context.Context, id string) (time.Time, error) {
	const script = "local t = redis.call('TIME') return t[1] * 1000000 + t[2]"
	us, err := s.client.Do(ctx,
		s.client.B().Eval().Script(script).Numkeys(1).Key(keyspace.Record(id)).Build()).AsInt64()
	if err != nil {
		return time.Time{}, fmt.Errorf("registry: read the server's time: %w", err)
	}
	return time.UnixMicro(us).UTC(), nil
}

// Delete removes a key and its entries in the lists. Its counts expire. It fails with
// ErrConflict if the key has another version than edit.
func (s *Store) Delete(ctx context.Context, id string, edit Edit) error {
	k, err := s.load(ctx, id)
	if errors.Is(err, policy.ErrUnreadable) {
		return s.deleteUnreadable(ctx, id, edit)
	}
	if err == nil && edit.Version > 0 && edit.Version != k.Version {
		return policy.ErrConflict
	}
	if err != nil {
		return err
	}
	entry := edit.entry(audit.KeyDelete, k.Name, k.Version+1)
	if entry.Before, err = json.Marshal(k.Key); err != nil {
		return fmt.Errorf("registry: delete key: %w", err)
	}
	e := recordEdit{
		id: id, key: keyspace.Record(id), versionAt: policyset.VersionAt + 1, expected: k.Version,
		entry: entry,
	}
	if _, err := s.write(ctx, e); err != nil {
		return err
	}
	s.updateIndex(ctx, k.Key, policy.Key{})
	return nil
}

// deleteUnreadable deletes a key whose record cannot be decoded. Its name, lists and
// version are unknown; List drops entries without a record.
func (s *Store) deleteUnreadable(ctx context.Context, id string, edit Edit) error {
	record, err := s.client.Do(ctx, s.getRecord(id)).AsBytes()
	if err != nil && !valkey.IsValkeyNil(err) {
		return fmt.Errorf("registry: delete key: %w", err)
	}
	_, err = s.write(ctx, recordEdit{
		id: id, key: keyspace.Record(id), versionAt: 1, found: record,
		entry: edit.entry(audit.KeyDelete, "", 0),
	})
	return err
}
