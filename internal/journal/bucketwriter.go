package journal

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed" // the script
	"fmt"
	"strconv"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/audit"
	"tidegate/internal/store/keyspace"
)

// A bucket whose head begins with fence is being restored: nothing is appended to its
// chain. A colon and a random text follow. Only the restore that chose this text may
// write. Earlier releases wrote the fence alone.
const fence = "restoring"

func newFence() string { return fence + ":" + rand.Text() }

func isFence(head []byte) bool { return bytes.HasPrefix(head, []byte(fence)) }

// Bounds of one step of a bucketWriter. Between steps, Valkey serves others.
const (
	maxStep      = 250 // commands
	maxStepBytes = 1 << 20
)

// bucketWriter writes to a bucket of Valkey for one restore, while the bucket's head is
// the fence of this restore.
type bucketWriter struct {
	*Journal
	bucket  keyspace.Bucket
	head    string // expected head
	pending []command
	bytes   int // of the arguments of pending
}

// placeFence takes a bucket with this head for a restore. Another restore of the bucket
// writes nothing from then on.
func (j *Journal) placeFence(ctx context.Context, b keyspace.Bucket, head []byte) (*bucketWriter, error) {
	w := &bucketWriter{Journal: j, bucket: b, head: string(head)}
	return w, w.moveHead(ctx, newFence())
}

// add adds a command to the next flush.
func (w *bucketWriter) add(name, key string, args ...string) {
	w.pending = append(w.pending, command{name, key, args})
	for _, a := range args {
		w.bytes += len(a)
	}
}

// full reports whether flush is due.
func (w *bucketWriter) full() bool { return len(w.pending) >= maxStep || w.bytes >= maxStepBytes }

// flush runs the pending commands. It fails, and writes nothing, if another restore took
// the bucket.
func (w *bucketWriter) flush(ctx context.Context) error {
	ran, err := w.runAtHead(ctx, w.bucket, w.head, w.pending...)
	switch {
	case err != nil:
		return fmt.Errorf("restore: %w", err)
	case !ran:
		return fmt.Errorf("bucket %d was changed or restored by another process: restore it again", w.bucket)
	}
	w.pending, w.bytes = nil, 0
	return nil
}

// moveHead flushes the pending commands and gives the bucket another head.
func (w *bucketWriter) moveHead(ctx context.Context, next string) error {
	w.add("SET", audit.HeadKey(w.bucket), next)
	err := w.flush(ctx)
	if err == nil {
		w.head = next
	}
	return err
}

// writeEntries appends the entries after a position, up to the state's, to the stream of
// the audit. If from is 0, or before the end of the segments, it writes the stream anew
// from there.
func (w *bucketWriter) writeEntries(ctx context.Context, s *state, from uint64) error {
	stream, mark := audit.Stream(s.bucket), audit.TrimmedKey(s.bucket)
	t, err := w.lastEnd(ctx, s.bucket)
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

// set writes a record, or deletes it if content is nil.
func (w *bucketWriter) set(n name, content []byte) {
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

// writeRecords writes a state's records. It deletes the unshipped records that are not in
// the state.
func (w *bucketWriter) writeRecords(ctx context.Context, s *state, unshipped []name) error {
	for _, n := range unshipped {
		if _, known := s.records[n]; !known {
			w.set(n, nil)
		}
	}
	for n, content := range s.records {
		w.set(n, content)
		if w.full() {
			if err := w.flush(ctx); err != nil {
				return err
			}
		}
	}
	return w.flush(ctx)
}

//go:embed lua/restore.lua
var restoreLua string

var restoreScript = valkey.NewLuaScript(restoreLua)

// command is a command of Valkey with one key.
type command struct {
	name, key string
	args      []string
}

// runAtHead runs commands on keys of a bucket in one atomic step, if the bucket has this
// head. ran reports whether it has.
func (j *Journal) runAtHead(
	ctx context.Context, b keyspace.Bucket, head string, commands ...command,
) (ran bool, err error) {
	keys, args := []string{audit.HeadKey(b)}, []string{head}
	for _, c := range commands {
		keys = append(keys, c.key)
		args = append(append(args, c.name, strconv.Itoa(len(c.args))), c.args...)
	}
	done, err := restoreScript.Exec(ctx, j.client, keys, args).AsInt64()
	return done == 1, err
}
