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
// chain. A colon and a random text follow, which the one restore has that may write. An
// earlier release had the same fence for all.
const fence = "restoring"

func newFence() string { return fence + ":" + rand.Text() }

func isFence(head []byte) bool { return bytes.HasPrefix(head, []byte(fence)) }

//go:embed lua/restore.lua
var restoreLua string

var restoreScript = valkey.NewLuaScript(restoreLua)

// command is a command of Valkey with one key.
type command struct {
	name, key string
	args      []string
}

// runBehind runs commands on keys of a bucket, in one step, while its head is the one
// expected. ran reports whether it is.
func (j *Journal) runBehind(
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

// fenceOff takes a bucket with a head for a restore. Another restore that had it writes
// nothing from then on.
func (j *Journal) fenceOff(ctx context.Context, b keyspace.Bucket, head []byte) (*writer, error) {
	w := &writer{Journal: j, bucket: b, head: string(head)}
	return w, w.moveHead(ctx, newFence())
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
