// Package policyset reads and encodes what both functions read in Valkey: the policy set
// and the records of keys. Packages enforce and registry import it. It decides nothing and
// writes nothing.
package policyset

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
)

// LoadSet reads the newest policy set of the two buckets that have it, in one flush. A
// bucket that does not answer counts as lost, unless neither answers: otherwise one
// unreachable shard would hide the set on the other. LoadSet fails with policy.ErrMissing if
// none has it, and with policy.ErrUnreadable; the returned set then has only the version.
func LoadSet(ctx context.Context, client valkey.Client) (*policy.Set, error) {
	var commands valkey.Commands
	for _, b := range keyspace.PolicyBuckets {
		read := client.B().Hget().Key(b.Records()).Field(keyspace.RecordField(keyspace.PolicyID))
		commands = append(commands, read.Build())
	}
	var newest uint64
	var content []byte
	var failed error
	for _, result := range client.DoMulti(ctx, commands...) {
		text, err := result.ToString()
		if err != nil && !valkey.IsValkeyNil(err) {
			failed = err
		}
		if version, found := Stored(text); version > newest {
			newest, content = version, found
		}
	}
	if newest == 0 && failed != nil {
		return nil, fmt.Errorf("policyset: read set: %w", failed)
	}
	if newest == 0 {
		return nil, policy.ErrMissing
	}
	return DecodeSet(newest, content)
}

// DecodeSet decodes the record of the policy set. version is the number of its last change.
// It fails with policy.ErrUnreadable; the returned set then has only the version.
func DecodeSet(version uint64, content []byte) (*policy.Set, error) {
	s := &policy.Set{}
	if err := json.Unmarshal(content, s); err != nil {
		return &policy.Set{Version: int64(version)}, fmt.Errorf("%w: %w", policy.ErrUnreadable, err)
	}
	s.Version = int64(version)
	return s, nil
}

// EncodeSet encodes the record of the policy set, without its version.
func EncodeSet(s *policy.Set) ([]byte, error) {
	unversioned := *s
	unversioned.Version = 0
	content, err := json.Marshal(unversioned)
	if err != nil {
		return nil, fmt.Errorf("policyset: encode set: %w", err)
	}
	return content, nil
}

// GroupReset returns when a group was last reset, by its record's content; 0 for never.
// The content is the microseconds since 1970, a space and the group's name.
func GroupReset(content []byte) (reset int64, name string) {
	text, name, _ := strings.Cut(string(content), " ")
	reset, _ = strconv.ParseInt(text, 10, 64)
	return reset, name
}

// EncodeGroup encodes the record of a group.
func EncodeGroup(reset int64, name string) []byte {
	return []byte(strconv.FormatInt(reset, 10) + " " + name)
}
