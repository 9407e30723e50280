package app

import (
	"context"
	"slices"
	"time"

	"tidegate/internal/cause"
	"tidegate/internal/policy"
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
	IDs  []string
	Next string // position of the next page; empty on the last
}

// FindCallers returns callers without a record: those that called today in UTC, about the
// busiest first, or those of Busiest or MostDenied, which have one page. It returns
// records.ErrCursor for a position that is none.
func FindCallers(ctx context.Context, keys *Registry, o Order, after string) (FoundCallers, error) {
	set, err := keys.Set(ctx)
	if err != nil {
		return FoundCallers{}, err
	}
	if IsRanking(o) {
		ids, err := ranked(ctx, keys.calls, o)
		if err != nil {
			return FoundCallers{}, err
		}
		ids, err = keys.withoutRecord(ctx, set, ids)
		return FoundCallers{IDs: ids}, err
	}
	found := FoundCallers{Next: after}
	for range callerScans {
		active, err := keys.calls.Active(ctx, found.Next, CallersPerScan)
		if err != nil {
			return FoundCallers{}, err
		}
		ids, err := keys.withoutRecord(ctx, set, active.IDs)
		if err != nil {
			return FoundCallers{}, err
		}
		found.IDs = append(found.IDs, ids...)
		found.Next = active.Next
		if found.Next == "" || len(found.IDs) >= callersPerPage {
			break
		}
	}
	return found, nil
}

// withoutRecord returns the ids of callers that have no record, in the same order.
func (r *Registry) withoutRecord(ctx context.Context, set *policy.Set, ids []string) ([]string, error) {
	// Ids that IsCaller rejects belong to API keys.
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !IsCaller(id) })
	known, err := Records(ctx, r, set, ids, func(id string) string { return id })
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(ids, func(id string) bool { return known[id].ID != "" }), nil
}

// CallerDeniers returns the limits that deny calls of each caller without a record now, as
// far as its last denials tell.
func (r *Registry) CallerDeniers(ctx context.Context, ids []string) ([][]Denier, error) {
	recorded, err := r.calls.States(ctx, ids)
	if err != nil {
		return nil, err
	}
	all := make([][]Denier, len(ids))
	for i := range ids {
		for _, d := range recorded[i].Deniers {
			if d.Cause == cause.Limit && d.Until.After(time.Now()) {
				all[i] = append(all[i], Denier{Limit: d.Limit, Until: d.Until})
			}
		}
	}
	return all, nil
}
