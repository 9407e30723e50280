package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/audit"
	"tidegate/internal/policyset"
	"tidegate/internal/registry"
	"tidegate/internal/store/keyspace"
)

// Upkeep adopts buckets whose newest changes were made without a journal, and takes a
// checkpoint of each bucket that has checkpointEvery new entries. Every trimEvery it also
// moves entries older than the retention out of Valkey; a retention of 0 keeps all. If
// ctx ends first, the next Upkeep does the rest.
func (j *Journal) Upkeep(ctx context.Context, retention time.Duration) error {
	found, err := j.marks(ctx)
	if err != nil {
		return err
	}
	failed := j.adoptOlder(ctx, found) // the other buckets still get their upkeep
	for _, b := range keyspace.All() {
		m := found[b]
		number, _, ok := j.key.Position(b, m.head)
		if !ok || m.unshipped > 0 || number < m.checkpoint+checkpointEvery {
			continue
		}
		if err := j.Checkpoint(ctx, b); err != nil {
			return errors.Join(failed, err)
		}
	}
	if retention == 0 || !j.trimDue() {
		return failed
	}
	return errors.Join(failed, j.trimAll(ctx, time.Now().Add(-retention)))
}

// checkpointEvery is how many entries a bucket has between checkpoints. It bounds how
// many entries a restore reads, except those made since the last Upkeep.
const checkpointEvery = 200

// Checkpoint takes a bucket's checkpoint.
func (j *Journal) Checkpoint(ctx context.Context, b keyspace.Bucket) error {
	s, entries, err := j.replay(ctx, b)
	if err == nil && entries > 0 {
		err = j.save(ctx, s)
	}
	if err != nil {
		return fmt.Errorf("journal: checkpoint: %w", err)
	}
	mark := j.client.B().Set().Key(checkpointMarkKey(b)).Value(strconv.FormatUint(s.number, 10)).Build()
	if err := j.client.Do(ctx, mark).Error(); err != nil {
		return fmt.Errorf("journal: mark checkpoint: %w", err)
	}
	return nil
}

// maxAdoptions is how many times adopt reads a bucket that changes meanwhile.
const maxAdoptions = 10

// adopt stores the current state of an item's bucket in Valkey as its checkpoint, unless
// the checkpoint has the item or the entry before it already.
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
	return fmt.Errorf("bucket %d changed during each of %d reads", b, maxAdoptions)
}

// adoptOlder adopts each bucket whose newest entry the journal lacks. This entry is older
// than the journal, or was made by a release without one. If a bucket changed since its
// mark was read, the next Upkeep adopts it.
func (j *Journal) adoptOlder(ctx context.Context, found []mark) error {
	var mu sync.Mutex
	var lacking []keyspace.Bucket
	failed := keyspace.ForEach(keyspace.All(), workers, func(b keyspace.Bucket) error {
		at, ok := j.positionOf(b, found[b].head)
		if !ok || found[b].unshipped > 0 || at.number <= j.known(b).number {
			return nil
		}
		last, err := j.endsAt(ctx, b, at)
		if err != nil {
			err = fmt.Errorf("journal: find older entries: %w", err)
		}
		if last && at.number > j.known(b).number {
			mu.Lock()
			defer mu.Unlock()
			lacking = append(lacking, b)
		}
		return err
	})
	if len(lacking) == 0 {
		return failed
	}
	ids, err := j.idsOf(ctx, lacking...)
	if err != nil {
		return errors.Join(failed, err)
	}
	return errors.Join(failed, keyspace.ForEach(lacking, restorers, func(b keyspace.Bucket) error {
		if _, err := j.adoptAt(ctx, b, found[b].head, ids[b]); err != nil {
			return fmt.Errorf("journal: adopt bucket %d: %w", b, err)
		}
		return nil
	}))
}

// adoptAt stores the records of a bucket as its checkpoint and its entries as segments.
// ids are those of the bucket's keys. If the bucket has another head by now, adoptAt
// stores nothing and reports false.
func (j *Journal) adoptAt(ctx context.Context, b keyspace.Bucket, head []byte, ids []string) (bool, error) {
	at, ok := j.positionOf(b, head)
	if !ok {
		return false, fmt.Errorf("%w: the head of bucket %d is invalid", audit.ErrBehind, b)
	}
	s, err := j.readState(ctx, b, ids)
	if err != nil {
		return false, err
	}
	now, err := j.head(ctx, b)
	if err != nil || !bytes.Equal(now, head) {
		return false, err
	}
	if err := j.storeOlder(ctx, b, at.hash); err != nil {
		return false, err
	}
	if err := j.markGap(ctx, b, s.number); err != nil {
		return false, err
	}
	s.position, s.taken = at, time.Now().UTC()
	if err := j.save(ctx, s); err != nil {
		return false, err
	}
	j.setKnown(b, s.position)
	return true, nil
}

// idsOf reads the ids of the keys of some buckets, by bucket.
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

// readState reads the records that Valkey has of a bucket: those of the keys with these
// ids, and all that the journal's newest state has. Records that Valkey lacks are nil.
// The position is that of the journal's newest state.
func (j *Journal) readState(ctx context.Context, b keyspace.Bucket, ids []string) (*state, error) {
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
