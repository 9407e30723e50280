package registry

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/records"
)

// indexKey is the list of all keys. Lists of keys are sorted sets in byte order, whose
// members are the lower-case name, a zero byte and the id. Each plan, group and tag has
// one, and so has each List.
const indexKey = "tg:keys"

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

func (l List) index() string { return indexKey + ":" + string(l) }

func planIndexKey(number int) string { return indexKey + ":plan:" + strconv.Itoa(number) }

func tagIndexKey(tag string) string { return indexKey + ":tag:" + tag }

// shadowedIndexes names the sorted sets that have the keys of Shadowed. If a plan
// without an enforced limit is the default for tokens or addresses, that is the list of all
// keys: the plan's list lacks callers who have it by default.
func shadowedIndexes(set *policy.Set) []string {
	indexes := []string{Shadowed.index()}
	for _, p := range set.Plans {
		switch {
		case !policy.DenyNothing(p.Limits):
		case p.Name == set.TokenPlan || p.Name == set.AddressPlan:
			return []string{indexKey}
		default:
			indexes = append(indexes, planIndexKey(p.Number))
		}
	}
	return indexes
}

func indexMember(k policy.Key) string { return strings.ToLower(k.Name) + "\x00" + k.ID }

// memberID returns the id in a member, or the name in a member of groupsKey.
func memberID(member string) string { return member[strings.LastIndexByte(member, 0)+1:] }

func memberIDs(members []string) []string {
	ids := make([]string, len(members))
	for i, m := range members {
		ids[i] = memberID(m)
	}
	return ids
}

// lists names the lists that k belongs in.
func lists(k policy.Key) []string {
	if k.ID == "" {
		return nil
	}
	in := []string{indexKey}
	if k.PlanNumber > 0 {
		in = append(in, planIndexKey(k.PlanNumber))
	}
	if k.Group != "" {
		in = append(in, groupIndexKey(k.Group))
	}
	if k.Override != nil {
		in = append(in, Overridden.index())
		if policy.DenyNothing(k.Override.Limits) {
			in = append(in, Shadowed.index())
		}
	}
	if k.Status == policy.Revoked {
		in = append(in, Revoked.index())
	}
	if !k.Expires.IsZero() {
		in = append(in, Expiring.index())
	}
	for _, tag := range k.Tags {
		in = append(in, tagIndexKey(tag))
	}
	return in
}

// listed reports whether k belongs in a list under this member.
func listed(k policy.Key, list, member string) bool {
	return slices.Contains(lists(k), list) && member == indexMember(k)
}

func (s *Store) addToIndex(ctx context.Context, k policy.Key) error {
	if err := s.doAll(ctx, s.indexCommands(k)...); err != nil {
		return fmt.Errorf("registry: list key: %w", err)
	}
	return nil
}

// indexCommands returns the commands that add k to its lists.
func (s *Store) indexCommands(k policy.Key) valkey.Commands {
	var commands valkey.Commands
	for _, list := range lists(k) {
		commands = append(commands, s.addMember(list, indexMember(k)))
	}
	if k.Group != "" {
		commands = append(commands, s.addMember(groupsKey, groupMember(k.Group)))
	}
	return commands
}

func (s *Store) addMember(list, member string) valkey.Completed {
	return s.client.B().Zadd().Key(list).ScoreMember().ScoreMember(0, member).Build()
}

// updateIndex removes old from the lists that k, which replaced it, is not in under the
// same member. k is the zero Key after a deletion. updateIndex also adds k once more: a
// reader of the lists may have removed it as stale before the record was written. If
// updateIndex fails, the next reader repairs the lists.
func (s *Store) updateIndex(ctx context.Context, old, k policy.Key) {
	commands := s.indexCommands(k)
	for _, list := range lists(old) {
		if !listed(k, list, indexMember(old)) {
			commands = append(commands, s.client.B().Zrem().Key(list).Member(indexMember(old)).Build())
		}
	}
	if k.ID == "" {
		s.client.DoMulti(ctx, commands...)
		return
	}
	results := s.client.DoMulti(ctx, append(commands, s.getRecord(k.ID))...)
	current, err := policyset.DecodeReply(k.ID, results[len(results)-1])
	if err == nil && current.Version != k.Version { // another edit came later
		s.removeFromIndex(ctx, k)
	}
}

// removeFromIndex removes k, which was not written or was replaced, from lists in which
// its stored record does not belong.
func (s *Store) removeFromIndex(ctx context.Context, k policy.Key) {
	current, err := policyset.DecodeReply(k.ID, s.client.Do(ctx, s.getRecord(k.ID)))
	if err != nil {
		return // readers of the lists repair them
	}
	var stale []staleEntry
	for _, list := range lists(k) {
		if !listed(current, list, indexMember(k)) {
			stale = append(stale, staleEntry{list, indexMember(k)})
		}
	}
	s.removeStale(ctx, stale)
}

// staleEntry is an entry of a list that contradicts the key's record: an edit was
// interrupted, or is under way.
type staleEntry struct{ list, member string }

// removeStale removes stale entries and then lists their keys by their current records,
// because a record may have been written just before its entry was removed. updateIndex
// lists a record that is written later. If removeStale fails, the next reader repairs the
// list.
func (s *Store) removeStale(ctx context.Context, stale []staleEntry) {
	if len(stale) == 0 {
		return
	}
	removals, ids := make(valkey.Commands, len(stale)), make([]string, len(stale))
	for i, e := range stale {
		removals[i] = s.client.B().Zrem().Key(e.list).Member(e.member).Build()
		ids[i] = memberID(e.member)
	}
	s.client.DoMulti(ctx, removals...)
	keys, err := s.getAll(ctx, &policy.Set{}, ids)
	if err != nil {
		return
	}
	var additions valkey.Commands
	for _, k := range keys {
		if k.Status != policy.Unreadable {
			additions = append(additions, s.indexCommands(k)...)
		}
	}
	s.client.DoMulti(ctx, additions...)
}

// maxAdded bounds the entries of one command, for which checks wait.
const maxAdded = 250

// AddToLists adds keys, given as records by id, to the lists that they belong in. Keys
// with unreadable records join the list of all keys, so that they are found.
func (s *Store) AddToLists(ctx context.Context, found map[string][]byte) error {
	members := map[string][]string{} // by list
	var commands valkey.Commands
	for id, record := range found {
		k, _, err := policyset.DecodeRecord(id, record)
		if err != nil {
			k = policy.Key{ID: id, Name: strings.ToLower(id)}
		}
		if k.Banned.After(s.Now()) {
			commands = append(commands, records.Ban(s.client, id, s.Now(), k.Banned)...)
		}
		for _, list := range lists(k) {
			members[list] = append(members[list], indexMember(k))
		}
		if k.Group != "" {
			members[groupsKey] = append(members[groupsKey], groupMember(k.Group))
		}
	}
	for list, in := range members {
		for some := range slices.Chunk(in, maxAdded) {
			add := s.client.B().Zadd().Key(list).ScoreMember()
			for _, m := range some {
				add = add.ScoreMember(0, m)
			}
			commands = append(commands, add.Build())
		}
	}
	if err := s.doAll(ctx, commands...); err != nil {
		return fmt.Errorf("registry: list keys: %w", err)
	}
	return nil
}
