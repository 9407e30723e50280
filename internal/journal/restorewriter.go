package journal

import (
	"context"
	"fmt"

	"tidegate/internal/audit"
	"tidegate/internal/store/keyspace"
)

// A step of a writer ends with so many commands or bytes, so that Valkey answers others
// in between.
const (
	maxStep      = 250
	maxStepBytes = 1 << 20
)

// writer writes to a bucket of Valkey for one restore, while that has the fence.
type writer struct {
	*Journal
	bucket keyspace.Bucket
	head   string // the one expected: the restore's fence
	waits  []command
	bytes  int
}

// add has the next flush run a command.
func (w *writer) add(name, key string, args ...string) {
	w.waits = append(w.waits, command{name, key, args})
	for _, a := range args {
		w.bytes += len(a)
	}
}

// full reports whether flush is due.
func (w *writer) full() bool { return len(w.waits) >= maxStep || w.bytes >= maxStepBytes }

// flush runs the commands that wait. It fails, and writes nothing, when another restore
// has the bucket.
func (w *writer) flush(ctx context.Context) error {
	ran, err := w.runBehind(ctx, w.bucket, w.head, w.waits...)
	switch {
	case err != nil:
		return fmt.Errorf("restore: %w", err)
	case !ran:
		return fmt.Errorf("bucket %d was changed or restored by another meanwhile: restore again", w.bucket)
	}
	w.waits, w.bytes = nil, 0
	return nil
}

// moveHead gives the bucket another head, after the commands that wait.
func (w *writer) moveHead(ctx context.Context, next string) error {
	w.add("SET", audit.HeadKey(w.bucket), next)
	err := w.flush(ctx)
	if err == nil {
		w.head = next
	}
	return err
}

// writeEntries appends the entries from a position to the state's to the audit in Valkey.
// From position 0, and where the journal has entries in segments alone, the audit is
// written anew, behind the segments.
func (w *writer) writeEntries(ctx context.Context, s *state, from uint64) error {
	stream, mark := audit.Stream(s.bucket), audit.TrimmedKey(s.bucket)
	t, err := w.tailOf(ctx, s.bucket)
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

// set writes a record, or removes it.
func (w *writer) set(n name, content []byte) {
	switch text := string(content); {
	case n.field != "" && content == nil:
		w.add("HDEL", n.key, n.field)
	case n.field != "":
		w.add("HSET", n.key, n.field, text)
	case content == nil:
		w.add("DEL", n.key)
	default:
		w.add("SET", n.key, text)
	}
}

// writeRecords writes a state's records, lists their keys, and removes those that were
// touched and are not in the state.
func (w *writer) writeRecords(ctx context.Context, lists Lists, s *state, touched []name) error {
	listed := map[string][]byte{}
	flush := func() error {
		if err := lists.AddToLists(ctx, listed); err != nil {
			return err
		}
		clear(listed)
		return w.flush(ctx)
	}
	for _, n := range touched {
		if _, known := s.records[n]; !known {
			w.set(n, nil)
		}
	}
	for n, content := range s.records {
		w.set(n, content)
		if id := n.idOf(); id != "" && content != nil {
			listed[id] = content
		}
		if w.full() {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}
