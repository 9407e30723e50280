package journal

import (
	"context"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/audit"
)

// writeEntries appends the entries from a position to the state's to the audit in Valkey.
// From position 0, and where the journal has entries in segments alone, the audit is
// written anew, behind the segments.
func (j *Journal) writeEntries(ctx context.Context, s *state, from uint64) error {
	stream, mark := audit.Stream(s.bucket), audit.TrimmedKey(s.bucket)
	t, err := j.tailOf(ctx, s.bucket, audit.Trimmed{})
	if err != nil {
		return err
	}
	if from == 0 || from < t.next-1 {
		write := valkey.Commands{j.client.B().Del().Key(stream, mark).Build()}
		if from = t.next - 1; from > 0 {
			write = append(write, j.client.B().Set().Key(mark).Value(t.String()).Build())
		}
		if err := j.send(ctx, write...); err != nil {
			return err
		}
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
