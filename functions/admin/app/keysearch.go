package app

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/registry"
)

// KeyFilter selects keys. Its zero value selects all.
type KeyFilter struct {
	Prefix string // of the name, whatever the case
	// Anywhere adds the names that contain Prefix behind their start. They come last.
	Anywhere bool
	Plan     int    // number; 0 for any
	Group    string // empty for any
	State    State  // empty for any
	Tag      string // one that the key has; empty for any
}

// query returns the part of the filter that a list of the store answers. matchesRecord
// and FindKeys check the rest key by key.
func (f KeyFilter) query() registry.Query {
	q := registry.Query{Prefix: f.Prefix, Plan: f.Plan, Tag: f.Tag, Group: f.Group}
	if f.Group == "" {
		q.List = stateLists[f.State]
	}
	return q
}

// stateLists has the list of the store with the keys in a state.
var stateLists = map[State]registry.List{
	Overridden: registry.Overridden, Revoked: registry.Revoked, Expiring: registry.Expiring,
	Shadow: registry.Shadowed,
}

// countedLists has the lists with the keys in a state that their counts or bans decide. A
// key that used up a limit, and was not denied yet, is listed as near a limit.
var countedLists = map[State][]records.List{
	Blocked: {records.DeniedNow, records.Near}, Banned: {records.BannedNow}, Near: {records.Near},
}

// counted reports whether a key's counts or bans decide if it is in the filter's state.
func (f KeyFilter) counted() bool {
	_, counted := countedLists[f.State]
	return counted
}

// Computed reports whether no count of a list is that of the filter, so that its keys are
// counted one by one.
func (f KeyFilter) Computed() bool { return f.Anywhere && f.Prefix != "" || f.perKey() }

// perKey reports whether no list answers the whole filter, so that keys are checked one
// by one.
func (f KeyFilter) perKey() bool {
	return f.Tag != "" || f.State != "" && (f.State != Overridden || f.Plan > 0 || f.Group != "") ||
		f.Group != "" && f.Plan > 0
}

// matchesRecord reports whether a key's record matches the filter. It ignores a state
// that is counted.
func (f KeyFilter) matchesRecord(set *policy.Set, k policy.Key) bool {
	name, part := strings.ToLower(k.Name), strings.ToLower(f.Prefix)
	if f.Anywhere && !strings.Contains(name, part) || !f.Anywhere && !strings.HasPrefix(name, part) {
		return false
	}
	if f.State != "" && !f.counted() {
		s := NewSubject(set, k, nil, records.State{}, time.Now())
		if !s.Is(f.State) {
			return false
		}
	}
	return (f.Plan == 0 || k.PlanNumber == f.Plan) && (f.Group == "" || k.Group == f.Group) &&
		(f.Tag == "" || slices.Contains(k.Tags, f.Tag))
}

// Count returns how many keys match a filter, which must not be Computed.
func (r *Registry) Count(ctx context.Context, f KeyFilter) (int64, error) {
	return r.store.Count(ctx, f.query())
}

// List returns up to count keys behind a cursor, from the list that answers a filter.
func (r *Registry) List(ctx context.Context, set *policy.Set, f KeyFilter, after string,
	count int) (registry.Page, error) {
	q := f.query()
	q.Count = count
	var inPart bool
	if q.After, inPart = strings.CutPrefix(after, partCursor); inPart {
		q.Prefix, q.Part = "", f.Prefix
	}
	page, err := r.store.List(ctx, set, q)
	if f.Anywhere && f.Prefix != "" && (inPart && page.Next != "" || !inPart && page.Next == "") {
		page.Next = partCursor + page.Next
	}
	return page, err
}

// PerScan is how many keys a search reads at a time.
const PerScan = 250

// scanTime bounds how long one page of a search takes: no read begins after it. Tests
// change it.
var scanTime = 50 * time.Millisecond

// FoundKeys is a page of the keys that match a filter.
type FoundKeys struct {
	Subjects []Subject
	Next     string // cursor of the next page; empty on the last page
	Scanned  int    // keys that were read
}

// FindKeys returns up to count keys behind a cursor that match the filter. It searches for
// scanTime, so a page with fewer keys may still have a Next; but never without a look at
// both the names that begin with the text and those that contain it. Keys that are denied, banned or
// near a limit come in the order of records.Reader.InState, all others by name.
func FindKeys(ctx context.Context, keys *Registry, set *policy.Set, f KeyFilter, after string,
	count int) (FoundKeys, error) {
	perPage := count
	if f.perKey() {
		perPage = PerScan
	}
	start := time.Now()
	var out FoundKeys
	for {
		if f.counted() { // its cursors lead to the next read alone
			perPage = min(PerScan, count-len(out.Subjects))
		}
		page, err := keys.candidates(ctx, set, f, after, perPage)
		if err != nil {
			return FoundKeys{}, err
		}
		out.Scanned += page.Scanned
		likely := slices.DeleteFunc(page.Keys, func(k policy.Key) bool { return !f.matchesRecord(set, k) })
		if most := count + 1 - len(out.Subjects); !f.counted() {
			likely = likely[:min(most, len(likely))]
		}
		subjects, err := subjects(ctx, keys, set, f.State, likely)
		if err != nil {
			return FoundKeys{}, err
		}
		for i, s := range subjects {
			if f.counted() && (!s.Is(f.State) || f.listedBefore(after, s)) {
				continue
			}
			out.Subjects = append(out.Subjects, s)
			if len(out.Subjects) == count && !f.counted() {
				if i+1 < len(subjects) || page.Next != "" {
					out.Next = f.cursor(s.Key)
				}
				return out, nil
			}
		}
		ended := time.Since(start) >= scanTime && page.Next != partCursor
		if page.Next == "" || len(out.Subjects) >= count || ended {
			out.Next = page.Next
			return out, nil
		}
		after = page.Next
	}
}

// listedBefore reports whether the first list of the filter's state has a key that the
// list behind a cursor has too.
func (f KeyFilter) listedBefore(after string, s Subject) bool {
	at, _, err := f.listAt(after)
	return f.State == Blocked && err == nil && at > 0 && deniedByLimit(s.recorded, s.At)
}

// listAt returns the number of the list of the filter's state that a cursor is in, and the
// cursor in that list.
func (f KeyFilter) listAt(after string) (at int, cursor string, err error) {
	if after == "" {
		return 0, "", nil
	}
	number, cursor, _ := strings.Cut(after, ":")
	if at, err = strconv.Atoi(number); err != nil || at < 0 || at >= len(countedLists[f.State]) {
		return 0, "", errCursor
	}
	return at, cursor, nil
}

var errCursor = &policy.InvalidError{Fields: []policy.FieldError{
	{Field: "after", Message: "is not a position in this list; start from the first page"}}}

// candidates returns up to count keys behind a cursor; all matches of the filter are among
// the candidates.
func (r *Registry) candidates(ctx context.Context, set *policy.Set, f KeyFilter, after string,
	count int) (registry.Page, error) {
	if !f.counted() {
		return r.List(ctx, set, f, after, count)
	}
	at, cursor, err := f.listAt(after)
	if err != nil {
		return registry.Page{}, err
	}
	lists := countedLists[f.State]
	listed, err := r.calls.InState(ctx, lists[at], true, cursor, count)
	if errors.Is(err, records.ErrCursor) {
		err = errCursor
	}
	if err != nil {
		return registry.Page{}, err
	}
	found, err := r.Many(ctx, set, listed.IDs)
	page := registry.Page{Keys: found, Scanned: len(listed.IDs)}
	switch {
	case listed.Next != "":
		page.Next = strconv.Itoa(at) + ":" + listed.Next
	case at+1 < len(lists):
		page.Next = strconv.Itoa(at+1) + ":"
	}
	return page, err
}

// PickKeys returns the keys among ids that match the filter, in the order of ids.
func PickKeys(ctx context.Context, keys *Registry, set *policy.Set, f KeyFilter,
	ids []string) (FoundKeys, error) {
	found, err := keys.Many(ctx, set, ids)
	if err != nil {
		return FoundKeys{}, err
	}
	subjects, err := Subjects(ctx, keys, set, found)
	if err != nil {
		return FoundKeys{}, err
	}
	matching := slices.DeleteFunc(subjects, func(s Subject) bool {
		return !f.matchesRecord(set, s.Key) || !s.Is(f.State)
	})
	return FoundKeys{Subjects: matching, Scanned: len(found)}, nil
}

// maxCounting is how long CountMatching counts keys that it must check one by one.
const maxCounting = 12 * time.Second

// ErrUncounted means that counting the keys takes longer than a request may.
var ErrUncounted = errors.New("too many keys to count in one request")

// CountMatching returns how many keys match a filter, or how many of ids exist if the
// filter is nil. It returns ErrUncounted if that takes longer than maxCounting.
func (r *Registry) CountMatching(ctx context.Context, set *policy.Set, ids []string, f *KeyFilter) (
	int64, error) {
	switch {
	case f == nil:
		keys, err := r.Many(ctx, set, ids)
		return int64(len(keys)), err
	case !f.Computed():
		return r.Count(ctx, *f)
	}
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
