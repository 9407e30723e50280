package registry

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidegate/internal/changes"
	"tidegate/internal/policy"
)

// List is a list of keys with a special state or setting.
type List string

// The lists.
const (
	Overridden List = "overridden" // keys with an override, in force or past
	Revoked    List = "revoked"
	Expiring   List = "expiring" // keys with an expiry, at any time
	// Shadowed has keys whose override has no enforced limit, and all keys of plans without
	// one.
	Shadowed List = "shadow"
)

// Bounds of Query.Count.
const (
	defaultCount = 50
	maxCount     = 500
)

// Query asks for a page of keys in the order of their names.
type Query struct {
	Prefix string // only names that start with it, ignoring case
	Part   string // only names that contain it, but do not start with it, ignoring case
	Plan   int    // only keys of the plan with this number; 0 for all
	Tag    string // only keys with this tag; Plan is ignored then
	Group  string // only keys of this group; Plan and Tag are ignored then
	List   List   // only keys of this list; Plan, Tag and Group are ignored then
	After  string // the Next of the page before; empty for the first page
	Count  int    // 1 to 500; 0 means 50
}

// lists names the lists that have the keys of a query.
func (q Query) lists(set *policy.Set) []string {
	switch {
	case q.List == Shadowed:
		return shadowLists(set)
	case q.List != "":
		return []string{string(q.List)}
	case q.Group != "":
		return []string{groupList(q.Group)}
	case q.Tag != "":
		return []string{tagList(q.Tag)}
	case q.Plan > 0:
		return []string{planList(q.Plan)}
	}
	return []string{allKeys}
}

// Page is an answer to a Query.
type Page struct {
	Keys    []policy.Key
	Next    string // empty on the last page
	Scanned int    // names that were read
}

const (
	// namesPerRead is how many names a search for a Part reads at a time.
	namesPerRead = 5_000
	// partTime is how long List looks for a Part: no read begins after it.
	partTime = 40 * time.Millisecond
)

// List returns a page of keys. It reads lists, most often in one flush, and then the
// records of the page in another. A page may have fewer keys than q.Count although another
// page follows, since the search for a Part ends after partTime.
func (s *Store) List(ctx context.Context, set *policy.Set, q Query) (Page, error) {
	count := pageSize(q.Count)
	after := ""
	if q.After != "" {
		text, err := base64.RawURLEncoding.DecodeString(q.After)
		if err != nil {
			return Page{}, invalid("after", "is not a position in this list; start from the first page")
		}
		after = string(text)
	}
	perRead := count
	if q.Part != "" {
		perRead = namesPerRead
	}
	var page Page
	var found []string
	for began := time.Now(); ; {
		members, more, err := s.members(ctx, q.lists(set), strings.ToLower(q.Prefix), after, perRead)
		if err != nil {
			return Page{}, err
		}
		page.Scanned += len(members)
		if len(members) > 0 {
			after = members[len(members)-1]
		}
		matching := withPart(members, q.Part)
		if room := count - len(found); len(matching) > room {
			matching, more, after = matching[:room], true, matching[room-1]
		}
		found = append(found, matching...)
		if !more || len(found) == count || time.Since(began) > partTime {
			if more {
				page.Next = base64.RawURLEncoding.EncodeToString([]byte(after))
			}
			page.Keys, err = s.keys(ctx, set, found)
			return page, err
		}
	}
}

// pageSize returns how many entries a page has.
func pageSize(count int) int {
	if count = min(max(count, 0), maxCount); count == 0 {
		return defaultCount
	}
	return count
}

// members returns the first count members of the union of some lists that begin with a
// prefix and follow another, and whether more follow.
func (s *Store) members(ctx context.Context, names []string, prefix, after string, count int) (
	[]string, bool, error) {
	parts := make([]changes.Part, len(names))
	for i, name := range names {
		parts[i] = changes.Part{Begin: name + "\x00" + prefix, Limit: count + 1}
		if after != "" {
			parts[i].After = name + "\x00" + after
		}
	}
	listed, err := s.log.List(ctx, parts...)
	if err != nil {
		return nil, false, fmt.Errorf("registry: list keys: %w", err)
	}
	var members []string
	for i, l := range listed {
		for _, entry := range l.Entries {
			members = append(members, entry[len(names[i])+1:])
		}
	}
	if len(names) > 1 {
		slices.Sort(members)
		members = slices.Compact(members)
	}
	return members[:min(count, len(members))], len(members) > count, nil
}

// withPart returns the members whose names contain a part behind their start. No part
// means all members.
func withPart(members []string, part string) []string {
	if part == "" {
		return members
	}
	part = strings.ToLower(part)
	var matching []string
	for _, m := range members {
		name := m[:max(0, strings.LastIndexByte(m, 0))]
		if strings.Index(name, part) > 0 {
			matching = append(matching, m)
		}
	}
	return matching
}

// keys returns the keys of members of lists, without those that were deleted since.
func (s *Store) keys(ctx context.Context, set *policy.Set, members []string) ([]policy.Key, error) {
	ids := make([]string, len(members))
	for i, m := range members {
		ids[i] = memberID(m)
	}
	return s.Many(ctx, set, ids)
}

// Get returns one key, or ErrNotFound.
func (s *Store) Get(ctx context.Context, id string) (policy.Key, error) {
	_, k, err := s.load(ctx, id)
	return k.Key, err
}

// Many returns the keys with these ids, in order, without those that have no record. A key
// whose record cannot be read has the status Unreadable, and its id as its name.
func (s *Store) Many(ctx context.Context, set *policy.Set, ids []string) ([]policy.Key, error) {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !validID(id) })
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := s.log.Records(ctx, ids...)
	if err != nil {
		return nil, fmt.Errorf("registry: read keys: %w", err)
	}
	keys := make([]policy.Key, 0, len(found))
	for _, record := range found {
		if len(record.Content) == 0 {
			continue
		}
		k, _ := decodeKey(set, record) // one bad record must not hide the others
		if k.Status == policy.Unreadable {
			k.Name = k.ID
		}
		keys = append(keys, k.Key)
	}
	return keys, nil
}

// Cursor returns the After of the page that begins after k.
func Cursor(k policy.Key) string {
	return base64.RawURLEncoding.EncodeToString([]byte(member(k.Name, k.ID)))
}

// Count returns how many keys a query has. It ignores After and Part, and cannot count the
// list Shadowed.
func (s *Store) Count(ctx context.Context, q Query) (int64, error) {
	list := q.lists(&policy.Set{})[0]
	listed, err := s.log.List(ctx, changes.Part{Begin: list + "\x00" + strings.ToLower(q.Prefix)})
	if err != nil {
		return 0, fmt.Errorf("registry: count keys: %w", err)
	}
	return int64(listed[0].Count), nil
}

// counts returns the number of entries of each list, in order, in one flush.
func (s *Store) counts(ctx context.Context, lists []string) ([]int, error) {
	parts := make([]changes.Part, len(lists))
	for i, list := range lists {
		parts[i].Begin = list + "\x00"
	}
	listed, err := s.log.List(ctx, parts...)
	if err != nil {
		return nil, fmt.Errorf("registry: count keys: %w", err)
	}
	counts := make([]int, len(lists))
	for i, l := range listed {
		counts[i] = l.Count
	}
	return counts, nil
}

// PlanCounts returns how many keys each plan has, by the plan's number.
func (s *Store) PlanCounts(ctx context.Context, set *policy.Set) (map[int]int64, error) {
	lists := make([]string, len(set.Plans))
	for i, p := range set.Plans {
		lists[i] = planList(p.Number)
	}
	counts, err := s.counts(ctx, lists)
	if err != nil {
		return nil, err
	}
	byPlan := make(map[int]int64, len(counts))
	for i, n := range counts {
		byPlan[set.Plans[i].Number] = int64(n)
	}
	return byPlan, nil
}
