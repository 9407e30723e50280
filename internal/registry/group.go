package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/audit"
	"tidegate/internal/limiter"
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

// GroupUsage returns what a call of cost 1 would get now from a group's limits of each of
// some plans, in order. It takes nothing. A plan without limits on groups, or with mode
// Off, gets the zero Decision.
func (s *Store) GroupUsage(ctx context.Context, name string,
	plans []policy.Plan) ([]limiter.Decision, error) {
	return s.peek(ctx, len(plans), func(i int) (string, []limiter.Limit) {
		p := plans[i]
		if len(p.PerGroup) == 0 {
			return "", nil
		}
		return keyspace.Of(policy.GroupID(name), policy.GroupState(p.Number)), p.PerGroup
	})
}

// ResetGroup deletes all counts of a group, in one step with the audit entry. The counts
// of its keys stay. It fails with ErrNotFound for a group without keys.
func (s *Store) ResetGroup(ctx context.Context, name string, edit Edit) error {
	set, err := s.Set(ctx)
	if err != nil {
		return err
	}
	n, err := s.Count(ctx, Query{Group: name})
	switch {
	case err != nil:
		return err
	case n == 0:
		return policy.ErrNotFound
	}
	id := policy.GroupID(name)
	e := recordEdit{id: id, key: keyspace.Record(id), versionAt: 1,
		entry: edit.entry(audit.GroupReset, name, 0)}
	for _, p := range set.Plans {
		e.alsoDelete = append(e.alsoDelete, keyspace.Of(id, policy.GroupState(p.Number)))
	}
	_, err = s.write(ctx, e)
	return err
}

// OverrideGroup replaces the limits of the plans for each key of a group until the
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
