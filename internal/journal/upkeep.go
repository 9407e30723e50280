package journal

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"tidegate/internal/store/keyspace"
)

// Upkeep stores what Valkey had before there was a journal, takes the checkpoints that
// are due, and now and then moves entries that are older than the retention, if there is
// one, out of Valkey. What it does not do before the context ends, the next Upkeep does.
func (j *Journal) Upkeep(ctx context.Context, retention time.Duration) error {
	found, err := j.marks(ctx)
	if err != nil {
		return err
	}
	failed := j.adoptOlder(ctx, found) // an error of one bucket keeps no other from its upkeep
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
		return fmt.Errorf("journal: note checkpoint: %w", err)
	}
	return nil
}
