package app

import (
	"context"
	"slices"

	"tidegate/internal/policy"
	"tidegate/internal/usage"
)

// Callers without a record hold a token or are known by their address. They have an id,
// but no name or override until an editor creates a record.

// CallersPerScan is the number of active callers per read.
const CallersPerScan = 500

const (
	callerScans    = 3  // most reads for a page
	callersPerPage = 50 // callers without a record that end the reads for a page
)

// FoundCallers is a page of callers without a record.
type FoundCallers struct {
	Seen []usage.Seen
	Next string // position of the next page; empty on the last
}

// FindCallers returns callers without a record that called in the last 24 hours: the most
// recently seen first, or those of Busiest or MostBlocked, which have one page. It returns
// usage.ErrCursor for a position that is none.
func FindCallers(ctx context.Context, keys *Registry, o Order, after string) (FoundCallers, error) {
	set, err := keys.Set(ctx)
	if err != nil {
		return FoundCallers{}, err
	}
	if o == Busiest || o == MostBlocked {
		seen, err := keys.rankedCallers(ctx, o)
		if err != nil {
			return FoundCallers{}, err
		}
		seen, err = keys.withoutRecord(ctx, set, seen)
		return FoundCallers{Seen: seen}, err
	}
	found := FoundCallers{Next: after}
	for range callerScans {
		active, err := keys.calls.Active(ctx, found.Next, CallersPerScan)
		if err != nil {
			return FoundCallers{}, err
		}
		seen, err := keys.withoutRecord(ctx, set, active.Subjects)
		if err != nil {
			return FoundCallers{}, err
		}
		found.Seen = append(found.Seen, seen...)
		found.Next = active.Next
		if found.Next == "" || len(found.Seen) >= callersPerPage {
			break
		}
	}
	return found, nil
}

// rankedCallers returns the keys and callers of a ranking and when they were last seen.
func (r *Registry) rankedCallers(ctx context.Context, o Order) ([]usage.Seen, error) {
	ids, err := ranked(ctx, r.calls, o)
	if err != nil {
		return nil, err
	}
	last, err := r.calls.LastSeen(ctx, ids)
	if err != nil {
		return nil, err
	}
	seen := make([]usage.Seen, len(ids))
	for i, id := range ids {
		seen[i] = usage.Seen{ID: id, Last: last[i]}
	}
	return seen, nil
}

// withoutRecord returns the callers in seen that have no record, in the same order.
func (r *Registry) withoutRecord(ctx context.Context, set *policy.Set, seen []usage.Seen) (
	[]usage.Seen, error,
) {
	// Ids that IsCaller rejects belong to API keys.
	seen = slices.DeleteFunc(slices.Clone(seen), func(s usage.Seen) bool { return !IsCaller(s.ID) })
	records, err := Records(ctx, r, set, seen, func(s usage.Seen) string { return s.ID })
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(seen, func(s usage.Seen) bool { return records[s.ID].ID != "" }), nil
}
