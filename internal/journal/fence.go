package journal

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed" // the script
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

// fenceOff takes a bucket with a head for a restore. Another restore that had it writes
// nothing from then on.
func (j *Journal) fenceOff(ctx context.Context, b keyspace.Bucket, head []byte) (*writer, error) {
	w := &writer{Journal: j, bucket: b, head: string(head)}
	return w, w.moveHead(ctx, newFence())
}
