package journal

import (
	"context"

	"tidegate/internal/audit"
)

// writeEntries appends the entries from a position to the state's to the audit in Valkey.
// From position 0, and where the journal has entries in segments alone, the audit is
// written anew, behind the segments.
func (w *writer) writeEntries(ctx context.Context, s *state, from uint64) error {
	stream, mark := audit.Stream(s.bucket), audit.TrimmedKey(s.bucket)
	t, err := w.tailOf(ctx, s.bucket, audit.Trimmed{})
	if err != nil {
		return err
	}
	if from == 0 || from < t.next-1 {
		w.add("DEL", stream)
		w.add("DEL", mark)
		if from = t.next - 1; from > 0 {
			w.add("SET", mark, t.String())
		}
	}
	for item, err := range w.entriesAfter(ctx, s.bucket, from) {
		if err != nil {
			return err
		}
		if item.Number > s.number {
			break
		}
		w.add("XADD", stream, item.ID, "e", string(item.Body), "h", string(item.Hash))
		if w.full() {
			if err := w.flush(ctx); err != nil {
				return err
			}
		}
	}
	return w.flush(ctx)
}
