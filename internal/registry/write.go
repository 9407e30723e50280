package registry

import (
	"context"
	_ "embed" // the script
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/usage/statelist"
)

//go:embed lua/edit.lua
var editLua string

var editScript = sync.OnceValue(func() *valkey.Lua {
	return valkey.NewLuaScript(audit.AppendFunction + editLua)
})

// write is a change of one record.
type write struct {
	id        string // of the subject
	key       string
	versionAt int      // where the version stands in the record, from 1
	expected  int64    // version; 0 when there must be no record, unless its bytes are in found
	found     []byte   // in place of expected: how the record begins
	record    []byte   // empty to delete it
	forget    []string // keys that go with the edit
	entry     audit.Entry
}

// urgent reports whether an action takes a right from a caller. Such actions are made
// even while the journal is away.
func urgent(action string) bool { return action == audit.KeyRevoke || action == audit.KeyBan }

// write makes the change and appends its audit entry, in one step. With ErrConflict it
// returns the newer record.
func (s *Store) write(ctx context.Context, w write) (newer []byte, err error) {
	bucket := keyspace.BucketOf(w.id)
	w.entry.Subject, w.entry.Time = w.id, s.Now().UTC()
	if err := (Edit{Reason: w.entry.Reason}).Validate(); err != nil {
		return nil, err
	}
	if w.entry.Action == "" || w.entry.By.Name == "" {
		return nil, fmt.Errorf("registry: write %s: no action or actor for the audit", w.id)
	}
	expected := string(w.found)
	if w.expected > 0 {
		expected = valkey.BinaryString(binary.BigEndian.AppendUint32(nil, uint32(w.expected)))
	}
	step := audit.Step{
		Bucket: bucket, Entry: w.entry, Urgent: urgent(w.entry.Action),
		Change: &audit.Change{Key: w.key, Record: w.record},
	}
	keys := slices.Concat([]string{w.key}, audit.Names(bucket), w.forget)
	step.Run = func(sealed []string) (stale bool, err error) {
		args := append([]string{expected, strconv.Itoa(w.versionAt),
			valkey.BinaryString(w.record)}, sealed...)
		reply, err := editScript().Exec(ctx, s.client, keys, args).ToMessage()
		switch {
		case valkey.IsValkeyNil(err):
			return false, policy.ErrNotFound
		case err != nil:
			return false, fmt.Errorf("registry: write: %w", err)
		}
		if done, notNumber := reply.AsInt64(); reply.IsInt64() && notNumber == nil {
			return done == 0, nil // 0: another entry of the bucket came first
		}
		if newer, err = reply.AsBytes(); err != nil {
			return false, fmt.Errorf("registry: write: %w", err)
		}
		return false, policy.ErrConflict
	}
	err = s.audit.Commit(ctx, step)
	return newer, err
}

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
		return fmt.Errorf("registry: write key: %w", err)
	}
	if old.ID != "" {
		if entry.Before, err = json.Marshal(old); err != nil {
			return fmt.Errorf("registry: write key: %w", err)
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
