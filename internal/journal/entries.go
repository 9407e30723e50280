package journal

import (
	"context"
	"errors"
	"sort"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/audit"
	"tidegate/internal/store/keyspace"
)

// writeEntries appends the entries from a position to the state's to the audit in Valkey.
// From position 0 the audit is written anew.
func (j *Journal) writeEntries(ctx context.Context, s *state, from uint64) error {
	stream := audit.Stream(s.bucket)
	if from == 0 {
		if err := j.send(ctx, j.client.B().Del().Key(stream).Build()); err != nil {
			return err
		}
		first, err := j.first(ctx, s.bucket, s.number)
		if err != nil {
			return err
		}
		from = first - 1
	}
	var commands valkey.Commands
	for item, err := range j.entriesAfter(ctx, s.bucket, from) {
		if err != nil {
			return err
		}
		if item.Number > s.number {
			break
		}
		commands = append(commands, j.client.B().Xadd().Key(stream).Id(item.ID).FieldValue().
			FieldValue("e", string(item.Body)).FieldValue("h", string(item.Hash)).Build())
		if len(commands) == batch {
			if err := j.send(ctx, commands...); err != nil {
				return err
			}
			commands = nil
		}
	}
	return j.send(ctx, commands...)
}

// first is the number of the oldest entry that the journal has of a bucket, up to newest.
// It is above 1 when Valkey had changes before it got a journal.
func (j *Journal) first(ctx context.Context, b keyspace.Bucket, newest uint64) (uint64, error) {
	var failed error
	has := func(i int) bool { // from here on the journal has every entry
		_, err := j.store.Read(ctx, entryName(b, uint64(i)+1))
		if err != nil && !errors.Is(err, ErrNotFound) {
			failed = err
		}
		return err == nil
	}
	if has(0) || failed != nil {
		return 1, failed
	}
	return uint64(sort.Search(int(newest), has)) + 1, failed
}
