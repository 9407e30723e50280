package app

import (
	"context"
	"errors"
	"slices"
	"time"

	"tidegate/internal/policy"
	"tidegate/internal/usage"
)

// Order is the order of a list of keys or callers.
type Order string

// The orders. Rankings have the usage.MaxTalkers callers with the most calls of a kind in
// the hours that the last one touches; last used is of 24 hours.
const (
	ByName      Order = ""
	Busiest     Order = "busiest"
	MostBlocked Order = "blocked"
	LastUsed    Order = "used"
)

// IsOrder reports whether a list can have an order.
func IsOrder(o Order) bool {
	return slices.Contains([]Order{ByName, Busiest, MostBlocked, LastUsed}, o)
}

// Ranked returns the ids of a ranking, of keys and other callers.
func Ranked(ctx context.Context, calls *usage.Reader, o Order) ([]string, error) {
	now, rank := time.Now(), calls.Busiest
	if o == MostBlocked {
		rank = calls.MostDenied
	}
	talkers, err := rank(ctx, now.Add(-activitySpan), now, usage.MaxTalkers)
	ids := make([]string, len(talkers))
	for i, t := range talkers {
		ids[i] = t.ID
	}
	return ids, err
}

// FindOrdered is FindKeys in an order. A ranking has one page.
func FindOrdered(ctx context.Context, keys *Registry, set *policy.Set, f KeyFilter, o Order,
	after string, count int) (FoundKeys, error) {
	switch o {
	case Busiest, MostBlocked:
		ids, err := Ranked(ctx, keys.calls, o)
		if err != nil {
			return FoundKeys{}, err
		}
		return PickKeys(ctx, keys, set, f, ids)
	case LastUsed:
		return lastUsed(ctx, keys, set, f, after, count)
	case ByName:
	}
	return FindKeys(ctx, keys, set, f, after, count)
}

// lastUsed returns keys that called within 24 hours, the last first. It looks at callers
// for scanTime.
func lastUsed(ctx context.Context, keys *Registry, set *policy.Set, f KeyFilter, after string,
	count int) (FoundKeys, error) {
	out := FoundKeys{Next: after}
	for start := time.Now(); ; {
		page, err := keys.calls.Active(ctx, out.Next, count-len(out.Subjects))
		if errors.Is(err, usage.ErrCursor) {
			err = errCursor
		}
		if err != nil {
			return FoundKeys{}, err
		}
		ids := make([]string, len(page.Subjects))
		for i, s := range page.Subjects {
			ids[i] = s.ID
		}
		found, err := PickKeys(ctx, keys, set, f, ids)
		if err != nil {
			return FoundKeys{}, err
		}
		out.Subjects, out.Next = append(out.Subjects, found.Subjects...), page.Next
		out.Scanned += len(ids)
		if out.Next == "" || len(out.Subjects) == count || time.Since(start) >= scanTime {
			return out, nil
		}
	}
}
