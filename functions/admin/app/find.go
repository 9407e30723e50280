package app

import (
	"context"
	"errors"
	"slices"
	"time"

	"tidegate/internal/policy"
	"tidegate/internal/registry"
)

// PerScan is how many keys are looked at together for a state.
const PerScan = 250

// scanTime is how long one answer goes on looking at keys, 250 at a time. Tests change
// it.
var scanTime = 200 * time.Millisecond

// Count returns how many keys a filter means, which must not be Computed.
func (r *Registry) Count(ctx context.Context, f KeyFilter) (int64, error) {
	return r.store.Count(ctx, f.listed())
}

// List returns up to count keys of the list that answers a filter, behind a cursor.
func (r *Registry) List(
	ctx context.Context, set *policy.Set, f KeyFilter, after string, count int,
) (registry.Page, error) {
	q := f.listed()
	q.After, q.Count = after, count
	return r.store.List(ctx, set, q)
}

// FoundKeys is a part of the keys that a filter means.
type FoundKeys struct {
	Subjects []Subject
	Next     string // the cursor behind them; empty when there are no more
	Scanned  int    // keys that were looked at
}

// FindKeys returns up to count keys that the filter means, behind a cursor. It looks at
// keys for scanTime, so it may find fewer and still have a Next. Keys that are denied, or
// near a limit, are in the order of usage.Reader.InState, all others by name.
func FindKeys(ctx context.Context, keys *Registry, set *policy.Set, f KeyFilter, after string,
	count int) (FoundKeys, error) {
	perPage := count
	if f.Computed() {
		perPage = PerScan
	}
	start := time.Now()
	from, err := keys.completed(ctx, f)
	if err != nil {
		return FoundKeys{}, err
	}
	var out FoundKeys
	for {
		page, err := keys.candidates(ctx, set, from, after, perPage)
		if err != nil {
			return FoundKeys{}, err
		}
		out.Scanned += len(page.Keys)
		likely := slices.DeleteFunc(page.Keys, func(k policy.Key) bool { return !f.mayMean(set, k) })
		if most := count + 1 - len(out.Subjects); !f.counted() {
			likely = likely[:min(most, len(likely))]
		}
		subjects, err := subjects(ctx, keys, set, f.State, likely)
		if err != nil {
			return FoundKeys{}, err
		}
		for i, s := range subjects {
			if f.counted() && !s.Is(f.State) {
				continue
			}
			out.Subjects = append(out.Subjects, s)
			if len(out.Subjects) == count {
				if i+1 < len(subjects) || page.Next != "" {
					out.Next = f.cursor(s.Key)
				}
				return out, nil
			}
		}
		if page.Next == "" || time.Since(start) >= scanTime {
			out.Next = page.Next
			return out, nil
		}
		after = page.Next
	}
}

// completed returns the filter whose list has all keys that f means: f, or one without
// its state and tag until the lists of these are complete.
func (r *Registry) completed(ctx context.Context, f KeyFilter) (KeyFilter, error) {
	q := f.listed()
	if f.counted() || f.Group != "" || q.List == registry.Overridden || q.List == "" && q.Tag == "" {
		return f, nil
	}
	complete, err := r.store.CompleteLists(ctx, scanTime/2)
	if !complete {
		f.State, f.Tag = "", ""
	}
	return f, err
}

var errCursor = &policy.InvalidError{Fields: []policy.FieldError{
	{Field: "after", Message: "is not a position in this list; start from the first page"}}}

// candidates returns keys among which are all that the filter means, behind a cursor.
func (r *Registry) candidates(ctx context.Context, set *policy.Set, f KeyFilter, after string,
	count int) (registry.Page, error) {
	list, counted := countedLists[f.State]
	if !counted {
		return r.List(ctx, set, f, after, count)
	}
	if after != "" && !IsID(after) {
		return registry.Page{}, errCursor
	}
	ids, more, err := r.calls.InState(ctx, list, after, time.Now(), count)
	if err != nil {
		return registry.Page{}, err
	}
	found, err := r.Many(ctx, set, ids)
	page := registry.Page{Keys: found}
	if more && len(ids) > 0 {
		page.Next = ids[len(ids)-1]
	}
	return page, err
}

// PickKeys returns those of the keys with these ids that the filter means, in the ids'
// order.
func PickKeys(ctx context.Context, keys *Registry, set *policy.Set, f KeyFilter,
	ids []string) (FoundKeys, error) {
	list, err := keys.Many(ctx, set, ids)
	if err != nil {
		return FoundKeys{}, err
	}
	subjects, err := Subjects(ctx, keys, set, list)
	if err != nil {
		return FoundKeys{}, err
	}
	meant := slices.DeleteFunc(subjects, func(s Subject) bool {
		return !f.mayMean(set, s.Key) || !s.Is(f.State)
	})
	return FoundKeys{Subjects: meant, Scanned: len(list)}, nil
}

// Records returns the records of the keys and callers that items are of, by id; callers
// without one are left out. It reads the Set when that is nil and there are items.
func Records[T any](
	ctx context.Context, keys *Registry, set *policy.Set, items []T, id func(T) string,
) (map[string]policy.Key, error) {
	if len(items) == 0 {
		return nil, nil
	}
	if set == nil {
		var err error
		if set, err = keys.Set(ctx); err != nil {
			return nil, err
		}
	}
	ids := make([]string, len(items))
	for i, item := range items {
		ids[i] = id(item)
	}
	found, err := keys.Many(ctx, set, ids)
	records := make(map[string]policy.Key, len(found))
	for _, k := range found {
		records[k.ID] = k
	}
	return records, err
}

// Subjects looks up what each key would get now.
func Subjects(ctx context.Context, keys *Registry, set *policy.Set,
	list []policy.Key) ([]Subject, error) {
	return subjects(ctx, keys, set, "", list)
}

// subjects is Subjects, which may leave out keys that are not in a state. It reads of all
// keys only what the state follows from.
func subjects(ctx context.Context, keys *Registry, set *policy.Set, state State,
	list []policy.Key) ([]Subject, error) {
	if len(list) == 0 {
		return nil, nil
	}
	until, err := keys.store.BannedUntil(ctx, set, list)
	if err != nil {
		return nil, err
	}
	if state == Banned {
		at, kept := time.Now(), 0
		for i, k := range list {
			if until[i].After(at) {
				list[kept], until[kept] = k, until[i]
				kept++
			}
		}
		list = list[:kept]
	}
	decisions, err := keys.Usage(ctx, set, list)
	if err != nil {
		return nil, err
	}
	at := time.Now()
	all := make([]Subject, len(list))
	for i, k := range list {
		all[i] = NewSubject(set, k, decisions[i], until[i], at)
	}
	return all, nil
}

// maxCounting is how long keys are counted that must be looked at one by one.
const maxCounting = 12 * time.Second

// ErrUncounted means that too many keys are to be looked at.
var ErrUncounted = errors.New("too many keys to count in one request")

// CountMatching returns how many keys are meant: all of ids that there are, or all that a
// filter means when it is not nil. It fails with ErrUncounted.
func (r *Registry) CountMatching(ctx context.Context, set *policy.Set, ids []string, f *KeyFilter) (int64,
	error) {
	switch {
	case f == nil:
		keys, err := r.Many(ctx, set, ids)
		return int64(len(keys)), err
	case !f.Computed():
		return r.Count(ctx, *f)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepEnds)
	defer cancel()
	n := int64(0)
	after := ""
	for began := time.Now(); time.Since(began) < maxCounting; {
		found, err := FindKeys(ctx, r, set, *f, after, 10*PerScan)
		if err != nil {
			return 0, err
		}
		n += int64(len(found.Subjects))
		if after = found.Next; after == "" {
			return n, nil
		}
	}
	return 0, ErrUncounted
}
