package journal

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/audit"
	"tidegate/internal/policyset"
	"tidegate/internal/registry"
	"tidegate/internal/store/keyspace"
)

// maxAdoptions bounds how often a bucket is read that changes meanwhile.
const maxAdoptions = 10

// adopt stores what Valkey has of a bucket as its checkpoint, and the entries before the
// item as segments, unless there is a checkpoint that the item stands behind.
func (j *Journal) adopt(ctx context.Context, item audit.Item) error {
	b := item.Bucket
	s, err := j.checkpointed(ctx, b)
	if err != nil {
		return err
	}
	if s.number >= item.Number || bytes.Equal(s.hash, item.Previous) {
		return nil
	}
	for range maxAdoptions {
		before, err := j.client.Do(ctx, j.client.B().Get().Key(audit.HeadKey(b)).Build()).AsBytes()
		if err != nil {
			return fmt.Errorf("read head: %w", err)
		}
		s, err := j.stored(ctx, b)
		if err != nil {
			return err
		}
		after, err := j.client.Do(ctx, j.client.B().Get().Key(audit.HeadKey(b)).Build()).AsBytes()
		if err != nil {
			return fmt.Errorf("read head: %w", err)
		}
		if !bytes.Equal(before, after) {
			continue
		}
		number, hash, ok := j.key.Position(b, after)
		if !ok {
			return fmt.Errorf("%w: bucket %d has a head that was not made here", audit.ErrBehind, b)
		}
		s.position = position{number, bytes.Clone(hash)}
		s.taken = time.Now().UTC()
		if err := j.keep(ctx, b, item.Previous); err != nil {
			return err
		}
		return j.save(ctx, s)
	}
	return fmt.Errorf("bucket %d changes faster than it is read", b)
}

// stored reads the records that Valkey has of a bucket.
func (j *Journal) stored(ctx context.Context, b keyspace.Bucket) (*state, error) {
	var names []name
	err := registry.EachID(ctx, j.client, func(id string) {
		if keyspace.BucketOf(id) == b {
			names = append(names, name{key: keyspace.Record(id)})
		}
	})
	if err != nil {
		return nil, err
	}
	if keyspace.BucketOf(policyset.SetID) == b {
		names = append(names, name{key: policyset.SetKey})
	}
	s := emptyState(b)
	commands := make(valkey.Commands, len(names))
	for i, n := range names {
		commands[i] = j.client.B().Get().Key(n.key).Build()
	}
	if len(commands) > 0 {
		for i, result := range j.client.DoMulti(ctx, commands...) {
			content, err := result.AsBytes()
			switch {
			case valkey.IsValkeyNil(err):
			case err != nil:
				return nil, fmt.Errorf("read records: %w", err)
			default:
				s.records[names[i]] = content
			}
		}
	}
	if keyspace.BucketOf(keyspace.TokensID) != b {
		return s, nil
	}
	tokens, err := j.client.Do(ctx, j.client.B().Hgetall().Key(keyspace.Tokens).Build()).AsStrMap()
	if err != nil {
		return nil, fmt.Errorf("read tokens: %w", err)
	}
	for id, content := range tokens {
		s.records[name{keyspace.Tokens, id}] = []byte(content)
	}
	return s, nil
}

// idOf is the id of the key whose record lies there; empty for another record.
func (n name) idOf() string {
	if n.field != "" || n.key == policyset.SetKey {
		return ""
	}
	_, id, _ := strings.Cut(n.key, "}:")
	id, isRecord := strings.CutSuffix(id, ":c")
	if !isRecord {
		return ""
	}
	return id
}
