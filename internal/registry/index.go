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
	"tidegate/internal/store/keyspace"
	"tidegate/internal/usage/statelist"
)

// The lists of keys are sorted sets whose members are the lower-case name, a zero byte
// and the id, in byte order: one of all keys, one for each plan, group and tag, and those
// of List.
const indexKey = "tg:keys"

// List is a list of the keys that have something out of the ordinary.
type List string

// The lists.
const (
	Overridden List = "overridden" // keys with an override, in force or past
	Revoked    List = "revoked"
	Expiring   List = "expiring" // keys with an expiry, at any time
	// Shadowed has keys with an override in shadow mode or off, and all of plans that
	// are.
	Shadowed List = "shadow"
)

func (l List) index() string { return indexKey + ":" + string(l) }

func planIndexKey(number int) string { return indexKey + ":plan:" + strconv.Itoa(number) }

func tagIndexKey(tag string) string { return indexKey + ":tag:" + tag }

// shadowedIndexes names the sorted sets that have the keys of Shadowed. The list of a
// plan lacks callers who have the plan because they have none of their own.
func shadowedIndexes(set *policy.Set) []string {
	in := []string{Shadowed.index()}
	for _, p := range set.Plans {
		switch {
		case !deniesNothing(p.Mode):
		case p.Name == set.TokenPlan || p.Name == set.AddressPlan:
			return []string{indexKey}
		default:
			in = append(in, planIndexKey(p.Number))
		}
	}
	return in
}

func deniesNothing(m policy.Mode) bool { return m == policy.Shadow || m == policy.Off }

func indexMember(k policy.Key) string { return strings.ToLower(k.Name) + "\x00" + k.ID }

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
	}
	return append(in, addedLists(k)...)
}

func (s *Store) addToIndex(ctx context.Context, k policy.Key) error {
	for _, result := range s.client.DoMulti(ctx, s.indexCommands(k)...) {
		if err := result.Error(); err != nil {
			return fmt.Errorf("registry: list key: %w", err)
		}
	}
	return nil
}

// listing are the commands that put k into its lists.
func (s *Store) indexCommands(k policy.Key) valkey.Commands {
	var commands valkey.Commands
	for _, list := range lists(k) {
		commands = append(commands, s.client.B().Zadd().Key(list).ScoreMember().ScoreMember(0,
			indexMember(k)).Build())
	}
	if k.Group != "" {
		commands = append(commands, s.addGroup(k.Group))
	}
	return commands
}

// updateIndex removes old from the lists that k, which replaced it, is not in under the
// same member; k may be the zero Key. It adds k once more, because a reader of the lists
// may have removed it as stale before the record was written. The next reader repairs
// what fails here.
func (s *Store) updateIndex(ctx context.Context, old, k policy.Key) {
	commands := s.indexCommands(k)
	for _, list := range lists(old) {
		if !listed(k, list, indexMember(old)) {
			commands = append(commands, s.client.B().Zrem().Key(list).Member(indexMember(old)).Build())
		}
	}
	if k.ID != "" {
		commands = append(commands, s.client.B().Get().Key(keyspace.Record(k.ID)).Build())
	}
	results := s.client.DoMulti(ctx, commands...)
	if k.ID == "" {
		return
	}
	// the next edit was faster
	if current, err := policyset.Recorded(k.ID, results[len(results)-1]); err == nil &&
		current.Version != k.Version {
		s.removeFromIndex(ctx, k)
	}
}

// listed reports whether k belongs in a list under this member.
func listed(k policy.Key, list, member string) bool {
	return slices.Contains(lists(k), list) && member == indexMember(k)
}

// removeFromIndex removes k, which was not written, from the lists that its stored record
// does not belong in.
func (s *Store) removeFromIndex(ctx context.Context, k policy.Key) {
	current, err := policyset.Recorded(k.ID,
		s.client.Do(ctx, s.client.B().Get().Key(keyspace.Record(k.ID)).Build()))
	if err != nil {
		return // List will see
	}
	var stale []staleEntry
	for _, list := range lists(k) {
		if !listed(current, list, indexMember(k)) {
			stale = append(stale, staleEntry{list, indexMember(k)})
		}
	}
	s.removeStale(ctx, stale)
}

// staleEntry is an entry of a list that no record bears out: an edit was interrupted, or
// is under way.
type staleEntry struct{ list, member string }

// memberID is the id of the key that a member is for.
func memberID(member string) string { return member[strings.LastIndexByte(member, 0)+1:] }

// removeStale removes stale entries and then lists their keys as they are now, because a
// record may have been written just before its entry was removed. updateIndex lists a
// record that is written later. The next reader of the list repairs what fails here.
func (s *Store) removeStale(ctx context.Context, stale []staleEntry) {
	if len(stale) == 0 {
		return
	}
	removals, members := make(valkey.Commands, len(stale)), make([]string, len(stale))
	for i, g := range stale {
		removals[i], members[i] = s.client.B().Zrem().Key(g.list).Member(g.member).Build(), g.member
	}
	s.client.DoMulti(ctx, removals...)
	keys, err := s.getAll(ctx, &policy.Set{}, members)
	if err != nil {
		return
	}
	var listings valkey.Commands
	for _, k := range keys {
		if k.Status != policy.Unreadable {
			listings = append(listings, s.indexCommands(k)...)
		}
	}
	if len(listings) > 0 {
		s.client.DoMulti(ctx, listings...)
	}
}

// AddToLists adds keys, by their ids and records, to the lists that they belong in. Those
// that cannot be read join the list of all keys, so that they are found.
func (s *Store) AddToLists(ctx context.Context, records map[string][]byte) error {
	members := map[string][]string{} // by list
	var commands valkey.Commands
	for id, record := range records {
		k, _, err := policyset.DecodeRecord(id, record)
		if err != nil {
			k = policy.Key{ID: id, Name: strings.ToLower(id)}
		}
		if k.Banned.After(s.Now()) {
			commands = append(commands, statelist.Add(s.client, statelist.Banned, id, k.Banned)...)
		}
		for _, list := range lists(k) {
			members[list] = append(members[list], indexMember(k))
		}
		if k.Group != "" {
			members[groupsKey] = append(members[groupsKey], groupMember(k.Group))
		}
	}
	for list, in := range members {
		add := s.client.B().Zadd().Key(list).ScoreMember()
		for _, m := range in {
			add = add.ScoreMember(0, m)
		}
		commands = append(commands, add.Build())
	}
	if len(commands) == 0 {
		return nil
	}
	for _, result := range s.client.DoMulti(ctx, commands...) {
		if err := result.Error(); err != nil {
			return fmt.Errorf("registry: list keys: %w", err)
		}
	}
	return nil
}
