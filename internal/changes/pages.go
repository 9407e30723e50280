package changes

import (
	"context"
	"errors"
	"fmt"
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
				found[record.Name] = record
			}
		})
	records := make([]Record, len(names))
	for i, name := range names {
		records[i] = found[name]
	}
	return records, err
}

// List returns how many entries of all lists begin with a text, and the first of them after
// one of them, at most limit, in order. after is empty for the first page.
func (l *Log) List(ctx context.Context, begin, after string, limit int,
) (count int, entries []string, err error) {
	first := "[" + begin
	if after != "" {
		first = "(" + after
	}
	last := "[" + begin + "\xff"
	err = l.ask(ctx, func(int) (query, bool) { return query{first: first, last: last, limit: limit}, true },
		func(b bucket) {
			count += b.length
			entries = append(entries, b.entries...)
		})
	slices.Sort(entries)
	return count, entries[:min(limit, len(entries))], err
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
	var errs []error
	for _, b := range buckets {
		switch v := view[b]; {
		case v.err != nil:
			errs = append(errs, fmt.Errorf("%w: bucket %d: %w", ErrView, b, v.err))
		case v.at.Number == 0:
			errs = append(errs, fmt.Errorf("%w: bucket %d is lost", ErrView, b))
		default:
			take(v)
		}
	}
	return errors.Join(errs...)
}
