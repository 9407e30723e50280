package policy

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/audit"
	"tidegate/internal/keyspace"
)

// SetID is the subject of the Set in the audit and in the key space.
const SetID = "policy"

// The Set lies under setKey: 4 bytes version and JSON.
var setKey = keyspace.Record(SetID)

// emptySet is in force until one is saved.
func emptySet() *Set { return &Set{NextNumber: 1} }

func loadSet(ctx context.Context, client valkey.Client) (*Set, error) {
	return setOf(client.Do(ctx, client.B().Get().Key(setKey).Build()))
}

func setOf(result valkey.ValkeyResult) (*Set, error) {
	record, err := result.AsBytes()
	if valkey.IsValkeyNil(err) {
		return emptySet(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("policy: read set: %w", err)
	}
	return decodeSet(record)
}

// decodeSet returns of a Set that cannot be read its version alone.
func decodeSet(record []byte) (*Set, error) {
	if len(record) < 4 {
		return &Set{}, ErrUnreadable
	}
	s, version := &Set{}, int64(binary.BigEndian.Uint32(record))
	if err := json.Unmarshal(record[4:], s); err != nil {
		return &Set{Version: version}, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	s.Version = version
	return s, nil
}

// Set returns the Set in force. Before the first save it has version 0 and no plans.
func (s *Store) Set(ctx context.Context) (*Set, error) {
	set, _, err := newestSet(ctx, s.client)
	return set, err
}

// SaveSet replaces the Set. next.Version is the one that the edit was based on: when it is no longer current nothing is written, and the current Set
// comes back with ErrConflict. New plans get numbers. Bad input is an *InvalidError. Every check that starts after it returns without an error obeys
// the new Set. With ErrUnfinished the Set is saved, but not in force everywhere.
func (s *Store) SaveSet(ctx context.Context, next Set, edit Edit) (*Set, error) {
	found, err := s.spread(ctx)
	if err != nil {
		return nil, err
	}
	current, stored, err := newestSet(ctx, s.client)
	if err != nil {
		return nil, err
	}
	if current.Version != next.Version {
		return current, ErrConflict
	}
	basis := *current
	found.raise(&basis, current)
	saved, err := numbered(next, &basis)
	if err != nil {
		return nil, err
	}
	if err := s.checkDropped(ctx, saved, current); err != nil {
		return nil, err
	}
	saved.Version, saved.Lapses = basis.Version, current.lapsesAfter(saved, s.now())
	newer, err := s.writeSet(ctx, saved, current, stored.Version, audit.Entry{By: edit.By, Action: "policy.save", Reason: edit.Reason})
	if err != nil {
		return newer, err
	}
	return saved, s.distribute(ctx, saved)
}

// writeSet puts next into the Set's record, which must have the version stored. before is what the audit is told that it replaces.
func (s *Store) writeSet(ctx context.Context, next, before *Set, stored int64, entry audit.Entry) (newer *Set, err error) {
	entry.Version = next.Version
	if entry.After, err = json.Marshal(next); err != nil {
		return nil, fmt.Errorf("policy: save set: %w", err)
	}
	if n := len(entry.After); n > maxSetBytes {
		return nil, invalid([]FieldError{{"routes", fmt.Sprintf("the whole set takes %d bytes: must be at most %d", n, maxSetBytes)}})
	}
	if entry.Before, err = json.Marshal(before); err != nil {
		return nil, fmt.Errorf("policy: save set: %w", err)
	}
	w := write{id: SetID, key: setKey, versionAt: 1, expected: stored, record: versioned(next.Version, entry.After), entry: entry}
	record, err := s.write(ctx, w)
	if errors.Is(err, ErrConflict) {
		newer, decodeErr := decodeSet(record)
		return newer, errors.Join(err, decodeErr)
	}
	return nil, err
}

func versioned(version int64, text []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(version)), text...)
}

// checkDropped refuses to drop a plan that keys have.
func (s *Store) checkDropped(ctx context.Context, next, current *Set) error {
	for _, p := range current.Plans {
		if _, kept := next.Numbered(p.Number); kept {
			continue
		}
		used, err := s.inPlan(ctx, current, p.Number)
		if err != nil {
			return fmt.Errorf("policy: save set: %w", err)
		}
		if !used {
			continue
		}
		n, err := s.Count(ctx, Query{Plan: p.Number})
		if err != nil {
			return fmt.Errorf("policy: save set: %w", err)
		}
		return invalid([]FieldError{{"plans", fmt.Sprintf("plan %q has %d keys: give them another plan first", p.Name, n)}})
	}
	return nil
}

// PlanCounts returns how many keys each plan has, by the plan's number. It counts places in lists, of which List drops those that an interrupted edit
// left behind.
func (s *Store) PlanCounts(ctx context.Context, set *Set) (map[int]int64, error) {
	commands := make(valkey.Commands, len(set.Plans))
	for i, p := range set.Plans {
		commands[i] = s.client.B().Zcard().Key(planIndexKey(p.Number)).Build()
	}
	counts := make(map[int]int64, len(commands))
	if len(commands) == 0 {
		return counts, nil
	}
	for i, result := range s.client.DoMulti(ctx, commands...) {
		n, err := result.AsInt64()
		if err != nil {
			return nil, fmt.Errorf("policy: count keys: %w", err)
		}
		counts[set.Plans[i].Number] = n
	}
	return counts, nil
}

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

// write makes the change and appends its audit entry, in one step. With ErrConflict it returns the newer record.
func (s *Store) write(ctx context.Context, w write) (newer []byte, err error) {
	bucket := keyspace.BucketOf(w.id)
	w.entry.Subject, w.entry.Time = w.id, s.now().UTC()
	if err := (Edit{Reason: w.entry.Reason}).validate(); err != nil {
		return nil, err
	}
	if w.entry.Action == "" || w.entry.By.Name == "" {
		return nil, fmt.Errorf("policy: write %s: no action or actor for the audit", w.id)
	}
	expected := string(w.found)
	if w.expected > 0 {
		expected = valkey.BinaryString(binary.BigEndian.AppendUint32(nil, uint32(w.expected)))
	}
	keys := slices.Concat([]string{w.key}, audit.Names(bucket), w.forget)
	for {
		sealed, err := s.audit.SealNext(ctx, bucket, w.entry)
		if err != nil {
			return nil, err
		}
		args := append([]string{expected, strconv.Itoa(w.versionAt), valkey.BinaryString(w.record)}, sealed.Args()...)
		reply, err := editScript().Exec(ctx, s.client, keys, args).ToMessage()
		switch {
		case valkey.IsValkeyNil(err):
			return nil, ErrNotFound
		case err != nil:
			return nil, fmt.Errorf("policy: write: %w", err)
		}
		done, notNumber := reply.AsInt64()
		if reply.IsInt64() && notNumber == nil {
			if done == 1 {
				return nil, nil
			}
			continue // another entry of the bucket came first
		}
		if newer, err = reply.AsBytes(); err != nil {
			return nil, fmt.Errorf("policy: write: %w", err)
		}
		return newer, ErrConflict
	}
}
