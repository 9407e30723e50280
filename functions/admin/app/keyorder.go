package app

import (
	"context"
	"errors"
	"time"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
)

// Order is the order of a list of keys or callers.
type Order string

// Busiest and MostDenied have the records.MaxRanked callers with the most calls, or with the
// most calls that were denied, refused, or would be denied in shadow, of the last hour, as
// Activities counts them. Today has the callers of the present day in UTC, about the busiest
// first.
const (
	ByName     Order = "name"
	Busiest    Order = "busiest"
	MostDenied Order = "denied"
	Today      Order = "today"
)

// rankings has the ranking of recorded calls that gives an order.
var rankings = map[Order]records.Order{Busiest: records.Busiest, MostDenied: records.MostDenied}

// RankingNote says what a ranked list leaves out.
var RankingNote = "Only the top " + limits.Number(records.MaxRanked) + " callers of the last hour are ranked."

// IsRanking reports whether o orders callers by their calls of the last hour.
func IsRanking(o Order) bool {
	_, found := rankings[o]
	return found
}

// ranked returns the ids of keys and other callers in an order that IsRanking.
func ranked(ctx context.Context, calls *records.Reader, o Order) ([]string, error) {
	found, err := calls.Rank(ctx, records.Last(activitySpan, 0, time.Now()), rankings[o], records.MaxRanked)
	return IDsOf(found, func(t records.Ranked) string { return t.ID }), err
}

// findOrdered is FindKeys with an order. Rankings have one page.
func (r *Registry) findOrdered(ctx context.Context, set *policy.Set, f KeyFilter, o Order, after string,
	count int) (FoundKeys, error) {
	switch {
	case IsRanking(o):
		ids, err := ranked(ctx, r.calls, o)
		if err != nil {
			return FoundKeys{}, err
		}
		return PickKeys(ctx, r, set, f, ids)
	case o == Today:
		return calledToday(ctx, r, set, f, after, count)
	}
	return FindKeys(ctx, r, set, f, after, count)
}

// calledToday returns keys that called today, about the busiest first. It searches for
// scanTime.
func calledToday(ctx context.Context, keys *Registry, set *policy.Set, f KeyFilter, after string,
	count int) (FoundKeys, error) {
	out := FoundKeys{Next: after}
	for start := time.Now(); ; {
		page, err := keys.calls.Active(ctx, out.Next, count-len(out.Subjects))
		if errors.Is(err, records.ErrCursor) {
			err = errCursor
		}
		if err != nil {
			return FoundKeys{}, err
		}
		found, err := PickKeys(ctx, keys, set, f, page.IDs)
		if err != nil {
			return FoundKeys{}, err
		}
		out.Subjects, out.Next = append(out.Subjects, found.Subjects...), page.Next
		out.Scanned += len(page.IDs)
		if out.Next == "" || len(out.Subjects) == count || time.Since(start) >= scanTime {
			return out, nil
		}
	}
}
