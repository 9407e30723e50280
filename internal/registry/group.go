package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/audit"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
)

// groupsKey is the sorted set of the names of all groups, in byte order. Its members are
// the lower-case name, a zero byte and the name. A group exists while it has keys;
// readers remove the names of empty groups. Each group has a list of its keys.
const groupsKey = indexKey + ":groups"

func groupIndexKey(name string) string { return indexKey + ":group:" + name }

func groupMember(name string) string { return strings.ToLower(name) + "\x00" + name }

// Group is a group of keys.
type Group struct {
	Name string
	Keys int64
}

// Groups returns up to count groups whose names start with a prefix, ignoring case, in
// the order of their names.
func (s *Store) Groups(ctx context.Context, prefix string, count int) ([]Group, error) {
	from, to := prefixRange(prefix)
	read := s.client.B().Zrangebylex().Key(groupsKey).Min(from).Max(to).Limit(0, int64(count)).Build()
	members, err := s.client.Do(ctx, read).AsStrSlice()
	if err != nil {
		return nil, fmt.Errorf("registry: list groups: %w", err)
	}
	names := memberIDs(members)
	sizes, err := s.groupSizes(ctx, names)
	if err != nil {
		return nil, err
	}
	var groups []Group
	var empty []string
	for i, name := range names {
		if sizes[i] == 0 {
			empty = append(empty, name)
			continue
		}
		groups = append(groups, Group{name, sizes[i]})
	}
	s.removeGroups(ctx, empty)
	return groups, nil
}

func (s *Store) groupSizes(ctx context.Context, names []string) ([]int64, error) {
	lists := make([]string, len(names))
	for i, name := range names {
		lists[i] = groupIndexKey(name)
	}
	return s.counts(ctx, lists)
}

// removeGroups removes the names of empty groups, and adds those again that got a key
// meanwhile. If it fails, the next reader repairs the list.
func (s *Store) removeGroups(ctx context.Context, names []string) {
	removals := make(valkey.Commands, len(names))
	for i, name := range names {
		removals[i] = s.client.B().Zrem().Key(groupsKey).Member(groupMember(name)).Build()
	}
	s.client.DoMulti(ctx, removals...)
	sizes, err := s.groupSizes(ctx, names)
	if err != nil {
		return
	}
	for i, name := range names {
		if sizes[i] > 0 {
			s.client.Do(ctx, s.addMember(groupsKey, groupMember(name)))
		}
	}
}

// resetKey names the time up to which what was counted for a group does not count, in
// microseconds since 1970.
func resetKey(id string) string { return keyspace.Of(id, "r") }

// resetLife is how long a group's reset is stored, in milliseconds. A window is at most
// 366 days, and a log keeps what it counted for two.
var resetLife = strconv.FormatInt((2 * limits.MaxWindow).Milliseconds(), 10)

// ResetGroup writes that what a group was counted up to now does not count, in one step
// with the audit entry. The counts of its keys stay. It fails with ErrNotFound for a group
// without keys.
func (s *Store) ResetGroup(ctx context.Context, name string, edit Edit) error {
	n, err := s.Count(ctx, Query{Group: name})
	switch {
	case err != nil:
		return err
	case n == 0:
		return policy.ErrNotFound
	}
	id := policy.GroupID(name)
	now, err := s.serverTime(ctx, id)
	if err != nil {
		return err
	}
	_, err = s.write(ctx, recordEdit{id: id, key: keyspace.Record(id), versionAt: 1, reset: now,
		entry: edit.entry(audit.GroupReset, name, 0)})
	return err
}

// OverrideGroup gives the keys of a group limits in place of their plans' until the
// override ends; nil ends it at once. Counts stay, and a key's own override wins. Every
// check that starts after it returns obeys. It fails with ErrNotFound for a group without
// keys, or without an override to end; otherwise as SaveSet does.
func (s *Store) OverrideGroup(ctx context.Context, name string, o *policy.Override, edit Edit) error {
	if o != nil {
		if n, err := s.Count(ctx, Query{Group: name}); err != nil || n == 0 {
			return cmp.Or(err, policy.ErrNotFound)
		}
	}
	for range maxRepairs { // each repeats only after another save
		set, err := s.Set(ctx)
		if err != nil {
			return err
		}
		next, entry := *set, edit.entry(audit.GroupOverride, name, 0)
		next.GroupOverrides = map[string]policy.Override{}
		maps.Copy(next.GroupOverrides, set.GroupOverrides)
		if _, found := set.GroupOverrides[name]; o == nil && !found {
			return policy.ErrNotFound
		} else if o == nil {
			entry.Action = audit.GroupEnd
			delete(next.GroupOverrides, name)
		} else if err := o.Validate(set); err != nil {
			return err
		} else {
			next.GroupOverrides[name] = *o
		}
		if _, err = s.saveSet(ctx, next, entry); !errors.Is(err, policy.ErrConflict) {
			return err
		}
	}
	return policy.ErrConflict
}

// BillGroup says when the billing months of a group begin: the zero value for the first day
// of a month in UTC. It fails with ErrNotFound for a group without keys; otherwise as
// SaveSet does.
func (s *Store) BillGroup(ctx context.Context, name string, b limits.Billing, edit Edit) error {
	if n, err := s.Count(ctx, Query{Group: name}); err != nil || n == 0 {
		return cmp.Or(err, policy.ErrNotFound)
	}
	for range maxRepairs { // each repeats only after another save
		set, err := s.Set(ctx)
		if err != nil {
			return err
		}
		next := *set
		next.GroupBilling = map[string]limits.Billing{}
		maps.Copy(next.GroupBilling, set.GroupBilling)
		if next.GroupBilling[name] = b; b == (limits.Billing{}) {
			delete(next.GroupBilling, name)
		}
		_, err = s.saveSet(ctx, next, edit.entry(audit.GroupBilling, name, 0))
		if !errors.Is(err, policy.ErrConflict) {
			return err
		}
	}
	return policy.ErrConflict
}
