package records

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/valkey-io/valkey-go"
)

// place is a place in the merged streams, which are ordered by the ids of entries, the
// latest first, and then by stream, the last first.
type place struct {
	ms, seq int64
	stream  int
}

// newest is before all entries, and the place with ms -1 after all.
var newest = place{ms: 1 << 52}

func (p place) end() bool { return p.ms < 0 }

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(q.ms, p.ms), cmp.Compare(q.seq, p.seq), cmp.Compare(q.stream, p.stream))
}

// String returns the cursor of the place; empty at the end.
func (p place) String() string {
	if p.end() {
		return ""
	}
	return fmt.Sprintf("%d-%d-%d", p.ms, p.seq, p.stream)
}

func parsePlace(cursor string) (p place, err error) {
	if cursor == "" {
		return newest, nil
	}
	if _, err := fmt.Sscanf(cursor, "%d-%d-%d", &p.ms, &p.seq, &p.stream); err != nil || p.ms < 0 {
		return p, ErrCursor
	}
	return p, nil
}

// before returns the highest id of entries of a stream that follow the place.
func (p place) before(stream int) string {
	id := strconv.FormatInt(p.ms, 10) + "-" + strconv.FormatInt(p.seq, 10)
	if stream >= p.stream {
		return "(" + id
	}
	return id
}

// streamEntry is an entry of one of the streams.
type streamEntry struct {
	valkey.XRangeEntry
	place
}

// streamsOf names the streams of all callers, or of one caller.
func streamsOf(caller, name string) []string {
	first, end := 0, partitions
	if caller != "" {
		first = partitionOf(caller)
		end = first + 1
	}
	var keys []string
	for p := first; p < end; p++ {
		keys = append(keys, listKey(p, name), listKey(p, name+others))
	}
	return keys
}

// readStreams returns entries that follow a place, the latest first, up to the place to go
// on from. It reads up to a number of each stream.
func (r *Reader) readStreams(ctx context.Context, name string, q DenialQuery, at place, each int) (
	[]streamEntry, place, error) {
	if at == newest && r.now().Sub(q.To) > late {
		at.ms = q.To.Add(late).UnixMilli()
	}
	keys := streamsOf(q.Caller, name)
	commands := make(valkey.Commands, len(keys))
	for i, key := range keys {
		commands[i] = r.client.B().Xrevrange().Key(key).End(at.before(i)).
			Start(strconv.FormatInt(max(q.From.Add(-skew).UnixMilli(), 0), 10)).Count(int64(each)).Build()
	}
	var all []streamEntry
	last := place{ms: -1} // the place up to which every stream was read
	for i, result := range r.client.DoMulti(ctx, commands...) {
		found, err := result.AsXRange()
		if err != nil {
			return nil, last, fmt.Errorf("records: denials: %w", err)
		}
		for _, e := range found {
			p := place{stream: i}
			_, _ = fmt.Sscanf(e.ID, "%d-%d", &p.ms, &p.seq) // the server's form
			all = append(all, streamEntry{e, p})
		}
		if len(found) == each {
			if p := all[len(all)-1].place; p.compare(last) < 0 {
				last = p
			}
		}
	}
	slices.SortFunc(all, func(a, b streamEntry) int { return a.compare(b.place) })
	all = slices.DeleteFunc(all, func(e streamEntry) bool { return e.compare(last) > 0 })
	return all, last, nil
}
