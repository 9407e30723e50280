package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/audit"
	"tidegate/internal/policyset"
	"tidegate/internal/registry"
	"tidegate/internal/store/keyspace"
)

// maxAdoptions bounds how often a bucket is read that changes meanwhile.
const maxAdoptions = 10

// adopt stores what Valkey has of a bucket, with the item, unless the journal has what the
// item stands behind.
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
		head, err := j.head(ctx, b)
		switch {
		case err != nil:
			return err
		case len(head) == 0:
			return fmt.Errorf("bucket %d has no head", b)
		}
		ids, err := j.idsOf(ctx, b)
		if err != nil {
			return err
		}
		if done, err := j.adoptAt(ctx, b, head, ids[b]); err != nil || done {
			return err
		}
	}
	return fmt.Errorf("bucket %d changes faster than it is read", b)
}

// adoptOlder adopts each bucket whose newest entry the journal lacks: that is from before
// there was a journal, or from a release without one. A bucket that has changed since
// found was read is left for the next time.
func (j *Journal) adoptOlder(ctx context.Context, found []mark) error {
	var mu sync.Mutex
	var lacking []keyspace.Bucket
	var failed error
	each(workers, keyspace.All(), func(b keyspace.Bucket) {
		at, ok := j.positionOf(b, found[b].head)
		if !ok || found[b].unshipped > 0 || at.number <= j.known(b).number {
			return
		}
		last, err := j.endsAt(ctx, b, at)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("journal: find what is older: %w", err))
		}
		if last && at.number > j.known(b).number {
			lacking = append(lacking, b)
		}
	})
	if len(lacking) == 0 {
		return failed
	}
	ids, err := j.idsOf(ctx, lacking...)
	if err != nil {
		return errors.Join(failed, err)
	}
	each(restorers, lacking, func(b keyspace.Bucket) {
		_, err := j.adoptAt(ctx, b, found[b].head, ids[b])
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("journal: adopt bucket %d: %w", b, err))
		}
	})
	return failed
}

// adoptAt stores the records of a bucket, those of keys by their ids, as its checkpoint,
// and its entries as segments. It stores nothing when the head is not the one given any
// more.
func (j *Journal) adoptAt(ctx context.Context, b keyspace.Bucket, head []byte, ids []string) (bool, error) {
	at, ok := j.positionOf(b, head)
	if !ok {
		return false, fmt.Errorf("%w: bucket %d has a head that was not made here", audit.ErrBehind, b)
	}
	s, err := j.stored(ctx, b, ids)
	if err != nil {
		return false, err
	}
	now, err := j.head(ctx, b)
	if err != nil || !bytes.Equal(now, head) {
		return false, err
	}
	if err := j.keep(ctx, b, at.hash); err != nil {
		return false, err
	}
	if err := j.noteGap(ctx, b, s.number); err != nil {
		return false, err
	}
	s.position, s.taken = at, time.Now().UTC()
	if err := j.save(ctx, s); err != nil {
		return false, err
	}
	j.know(b, s.position)
	return true, nil
}

// idsOf reads the ids of the keys of buckets.
func (j *Journal) idsOf(
	ctx context.Context, buckets ...keyspace.Bucket,
) (map[keyspace.Bucket][]string, error) {
	ids := map[keyspace.Bucket][]string{}
	err := registry.EachID(ctx, j.client, func(id string) {
		if b := keyspace.BucketOf(id); slices.Contains(buckets, b) {
			ids[b] = append(ids[b], id)
		}
	})
	return ids, err
}

// stored reads the records that Valkey has of a bucket: those of keys by their ids, and
// all that the journal knows of, nil for those that are deleted.
func (j *Journal) stored(ctx context.Context, b keyspace.Bucket, ids []string) (*state, error) {
	s, _, err := j.replay(ctx, b)
	if err != nil {
		return nil, err
	}
	var names []name
	for n := range s.records {
		s.records[n] = nil
		if n.field == "" {
			names = append(names, n)
		}
	}
	for _, id := range ids {
		names = append(names, name{key: keyspace.Record(id)})
	}
	if keyspace.BucketOf(policyset.SetID) == b {
		names = append(names, name{key: policyset.SetKey})
	}
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
