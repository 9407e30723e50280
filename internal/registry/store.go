// Package registry edits keys and the policy set. Every edit and its audit entry are one
// atomic step in Valkey. A save of the set writes the set, its mirrors and a copy of the
// plans in every bucket, and is acknowledged when all are written. Sync makes them equal
// again after a failover. Only the admin function and tools import the package; the check
// function must not.
package registry

import (
	"context"
	_ "embed" // the script
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/records"
	"tidegate/internal/store/keyspace"
)

// Store reads and writes the policy set and the keys for the admin function. It is safe
// for concurrent use.
type Store struct {
	client   valkey.Client
	pepper   apikey.Pepper
	subjects apikey.Key
	audit    *audit.Log
	Now      func() time.Time

	// ForeignKeys lets Create take values that another system made. It is set before the
	// first use.
	ForeignKeys bool
}

// NewStore returns a Store on a connected client.
func NewStore(client valkey.Client, pepper apikey.Pepper) *Store {
	return &Store{client: client, pepper: pepper, subjects: apikey.NewKey(pepper),
		audit: audit.NewLog(client, audit.NewKey(pepper)), Now: time.Now}
}

// TokenCaller returns the id that checks give to the caller with this name at a token
// issuer.
func (s *Store) TokenCaller(issuer, name string) string { return s.subjects.Token(issuer, name) }

// AddressCaller returns the id that checks give to clients whose address has this prefix.
func (s *Store) AddressCaller(prefix netip.Prefix) string { return s.subjects.Address(prefix) }

// Audit returns the log that records every change.
func (s *Store) Audit() *audit.Log { return s.audit }

//go:embed lua/edit.lua
var editLua string

var editScript = sync.OnceValue(func() *valkey.Lua {
	return valkey.NewLuaScript(audit.AppendFunction + editLua)
})

// recordEdit is a change of one record: of a key, of the policy set, or of a group.
type recordEdit struct {
	id        string    // of the subject
	key       string    // name of the record in Valkey
	versionAt int       // position of the version in the record, from 1
	expected  int64     // current version; 0 if there must be no record, or if found is set
	found     []byte    // expected bytes from versionAt on, instead of expected
	record    []byte    // empty to delete the record
	reset     time.Time // that the group's resetKey gets in the same step; zero for none
	entry     audit.Entry
}

// write makes the change and appends its audit entry, in one atomic step. With
// ErrConflict it returns the newer record.
func (s *Store) write(ctx context.Context, e recordEdit) (newer []byte, err error) {
	bucket := keyspace.BucketOf(e.id)
	e.entry.Subject, e.entry.Time = e.id, s.Now().UTC()
	if err := (Edit{Reason: e.entry.Reason}).Validate(); err != nil {
		return nil, err
	}
	if e.entry.Action == "" || e.entry.By.Name == "" {
		return nil, fmt.Errorf("registry: write %s: no action or actor for the audit", e.id)
	}
	expected := string(e.found)
	if e.expected > 0 {
		expected = valkey.BinaryString(binary.BigEndian.AppendUint32(nil, uint32(e.expected)))
	}
	step := audit.Step{
		Bucket: bucket,
		Entry:  e.entry,
		// an edit that takes rights from a caller does not wait for the journal
		Urgent: e.entry.Action == audit.KeyRevoke || e.entry.Action == audit.KeyBan,
		Change: &audit.Change{Key: e.key, Record: e.record},
	}
	keys := slices.Concat([]string{e.key}, audit.Names(bucket))
	reset := ""
	if !e.reset.IsZero() {
		keys = append(keys, resetKey(e.id))
		reset = strconv.FormatInt(e.reset.UnixMicro(), 10)
	}
	step.Run = func(sealed []string) (stale bool, err error) {
		args := append([]string{expected, strconv.Itoa(e.versionAt),
			valkey.BinaryString(e.record), reset, resetLife}, sealed...)
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

// put writes k in place of old. Without an ID, old stands for no key.
func (s *Store) put(ctx context.Context, old, k policy.Key, hashes policyset.Secrets, action string,
	edit Edit) error {
	record, err := policyset.EncodeRecord(k, hashes)
	if err != nil {
		return err
	}
	if err := edit.Validate(); err != nil { // before the lists change
		return err
	}
	// The lists come first: readers remove an entry without a record, but nobody would
	// find a record without an entry to revoke it.
	if err := s.addToIndex(ctx, k); err != nil {
		return err
	}
	entry := edit.entry(action, k.Name, k.Version)
	if entry.After, err = json.Marshal(k); err != nil {
		return fmt.Errorf("registry: write key: %w", err)
	}
	if old.ID != "" {
		if entry.Before, err = json.Marshal(old); err != nil {
			return fmt.Errorf("registry: write key: %w", err)
		}
	}
	e := recordEdit{
		id: k.ID, key: keyspace.Record(k.ID), versionAt: policyset.VersionAt + 1,
		expected: old.Version, record: record, entry: entry,
	}
	switch _, err := s.write(ctx, e); {
	case errors.Is(err, policy.ErrConflict) || errors.Is(err, policy.ErrNotFound):
		s.removeFromIndex(ctx, k)
		return err
	case err != nil: // the record may have been written, or may be written later
		return err
	}
	s.updateIndex(ctx, old, k)
	if k.Banned.After(s.Now()) { // if this fails, the next denial lists the key
		s.client.DoMulti(ctx, records.Ban(s.client, k.ID, s.Now(), k.Banned)...)
	}
	return nil
}

// doAll runs commands in one flush and returns the first error.
func (s *Store) doAll(ctx context.Context, commands ...valkey.Completed) error {
	for _, result := range s.client.DoMulti(ctx, commands...) {
		if err := result.Error(); err != nil {
			return err
		}
	}
	return nil
}

// invalid returns an *InvalidError about one field.
func invalid(field, problem string) error {
	return policy.Invalid([]policy.FieldError{{Field: field, Message: problem}})
}
