// Package statelist keeps lists of registered subjects that may be denied now, or are
// near a limit, so that nobody has to check every key. Package usage adds what calls
// show; package registry adds the bans of operators.
//
// A registered subject that is denied for a second or more, or took the last of a limit,
// is listed until the time at which it may call again. Each bucket has a list of subjects
// over a limit, and one of banned subjects. Readers then check what a call of each
// subject would get. An entry expires at its time, and the next denial adds a missing
// one. A list keeps the 2,048 subjects of a bucket that are denied longest.
//
// A third list has registered subjects with a limit that was nearly used up after a call,
// until everything taken by then is free again.
//
//	tg:{tag}:usage-blocked  zset  keys over a limit, by its end       till then
//	tg:{tag}:usage-banned   zset  banned keys, by the end of the ban  till then
//	tg:{tag}:usage-near     zset  keys near a limit, by its reset     till then
package statelist

import (
	"context"
	_ "embed" // the script
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/lua"
	"tidegate/internal/store/keyspace"
)

//go:embed statelist.lua
var text string

// Script adds Entries of one bucket. Keys and Args return what it takes.
var Script = lua.New(func() string { return text })

// List is a list of registered subjects that may be in a state until a time. It lags and
// may be wrong, so readers must check what a call would get. A subject's next calls
// repair its entry.
type List int

// The lists. Each keeps the 2,048 subjects of a bucket with the latest times.
const (
	OverLimit List = 1 + iota // denied by limits
	Banned
	NearLimit // a limit is nearly used up
)

// Name returns the key of a bucket's list.
func Name(b keyspace.Bucket, list List) string {
	names := [...]string{OverLimit: "usage-blocked", Banned: "usage-banned", NearLimit: "usage-near"}
	return b.Name(names[list])
}

// Place is a subject's place in a list.
type Place struct {
	ID   string
	List List
}

// Entry is a place and when it ends.
type Entry struct {
	Place
	Until int64 // milliseconds since 1970
}

// Keys returns the keys that the Script takes for a bucket.
func Keys(b keyspace.Bucket) []string {
	return []string{Name(b, OverLimit), Name(b, Banned), Name(b, NearLimit)}
}

// Args returns the arguments that the Script takes for entries of one bucket.
func Args(now time.Time, entries []Entry) []string {
	args := append(make([]string, 0, 1+3*len(entries)), strconv.FormatInt(now.UnixMilli(), 10))
	for _, e := range entries {
		args = append(args, strconv.Itoa(int(e.List)), strconv.FormatInt(e.Until, 10), e.ID)
	}
	return args
}

// Add returns the commands that list a subject until a time, for a ban by an operator. It
// does not shorten the list; the Script does with the next call.
func Add(client valkey.Client, list List, id string, until time.Time) valkey.Commands {
	name, ms := Name(keyspace.BucketOf(id), list), until.UnixMilli()
	return valkey.Commands{
		client.B().Zadd().Key(name).ScoreMember().ScoreMember(float64(ms), id).Build(),
		client.B().Pexpireat().Key(name).MillisecondsTimestamp(ms).Nx().Build(),
		client.B().Pexpireat().Key(name).MillisecondsTimestamp(ms).Gt().Build(),
	}
}

// firstBuckets is how many buckets Read reads first. It reads four times as many each
// time it has found too few subjects.
const firstBuckets = 4

// Read returns up to count subjects of a list that follow the id after, in a stable
// order: by bucket, then by id. more says whether others follow.
func Read(
	ctx context.Context, client valkey.Client, list List, after string, now time.Time, count int,
) (ids []string, more bool, err error) {
	first := 0
	if after != "" {
		first = int(keyspace.BucketOf(after))
	}
	least := "(" + strconv.FormatInt(now.UnixMilli(), 10)
	for each := firstBuckets; first < keyspace.Buckets && len(ids) <= count; each *= 4 {
		end := min(first+each, keyspace.Buckets)
		commands := make(valkey.Commands, 0, end-first)
		for b := first; b < end; b++ {
			name := Name(keyspace.Bucket(b), list)
			commands = append(commands,
				client.B().Zrangebyscore().Key(name).Min(least).Max("+inf").Build())
		}
		for i, result := range client.DoMulti(ctx, commands...) {
			found, err := result.AsStrSlice()
			if err != nil {
				return nil, false, fmt.Errorf("statelist: %w", err)
			}
			slices.Sort(found)
			if i == 0 && after != "" && keyspace.Bucket(first) == keyspace.BucketOf(after) {
				at, same := slices.BinarySearch(found, after)
				if same {
					at++
				}
				found = found[at:]
			}
			ids = append(ids, found...)
		}
		first = end
	}
	if len(ids) > count {
		return ids[:count], true, nil
	}
	return ids, first < keyspace.Buckets, nil
}
