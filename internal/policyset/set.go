// Package policyset reads and encodes what both functions read in Valkey: the policy set,
// its mirrors, its copies in each bucket, and the records of keys. Packages
// enforce, registry and journal import it. It decides nothing and writes nothing.
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

// SetID is the policy set's subject in the audit and in the key space.
const SetID = "policy"

// SetKey is the name of the policy set in Valkey: 4 bytes version, then JSON.
var SetKey = keyspace.Record(SetID)

// LoadSet reads the stored policy set. Before the first save it is empty, with version 0.
func LoadSet(ctx context.Context, client valkey.Client) (*policy.Set, error) {
	return setOf(client.Do(ctx, client.B().Get().Key(SetKey).Build()))
}

// setOf decodes the reply to a GET of the policy set.
func setOf(result valkey.ValkeyResult) (*policy.Set, error) {
	record, err := result.AsBytes()
	if valkey.IsValkeyNil(err) {
		return &policy.Set{NextNumber: 1}, nil // before the first save
	}
	if err != nil {
		return nil, fmt.Errorf("policyset: read set: %w", err)
	}
	return DecodeSet(record)
}

// DecodeSet decodes a record of the policy set. It fails with policy.ErrUnreadable; the
// returned set then has only the version, or nothing.
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

// EncodeSet encodes a record of the policy set: 4 bytes version, then text.
func EncodeSet(version int64, text []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(version)), text...)
}

// Mirrors is the number of additional copies of the whole policy set.
const Mirrors = 3

// MirrorKeys has the names of the mirrors. A mirror is CopyFormat, then the policy set's
// record, so that copy.lua can compare versions. The policy set and its mirrors are a
// quarter of the buckets apart, so that no shard of several equal ones has them all.
var MirrorKeys = func() (keys [Mirrors]string) {
	for i := range keys {
		b := keyspace.BucketOf(SetID) + keyspace.Bucket((i+1)*keyspace.Buckets/(Mirrors+1))
		keys[i] = b.Name(SetID + ":c")
	}
	return keys
}()

// NewestSet reads the stored policy set and its mirrors. It returns the stored set and
// the newest of all, which differ after the set's shard lost a save that a mirror has. A
// mirror that does not answer counts as lost; otherwise one unreachable shard would hide
// the set on another.
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
	if valkey.IsValkeyNil(err) { // the mirror was lost after its version was read
		return NewestSet(ctx, client)
	}
	if err != nil || HeadVersion(mirror) == 0 {
		return nil, nil, fmt.Errorf("policyset: read mirror of the set: %w",
			errors.Join(err, policy.ErrUnreadable))
	}
	newest, err = DecodeSet(mirror[1:])
	return newest, stored, err
}

// HeadVersion returns the version of a copy or mirror; 0 if it is neither.
func HeadVersion(head []byte) int64 {
	if len(head) < 5 || head[0] != CopyFormat {
		return 0
	}
	return int64(binary.BigEndian.Uint32(head[1:]))
}

// CopyFormat is the first byte of a bucket's copy, which tells a check whether a newer
// policy set is in force:
//
//	1 byte   format, 2
//	4 bytes  version of the policy set
//	2 bytes  greatest number of a plan so far
//
// Integers are big-endian.
const CopyFormat = 2

// CopyHead is the length of the part of a copy that checks compare.
const CopyHead = 5

// CopyKey returns the name of a bucket's copy.
func CopyKey(b keyspace.Bucket) string { return b.Name("p") }
