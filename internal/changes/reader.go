package changes

import (
	"context"
	"fmt"
	"time"
)

// Reader reads the view at the newest change, for a judge.
type Reader struct {
	r     *reading
	began time.Time
	read  map[string]Record
}

// Now returns the number of the newest change.
func (r *Reader) Now() uint64 { return r.r.newest.Number }

// Get returns records in the order of their names. A record without content does not exist.
func (r *Reader) Get(ctx context.Context, names ...string) ([]Record, error) {
	wanted := map[int][]string{}
	var buckets []int
	for _, name := range names {
		b := r.bucketOf(name)
		if wanted[b] == nil {
			buckets = append(buckets, b)
		}
		wanted[b] = append(wanted[b], name)
	}
	if err := r.at(ctx, buckets, func(b int) query { return query{records: wanted[b]} }); err != nil {
		return nil, err
	}
	records := make([]Record, len(names))
	for _, b := range buckets {
		for _, found := range r.r.view[b].records {
			r.read[found.Name] = found
		}
	}
	for i, name := range names {
		records[i] = r.read[name]
	}
	return records, nil
}

// bucketOf returns the bucket in which to read a record: of the policy's two, one that
// answers.
func (r *Reader) bucketOf(record string) int {
	buckets := r.r.l.bucketsOf(record)
	if r.r.view[buckets[0]].err != nil {
		return buckets[len(buckets)-1]
	}
	return buckets[0]
}

// Count returns how many entries of lists begin with a text, in all buckets.
func (r *Reader) Count(ctx context.Context, begin string) (count int, err error) {
	buckets := all(r.r.l.buckets)
	err = r.at(ctx, buckets, func(int) query { return query{spans: []span{spanOf(begin, "", 0)}} })
	if err != nil {
		return 0, err
	}
	for _, b := range r.r.view {
		count += b.parts[0].length
	}
	return count, nil
}

// at reads buckets that are at the newest change and have no marks. It brings those that
// are behind, and stores their marks.
func (r *Reader) at(ctx context.Context, buckets []int, ask func(b int) query) error {
	l := r.r.l
	for range 3 {
		l.read(ctx, r.r.view, buckets, ask)
		var behind []int
		for _, b := range buckets {
			switch v := r.r.view[b]; {
			case v.err != nil:
				return fmt.Errorf("%w: bucket %d: %w", ErrView, b, v.err)
			case v.at != r.r.newest:
				behind = append(behind, b)
			}
		}
		if len(behind) == 0 {
			return r.settle(ctx, buckets)
		}
		r.r.bring(ctx, behind)
		for _, b := range behind {
			if err := r.r.view[b].err; err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("%w: its buckets do not stay at change %d", ErrView, r.Now())
}
