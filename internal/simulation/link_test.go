package simulation

import (
	"context"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store/keyspace"
)

// shards is how many shards the keys have. The embedded server has the keys of both, but
// each has connections, a replica and losses of its own.
const shards = 2

// shardOf returns the shard of a bucket. Each has an equal range of slots.
func shardOf(b keyspace.Bucket) int { return int(b) * shards / keyspace.Buckets }

// shardOfKey returns the shard of the key with this name.
var shardOfKey = func() func(name string) int {
	shard := map[string]int{}
	tag := func(name string) string {
		_, rest, _ := strings.Cut(name, "{")
		tag, _, _ := strings.Cut(rest, "}")
		return tag
	}
	for _, b := range keyspace.All() {
		shard[tag(b.Name(""))] = shardOf(b)
	}
	return func(name string) int { return shard[tag(name)] }
}()

// link is the connections of all environments. They can lose requests and replies, and be
// slow. A request whose reply is lost may be executed again (see source).
type link struct {
	valkey.Client
	world *world
	down  [shards]bool // no command arrives
	shaky bool         // some commands or replies are lost or late

	flushes  int         // so far
	answered [shards]int // flushes that brought a reply
}

// fate is what happens to the commands of one flush to one shard.
type fate int

const (
	arrives fate = iota
	refused
	lost
	replyLost
	late
	tooLate
)

func (l *link) fate(shard int) fate {
	switch {
	case l.down[shard]:
		return refused
	case !l.shaky || l.world.IntN(4) > 0:
		return arrives
	}
	return fate(l.world.IntN(int(tooLate) + 1))
}

// Mode lets scripts for both shards run together while both answer, as on one server: the
// embedded one is quicker so. Else each is of one shard.
func (l *link) Mode() valkey.ClientMode {
	if l.well() {
		return valkey.ClientModeStandalone
	}
	return valkey.ClientModeCluster
}

func (l *link) well() bool { return !l.shaky && l.down == [shards]bool{} }

func (l *link) Do(ctx context.Context, command valkey.Completed) valkey.ValkeyResult {
	return l.DoMulti(ctx, command)[0]
}

// DoMulti ignores deadlines, since those are of real time.
func (l *link) DoMulti(ctx context.Context, commands ...valkey.Completed) []valkey.ValkeyResult {
	ctx = context.WithoutCancel(ctx)
	l.flushes++
	var parts [shards][]valkey.Completed
	var indexes [shards][]int
	for i := range commands {
		shard := 0
		for _, word := range commands[i].Commands() {
			if strings.HasPrefix(word, keyspace.Prefix) {
				shard = shardOfKey(word)
				break
			}
		}
		parts[shard] = append(parts[shard], commands[i].Pin())
		indexes[shard] = append(indexes[shard], i)
	}
	results := make([]valkey.ValkeyResult, len(commands))
	for shard, part := range parts {
		if len(part) == 0 {
			continue
		}
		for i, r := range l.flush(ctx, shard, part) {
			results[indexes[shard][i]] = r
		}
	}
	return results
}

// flush sends commands to one shard. After an error, the commands and those before them
// may count calls in vain.
func (l *link) flush(ctx context.Context, shard int, commands []valkey.Completed) []valkey.ValkeyResult {
	var err error
	switch l.fate(shard) {
	case refused:
		err = &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	case lost:
		err = io.EOF
	case replyLost:
		l.Client.DoMulti(ctx, commands...)
		err = io.EOF
	case tooLate:
		l.Client.DoMulti(ctx, commands...)
		l.world.pass(100 * time.Millisecond)
		err = context.DeadlineExceeded
	case late:
		l.world.pass(time.Duration(l.world.IntN(100)) * time.Millisecond)
	case arrives:
	}
	if err == nil {
		l.answered[shard]++
		return l.Client.DoMulti(ctx, commands...)
	}
	l.world.mayCount(l.world.now)
	results := make([]valkey.ValkeyResult, len(commands))
	for i := range results {
		results[i] = valkey.NewErrorResult(err)
	}
	return results
}
