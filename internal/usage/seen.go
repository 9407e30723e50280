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

// Page is a page of the list of the subjects seen within 24 hours.
type Page struct {
	Subjects []Seen
	Next     string // cursor of the page that follows; empty on the last one
}

const (
	maxPage = 500 // subjects on a page of Active
	// maxSeen is the most subjects in a bucket's list, as in record.lua.
	maxSeen = 2048
)

// ErrCursor means that a text is not a cursor of a Page.
var ErrCursor = errors.New("usage: not a cursor")

// position is a place in the merged list of all buckets, which is ordered by minute,
// newest first, then by bucket, then by id.
type position struct {
	minute int64
	bucket keyspace.Bucket
	id     string
}

// compare orders positions, the newest first.
func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(q.minute, p.minute), cmp.Compare(p.bucket, q.bucket), cmp.Compare(q.id, p.id))
}

func (p position) cursor() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(p.minute, 10) + ":" + p.id))
}

// parseCursor returns the position at which a page ended. The empty cursor is the
// position before all others.
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

// Active returns up to count (1 to 500) subjects that follow the cursor, the latest
// first. A subject that calls between two pages moves to the front. It may then be on two
// pages or on none. A subject that makes no call is on exactly one page.
func (r *Reader) Active(ctx context.Context, cursor string, count int) (Page, error) {
	after, err := parseCursor(cursor)
	if err != nil {
		return Page{}, err
	}
	count = min(max(count, 1), maxPage)
	perBucket := perBucket(count)
	found, err := r.follow(ctx, after, keyspace.All(), perBucket)
	if err != nil {
		return Page{}, err
	}
	more := full(found, count, perBucket)
	rest, err := r.follow(ctx, after, more, count+1)
	if err != nil {
		return Page{}, err
	}
	found = slices.DeleteFunc(found, func(p position) bool { return slices.Contains(more, p.bucket) })
	return pageOf(append(found, rest...), count), nil
}

// perBucket returns how many subjects Active first reads from each bucket. It reads more
// from buckets that have all of these on the page.
func perBucket(count int) int { return min(count+1, count/32+8) }

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

// full returns the buckets that have perBucket subjects on the page, and may have more.
func full(found []position, count, perBucket int) []keyspace.Bucket {
	given := map[keyspace.Bucket]int{}
	var full []keyspace.Bucket
	slices.SortFunc(found, position.compare)
	for _, p := range found[:min(count+1, len(found))] {
		if given[p.bucket]++; given[p.bucket] == perBucket {
			full = append(full, p.bucket)
		}
	}
	return full
}

// highest returns the highest score of subjects in bucket b that follow the position.
func (p position) highest(b keyspace.Bucket) string {
	if b < p.bucket {
		return "(" + strconv.FormatInt(p.minute, 10)
	}
	return strconv.FormatInt(p.minute, 10)
}

// limit returns how many members of bucket b to read so that count of them follow the
// position. In the position's own bucket, others of the same minute may precede it.
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

// LastSeen returns the minute of each subject's last call within 24 hours, in order. It
// is zero for a subject without such a call, or not among the newest 2,048 of its bucket.
func (r *Reader) LastSeen(ctx context.Context, ids []string) ([]time.Time, error) {
	commands := make(valkey.Commands, len(ids))
	for i, id := range ids {
		commands[i] = r.client.B().Zscore().Key(seenName(keyspace.BucketOf(id))).Member(id).Build()
	}
	last := make([]time.Time, len(ids))
	for i, result := range r.client.DoMulti(ctx, commands...) {
		minute, err := result.AsFloat64()
		switch {
		case valkey.IsValkeyNil(err):
		case err != nil:
			return nil, fmt.Errorf("usage: last seen: %w", err)
		default:
			last[i] = time.Unix(int64(minute)*secondsPerMinute, 0).UTC()
		}
	}
	return last, nil
}

// ActiveCount returns the number of subjects seen since a time, or in the last 24 hours
// if that is longer ago.
func (r *Reader) ActiveCount(ctx context.Context, since, now time.Time) (int64, error) {
	if oldest := now.Add(-MinutesKept + time.Minute); since.Before(oldest) {
		since = oldest
	}
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
