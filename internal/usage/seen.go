package usage

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store/keyspace"
)

// Seen is a subject and the minute of its last call.
type Seen struct {
	ID   string
	Last time.Time
}

// Page is a part of the list of the subjects seen within 24 hours.
type Page struct {
	Subjects []Seen
	Next     string // cursor of the page that follows; empty on the last one
}

// Bounds of a page of Active.
const (
	maxPage = 500
	// maxSeen is how many subjects a bucket's list has at most, as record.lua has it.
	maxSeen = 2048
)

// ErrCursor means that a text is no cursor.
var ErrCursor = errors.New("usage: not a cursor")

// position is a place in the list of all buckets: by minute, newest first, then by
// bucket, then by id.
type position struct {
	minute int64
	bucket keyspace.Bucket
	id     string
}

// compare puts the newest first.
func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(q.minute, p.minute), cmp.Compare(p.bucket, q.bucket), cmp.Compare(q.id, p.id))
}

func (p position) cursor() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(p.minute, 10) + ":" + p.id))
}

// parseCursor reads where a page ended. The empty cursor is before everything.
func parseCursor(cursor string) (position, error) {
	if cursor == "" {
		return position{minute: 1 << 52}, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return position{}, ErrCursor
	}
	minute, id, _ := strings.Cut(string(text), ":")
	n, err := strconv.ParseInt(minute, 10, 64)
	if err != nil || n < 0 || n > 1<<52 || !validID(id) {
		return position{}, ErrCursor
	}
	return position{n, keyspace.BucketOf(id), id}, nil
}

// Active returns up to count (1 to 500) subjects that follow the cursor, those seen last
// first. A subject that is called between two pages moves to the front, so it may appear
// twice or, past the cursor, not again; none that stays where it is gets left out.
func (r *Reader) Active(ctx context.Context, cursor string, count int) (Page, error) {
	after, err := parseCursor(cursor)
	if err != nil {
		return Page{}, err
	}
	count = min(max(count, 1), maxPage)
	share := share(count)
	found, err := r.follow(ctx, after, keyspace.All(), share)
	if err != nil {
		return Page{}, err
	}
	more := cut(found, count, share)
	rest, err := r.follow(ctx, after, more, count+1)
	if err != nil {
		return Page{}, err
	}
	found = slices.DeleteFunc(found, func(p position) bool { return slices.Contains(more, p.bucket) })
	return pageOf(append(found, rest...), count), nil
}

// share is how many subjects of a page one bucket mostly has at most. From those that
// have more, more is read.
func share(count int) int { return min(count+1, count/32+8) }

// follow reads up to count subjects of each bucket that follow the position.
func (r *Reader) follow(ctx context.Context, after position, buckets []keyspace.Bucket,
	count int) ([]position, error) {
	commands := make(valkey.Commands, len(buckets))
	for i, b := range buckets {
		list := r.client.B().Zrevrangebyscore().Key(seenName(b)).Max(after.highest(b)).Min("-inf")
		commands[i] = list.Withscores().Limit(0, after.limit(b, count)).Build()
	}
	var found []position
	for i, result := range r.client.DoMulti(ctx, commands...) {
		members, err := result.AsZScores()
		if err != nil {
			return nil, fmt.Errorf("usage: active: %w", err)
		}
		n := 0
		for _, m := range members {
			if p := (position{int64(m.Score), buckets[i], m.Member}); p.compare(after) > 0 && n < count {
				found = append(found, p)
				n++
			}
		}
	}
	return found, nil
}

// cut returns the buckets that gave their whole share and may have more that belongs on
// the page.
func cut(found []position, count, share int) []keyspace.Bucket {
	given := map[keyspace.Bucket]int{}
	var cut []keyspace.Bucket
	slices.SortFunc(found, position.compare)
	for _, p := range found[:min(count+1, len(found))] {
		if given[p.bucket]++; given[p.bucket] == share {
			cut = append(cut, p.bucket)
		}
	}
	return cut
}

// highest returns the score from which on a bucket's subjects follow the position.
func (p position) highest(b keyspace.Bucket) string {
	if b < p.bucket {
		return "(" + strconv.FormatInt(p.minute, 10)
	}
	return strconv.FormatInt(p.minute, 10)
}

// limit returns how many members to read of a bucket so that count of them follow the
// position. In the position's own bucket any number may be before it, in the same minute.
func (p position) limit(b keyspace.Bucket, count int) int64 {
	if p.id != "" && b == p.bucket {
		return maxSeen
	}
	return int64(count)
}

func pageOf(found []position, count int) Page {
	slices.SortFunc(found, position.compare)
	var page Page
	if len(found) > count {
		found = found[:count]
		page.Next = found[count-1].cursor()
	}
	page.Subjects = make([]Seen, len(found))
	for i, p := range found {
		page.Subjects[i] = Seen{p.id, time.Unix(p.minute*secondsPerMinute, 0).UTC()}
	}
	return page
}

// ActiveCount returns how many subjects were seen since then, at most 24 hours ago.
func (r *Reader) ActiveCount(ctx context.Context, since time.Time) (int64, error) {
	commands := make(valkey.Commands, keyspace.Buckets)
	first := strconv.FormatInt(since.Unix()/secondsPerMinute, 10)
	for i, b := range keyspace.All() {
		commands[i] = r.client.B().Zcount().Key(seenName(b)).Min(first).Max("+inf").Build()
	}
	var count int64
	for _, result := range r.client.DoMulti(ctx, commands...) {
		n, err := result.AsInt64()
		if err != nil {
			return 0, fmt.Errorf("usage: count active: %w", err)
		}
		count += n
	}
	return count, nil
}
