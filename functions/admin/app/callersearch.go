package app

import (
	"context"
	"errors"
	"slices"
	"time"

	"tidegate/functions/admin/list"
	"tidegate/internal/cause"
	"tidegate/internal/policy"
	"tidegate/internal/records"
)

// Callers without a record hold a token or are known by their address. They have an id,
// but no name or override until an editor creates a record.

// CallerQuery selects callers without a record.
type CallerQuery struct {
	Order string `query:"order" enum:"today,busiest,denied" default:"today" doc:"today: the callers of the present day in UTC, about the busiest first. busiest and denied: those among the 64 callers with the most calls, or with the most calls that were denied, refused, or would be denied in shadow, of the last hour, on one page"`
	list.Paging
}

// Caller is a caller without a record.
type Caller struct {
	ID       string   `json:"id"`
	DeniedBy []Denier `json:"deniedBy" doc:"Limits that deny its calls now, as far as its last denials tell"`
	Activity
}

// Callers returns callers without a record.
func (r *Registry) Callers(ctx context.Context, q *CallerQuery) (list.Page[Caller], error) {
	ids, next, err := r.callerIDs(ctx, q)
	if err != nil {
		return list.Page[Caller]{}, err
	}
	recent, err := Activities(ctx, r.calls, ids, time.Now())
	if err != nil {
		return list.Page[Caller]{}, err
	}
	denied, err := r.CallerDeniers(ctx, ids)
	page := list.Page[Caller]{Items: make([]Caller, len(ids)), Next: next}
	for i, id := range ids {
		page.Items[i] = Caller{id, denied[i], recent[i]}
	}
	if IsRanking(Order(q.Order)) {
		page.Notes = []string{RankingNote}
	}
	return page, err
}

// callerIDs returns the ids of a page of callers without a record, and the cursor of the
// next page. It searches for scanTime, so a page may be short.
func (r *Registry) callerIDs(ctx context.Context, q *CallerQuery) (ids []string, next string, err error) {
	set, err := r.Set(ctx)
	if err != nil {
		return nil, "", err
	}
	if o := Order(q.Order); IsRanking(o) {
		if ids, err = ranked(ctx, r.calls, o); err == nil {
			ids, err = r.withoutRecord(ctx, set, ids)
		}
		return ids, "", err
	}
	next = q.After
	for start := time.Now(); ; {
		active, err := r.calls.Active(ctx, next, q.Count-len(ids))
		if errors.Is(err, records.ErrCursor) {
			err = list.ErrCursor
		}
		if err != nil {
			return nil, "", err
		}
		found, err := r.withoutRecord(ctx, set, active.IDs)
		if err != nil {
			return nil, "", err
		}
		ids, next = append(ids, found...), active.Next
		if next == "" || len(ids) == q.Count || time.Since(start) >= scanTime {
			return ids, next, nil
		}
	}
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
		all[i] = []Denier{}
		for _, d := range recorded[i].Deniers {
			if d.Cause == cause.Limit && d.Until.After(time.Now()) {
				all[i] = append(all[i], Denier{Limit: d.Limit, Until: d.Until})
			}
		}
	}
	return all, nil
}
