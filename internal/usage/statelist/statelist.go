// Package statelist has lists of registered subjects that may be denied now, or are near
// a limit: they are found without a look at every key. Package usage lists what calls
// show; package registry lists the bans that operators make.
//
// A registered subject that is denied for a second or more, or took the last of a limit,
// is listed with the time until when: one list of those over a limit and one of those
// banned, in its bucket. What a call would get is asked of each. An entry leaves at its
// time, and the next denial repairs what is missing. A list keeps the 2,048 subjects of a
// bucket that are denied longest.
//
// A third list has registered subjects of whose limits one was nearly used up after a
// call, until all that was taken by then is free again.
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

// Script lists the Entries of a bucket.
var Script = lua.New(func() string { return text })

// List is a list of registered subjects that may be in a state until some time. It lags
// and errs: who looks must ask what a call would get. What a subject's own calls showed
// repairs it, and what is past leaves it.
type List int

// The lists. Each keeps 2,048 subjects a bucket, those whose times are last.
const (
	OverLimit List = 1 + iota // denied by limits
	Banned
	NearLimit // with a limit that is nearly used up
)

// Name returns the name of a bucket's list.
func Name(b keyspace.Bucket, list List) string {
	names := [...]string{OverLimit: "usage-blocked", Banned: "usage-banned", NearLimit: "usage-near"}
	return b.Name(names[list])
}

// Place is a subject's place in a list.
type Place struct {
	ID   string
	List List
}

// Entry is a place with its time in milliseconds since 1970.
type Entry struct {
	Place
	Until int64
}

// Keys are the keys that the Script takes for a bucket.
func Keys(b keyspace.Bucket) []string {
	return []string{Name(b, OverLimit), Name(b, Banned), Name(b, NearLimit)}
}

// Args are the arguments that the Script takes for entries of one bucket.
func Args(now time.Time, entries []Entry) []string {
	args := append(make([]string, 0, 1+3*len(entries)), strconv.FormatInt(now.UnixMilli(), 10))
	for _, e := range entries {
		args = append(args, strconv.Itoa(int(e.List)), strconv.FormatInt(e.Until, 10), e.ID)
	}
	return args
}

// Add returns the commands that list a subject until a time, for a ban that an
// operator makes. What check functions add keeps the list short.
func Add(client valkey.Client, list List, id string, until time.Time) valkey.Commands {
	name, ms := Name(keyspace.BucketOf(id), list), until.UnixMilli()
	return valkey.Commands{
		client.B().Zadd().Key(name).ScoreMember().ScoreMember(float64(ms), id).Build(),
		client.B().Pexpireat().Key(name).MillisecondsTimestamp(ms).Nx().Build(),
		client.B().Pexpireat().Key(name).MillisecondsTimestamp(ms).Gt().Build(),
	}
}

// firstBuckets is how many buckets Read reads at first; four times as many each time
// that they have too few subjects.
const firstBuckets = 4

// Read returns up to count subjects of a list that follow one, in an order that does
// not change while they stay in it: by bucket, then by id. more says that others follow.
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
