package usage

import (
	"context"
	"fmt"
	"time"

	"tidegate/internal/cause"
	"tidegate/internal/store/keyspace"
)

// Refusals are numbers of refused credentials.
type Refusals struct {
	ByCause  [cause.Refusals]int64
	Unlogged int64 // of denials and refusals together, those that the denial log leaves out
}

// Of returns how many had a cause.
func (r Refusals) Of(c cause.Cause) int64 {
	if !c.Refuses() {
		return 0
	}
	return r.ByCause[c-cause.Missing]
}

// Sum returns how many there were.
func (r Refusals) Sum() int64 {
	var sum int64
	for _, n := range r.ByCause {
		sum += n
	}
	return sum
}

// Refusals returns the refused calls from then on until to that had proved to have a
// secret of this key, or the refused credentials of all callers when the id is empty. It
// reaches as far as an Overview of these steps.
func (r *Reader) Refusals(
	ctx context.Context, id string, from, to time.Time, step time.Duration,
) (Refusals, error) {
	s, err := newSpan(from, to, step)
	if err != nil {
		return Refusals{}, err
	}
	sources := s.totalSources(refusedID)
	if id != "" {
		sources = s.appendSources(nil, keyspace.BucketOf(id), id+refusedID, 0)
	}
	var sum Refusals
	tallies, err := r.tallies(ctx, s, sources, 1, causesPerSlot)
	if err != nil {
		return sum, fmt.Errorf("usage: refusals: %w", err)
	}
	for _, t := range tallies {
		for i := range sum.ByCause {
			sum.ByCause[i] += t[i]
		}
		sum.Unlogged += t[unlogged]
	}
	return sum, nil
}
