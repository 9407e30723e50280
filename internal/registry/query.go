package registry

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/policy"
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

// indexes names the sorted sets that have the keys of a query.
func (q Query) indexes(set *policy.Set) []string {
	switch {
	case q.List == Shadowed:
		return shadowedIndexes(set)
	case q.List != "":
		return []string{q.List.index()}
	case q.Group != "":
		return []string{groupIndexKey(q.Group)}
	case q.Tag != "":
		return []string{tagIndexKey(q.Tag)}
	case q.Plan > 0:
		return []string{planIndexKey(q.Plan)}
	}
	return []string{indexKey}
}

// prefixRange returns the bounds of the members whose names start with a prefix, ignoring
// case.
func prefixRange(prefix string) (from, to string) {
	if prefix == "" {
		return "-", "+"
	}
	from = "[" + strings.ToLower(prefix)
	return from, from + "\xff"
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

// List returns a page of keys. It reads lists, never the key space. A page may have fewer
// keys than q.Count although another page follows: the search for a Part ends after
// partTime, and stale entries are left out.
func (s *Store) List(ctx context.Context, set *policy.Set, q Query) (Page, error) {
	count := min(max(q.Count, 0), maxCount)
	if count == 0 {
		count = defaultCount
	}
	from, to := prefixRange(q.Prefix)
	if q.After != "" {
		after, err := base64.RawURLEncoding.DecodeString(q.After)
		if err != nil {
			return Page{}, invalid("after", "is not a position in this list; start from the first page")
		}
		from = "(" + string(after)
	}
	perRead := count
	if q.Part != "" {
		perRead = namesPerRead
	}
	indexes := q.indexes(set)
	var page Page
	var found []string
	for began := time.Now(); ; {
		members, more, err := s.members(ctx, indexes, from, to, perRead)
		if err != nil {
			return Page{}, err
		}
		page.Scanned += len(members)
		last := ""
		if len(members) > 0 {
			last = members[len(members)-1]
		}
		matching := withPart(members, q.Part)
		if room := count - len(found); len(matching) > room {
			matching, more, last = matching[:room], true, matching[room-1]
		}
		found = append(found, matching...)
		if !more || len(found) == count || time.Since(began) > partTime {
			if more {
				page.Next = base64.RawURLEncoding.EncodeToString([]byte(last))
			}
			page.Keys, err = s.listedKeys(ctx, set, indexes, found)
			return page, err
		}
		from = "(" + last
	}
}

// members returns the first count members of the union of some lists within bounds, and
// whether more follow.
func (s *Store) members(ctx context.Context, indexes []string, from, to string, count int) (
	[]string, bool, error) {
	commands := make(valkey.Commands, len(indexes))
	for i, index := range indexes {
		commands[i] = s.client.B().Zrangebylex().Key(index).Min(from).Max(to).Limit(0, int64(count)+1).Build()
	}
	var members []string
	for _, result := range s.client.DoMulti(ctx, commands...) {
		some, err := result.AsStrSlice()
		if err != nil {
			return nil, false, fmt.Errorf("registry: list keys: %w", err)
		}
		members = append(members, some...)
	}
	if len(indexes) > 1 {
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

// listedKeys returns the keys whose records belong in one of the lists, and removes the
// other members from the lists.
func (s *Store) listedKeys(ctx context.Context, set *policy.Set, indexes, members []string) (
	[]policy.Key, error) {
	found, err := s.getAll(ctx, set, memberIDs(members))
	if err != nil {
		return nil, err
	}
	var stale []staleEntry
	keys := make([]policy.Key, 0, len(found))
	for i, k := range found {
		switch {
		case k.Status == policy.Unreadable: // its lists are unknown
			k.Name = strings.TrimSuffix(members[i], "\x00"+k.ID)
			keys = append(keys, k)
		case slices.ContainsFunc(indexes, func(index string) bool { return listed(k, index, members[i]) }):
			keys = append(keys, k)
		default:
			for _, index := range indexes {
				stale = append(stale, staleEntry{index, members[i]})
			}
		}
	}
	s.removeStale(ctx, stale)
	return keys, nil
}

// maxPlanPages bounds how many pages planInUse reads.
const maxPlanPages = 20

// planInUse reports whether any key has the plan. List removes stale entries from the
// plan's list; if there are many, planInUse reads several pages. If it finds no key in
// maxPlanPages pages and more follow, it returns true.
func (s *Store) planInUse(ctx context.Context, set *policy.Set, number int) (bool, error) {
	q := Query{Plan: number, Count: maxCount}
	for range maxPlanPages {
		page, err := s.List(ctx, set, q)
		if err != nil || len(page.Keys) > 0 || page.Next == "" {
			return len(page.Keys) > 0, err
		}
		q.After = page.Next
	}
	return true, nil
}

// Cursor returns the After of the page that begins after k.
func Cursor(k policy.Key) string { return base64.RawURLEncoding.EncodeToString([]byte(indexMember(k))) }

// Count returns how many keys a query has. It ignores After, and cannot count the list
// Shadowed.
func (s *Store) Count(ctx context.Context, q Query) (int64, error) {
	index := q.indexes(&policy.Set{})[0]
	count := s.client.B().Zcard().Key(index).Build()
	if q.Prefix != "" {
		from, to := prefixRange(q.Prefix)
		count = s.client.B().Zlexcount().Key(index).Min(from).Max(to).Build()
	}
	n, err := s.client.Do(ctx, count).AsInt64()
	if err != nil {
		return 0, fmt.Errorf("registry: count keys: %w", err)
	}
	return n, nil
}

// counts returns the number of entries of each list, in order.
func (s *Store) counts(ctx context.Context, lists []string) ([]int64, error) {
	commands := make(valkey.Commands, len(lists))
	for i, list := range lists {
		commands[i] = s.client.B().Zcard().Key(list).Build()
	}
	counts := make([]int64, len(lists))
	for i, result := range s.client.DoMulti(ctx, commands...) {
		var err error
		if counts[i], err = result.AsInt64(); err != nil {
			return nil, fmt.Errorf("registry: count keys: %w", err)
		}
	}
	return counts, nil
}

// PlanCounts returns how many keys each plan has, by the plan's number. It counts entries
// of lists, so stale entries count until List removes them.
func (s *Store) PlanCounts(ctx context.Context, set *policy.Set) (map[int]int64, error) {
	lists := make([]string, len(set.Plans))
	for i, p := range set.Plans {
		lists[i] = planIndexKey(p.Number)
	}
	counts, err := s.counts(ctx, lists)
	if err != nil {
		return nil, err
	}
	byPlan := make(map[int]int64, len(counts))
	for i, n := range counts {
		byPlan[set.Plans[i].Number] = n
	}
	return byPlan, nil
}

// idsPerRead is how many members of a list EachID reads at once.
const idsPerRead = 5_000

// EachID calls yield with the id of every listed key.
func EachID(ctx context.Context, client valkey.Client, yield func(id string)) error {
	from := "-"
	for {
		read := client.B().Zrangebylex().Key(indexKey).Min(from).Max("+").Limit(0, idsPerRead).Build()
		members, err := client.Do(ctx, read).AsStrSlice()
		if err != nil {
			return fmt.Errorf("registry: list keys: %w", err)
		}
		for _, m := range members {
			yield(memberID(m))
		}
		if len(members) < idsPerRead {
			return nil
		}
		from = "(" + members[len(members)-1]
	}
}
