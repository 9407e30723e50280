// Package policyset reads and encodes what lies in Valkey and both functions know: the
// policy set, its mirrors, the copies of its plans in each bucket, and the records of
// keys. Package enforce and package registry import it; it makes no decision and writes
// nothing.
package policyset

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
)

// SetID is the subject of the Set in the audit and in the key space.
const SetID = "policy"

// SetKey names the set in Valkey: 4 bytes version and JSON.
var SetKey = keyspace.Record(SetID)

// emptySet is in force until one is saved.
func emptySet() *policy.Set { return &policy.Set{NextNumber: 1} }

// LoadSet reads the set as it is stored. Before the first save it is empty, with version
// 0.
func LoadSet(ctx context.Context, client valkey.Client) (*policy.Set, error) {
	return setOf(client.Do(ctx, client.B().Get().Key(SetKey).Build()))
}

func setOf(result valkey.ValkeyResult) (*policy.Set, error) {
	record, err := result.AsBytes()
	if valkey.IsValkeyNil(err) {
		return emptySet(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("policy: read set: %w", err)
	}
	return DecodeSet(record)
}

// DecodeSet returns of a Set that cannot be read its version alone.
func DecodeSet(record []byte) (*policy.Set, error) {
	if len(record) < 4 {
		return &policy.Set{}, policy.ErrUnreadable
	}
	s, version := &policy.Set{}, int64(binary.BigEndian.Uint32(record))
	if err := json.Unmarshal(record[4:], s); err != nil {
		return &policy.Set{Version: version}, fmt.Errorf("%w: %w", policy.ErrUnreadable, err)
	}
	s.Version = version
	return s, nil
}

// Versioned is a record of the set: 4 bytes version, then its text.
func Versioned(version int64, text []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(version)), text...)
}

// Mirrors is how many copies of the whole set lie beside it.
const Mirrors = 3

// MirrorKeys name what repeats the Set: copyFormat, then the Set's record, so that
// copy.lua says which is newer. They and the Set lie a quarter of the buckets apart, so
// that no shard of several equal ones has them all.
var MirrorKeys = func() (keys [Mirrors]string) {
	for i := range keys {
		b := keyspace.BucketOf(SetID) + keyspace.Bucket((i+1)*keyspace.Buckets/(Mirrors+1))
		keys[i] = b.Name(SetID + ":c")
	}
	return keys
}()

// NewestSet reads the Set as it is stored, and as it was last saved: that is another one
// when the Set's shard lost it and a mirror did not. A mirror that does not answer counts
// as lost, or one shard that is away would hide the Set on another.
func NewestSet(ctx context.Context, client valkey.Client) (newest, stored *policy.Set, err error) {
	commands := valkey.Commands{client.B().Get().Key(SetKey).Build()}
	for _, key := range MirrorKeys {
		commands = append(commands, client.B().Getrange().Key(key).Start(0).End(4).Build())
	}
	results := client.DoMulti(ctx, commands...)
	if stored, err = setOf(results[0]); err != nil {
		return nil, nil, err
	}
	version, at := stored.Version, ""
	for i, key := range MirrorKeys {
		if head, err := results[i+1].AsBytes(); err == nil && HeadVersion(head) > version {
			version, at = HeadVersion(head), key
		}
	}
	if at == "" {
		return stored, stored, nil
	}
	mirror, err := client.Do(ctx, client.B().Get().Key(at).Build()).AsBytes()
	if err != nil || HeadVersion(mirror) == 0 {
		return nil, nil, fmt.Errorf("policy: read mirror of the set: %w",
			errors.Join(err, policy.ErrUnreadable))
	}
	newest, err = DecodeSet(mirror[1:])
	return newest, stored, err
}

// HeadVersion reads the version of a copy or a mirror; 0 when it is none.
func HeadVersion(head []byte) int64 {
	if len(head) < 5 || head[0] != CopyFormat {
		return 0
	}
	return int64(binary.BigEndian.Uint32(head[1:]))
}

// CopyFormat is the first byte of a copy, which is what find.lua reads of the Set:
//
//	1 byte   format, 1
//	4 bytes  version of the Set
//	2 bytes  greatest number of a plan
//	per number from 1: 4 bytes where its entry starts, 2 bytes length; zeros when there is no such plan
//	entries: of the plan's limits, then of its candidate when it has one (record.go says what an entry is)
//
// Integers are big-endian.
const CopyFormat = 1

// CopyKey is the name of a bucket's copy of the plans.
func CopyKey(b keyspace.Bucket) string { return b.Name("p") }
