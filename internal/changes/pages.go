package changes

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// Records returns records as Valkey has them, in the order of their names, without asking
// the log: for pages, which may be a minute old after a failover.
func (l *Log) Records(ctx context.Context, names ...string) ([]Record, error) {
	wanted := map[int][]string{}
	for _, name := range names {
		b := l.bucketsOf(name)[0]
		wanted[b] = append(wanted[b], name)
	}
	found := map[string]Record{}
	err := l.ask(ctx, func(b int) (query, bool) { return query{records: wanted[b]}, len(wanted[b]) > 0 },
		func(b bucket) {
			for _, record := range b.records {
				for _, m := range b.marks {
					if m.Record == record.Name {
						record.Marks = append(record.Marks, m)
					}
				}
				found[record.Name] = record
			}
		})
	records := make([]Record, len(names))
	for i, name := range names {
		records[i] = found[name]
	}
	return records, err
}

// Part is what to list: the entries of all lists that begin with a text.
type Part struct {
	Begin string
	After string // only entries after this one; empty for the first page
	Limit int    // 0 to count the entries only
}

// Listed is what List found.
type Listed struct {
	Count   int      // entries that begin with the text and follow After
	Entries []string // the first of them, in order
}

// List reads parts of the lists of all buckets, most often in one flush.
func (l *Log) List(ctx context.Context, parts ...Part) ([]Listed, error) {
	listed := make([]Listed, len(parts))
	todo := make([]int, len(parts)) // indexes of parts
	for i := range parts {
		todo[i] = i
	}
	for first := true; len(todo) > 0; first = false {
		var spans []span
		for _, i := range todo {
			spans = append(spans, spanOf(parts[i].Begin, parts[i].After, l.share(parts[i].Limit)))
		}
		found := make([]merged, len(todo))
		if err := l.ask(ctx, func(int) (query, bool) { return query{spans: spans}, true }, func(b bucket) {
			for i, p := range b.parts {
				found[i].add(p, spans[i].limit)
			}
		}); err != nil {
			return nil, err
		}
		again := todo[:0:0]
		for i, at := range todo {
			if first {
				listed[at].Count = found[i].count
			}
			entries, more := found[i].sorted()
			entries = entries[:min(len(entries), parts[at].Limit)]
			listed[at].Entries = append(listed[at].Entries, entries...)
			parts[at].Limit -= len(entries)
			if more && parts[at].Limit > 0 {
				parts[at].After = found[i].horizon
				again = append(again, at)
			}
		}
		todo = again
	}
	return listed, nil
}

// share returns how many entries to read of each bucket for a page, so that one flush most
// often suffices: an equal share and four standard deviations.
func (l *Log) share(limit int) int {
	if limit == 0 {
		return 0
	}
	mean := float64(limit) / float64(l.buckets)
	return int(mean+4*math.Sqrt(mean)) + 4
}

// merged is a part of the lists of several buckets.
type merged struct {
	count   int
	entries []string
	horizon string // all entries up to this one are known; empty if all are
}

func (m *merged) add(p part, limit int) {
	m.count += p.length
	m.entries = append(m.entries, p.entries...)
	if len(p.entries) < limit || limit == 0 || len(p.entries) == p.length {
		return
	}
	if last := p.entries[len(p.entries)-1]; m.horizon == "" || last < m.horizon {
		m.horizon = last
	}
}

// sorted returns the entries up to the horizon, and whether there are more behind it.
func (m *merged) sorted() (entries []string, more bool) {
	slices.Sort(m.entries)
	if m.horizon == "" {
		return m.entries, false
	}
	n, _ := slices.BinarySearch(m.entries, m.horizon)
	return m.entries[:n+1], true
}

// ask reads buckets in one flush. A bucket that does not answer, or has no position, is an
// error; the others are taken nevertheless.
func (l *Log) ask(ctx context.Context, what func(b int) (query, bool), take func(bucket)) error {
	var buckets []int
	for b := range l.buckets {
		if _, wanted := what(b); wanted {
			buckets = append(buckets, b)
		}
	}
	view := make([]bucket, l.buckets)
	l.read(ctx, view, buckets, func(b int) query {
		q, _ := what(b)
		return q
	})
	failed := make([]error, l.buckets)
	for _, b := range buckets {
		switch v := view[b]; {
		case v.err != nil:
			failed[b] = fmt.Errorf("%w: %w", ErrView, v.err)
		case v.at.Number == 0:
			failed[b] = fmt.Errorf("%w: lost", ErrView)
		default:
			take(v)
		}
	}
	return byReason(failed)
}
