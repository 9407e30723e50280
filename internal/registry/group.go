package registry

import (
	"context"
	"fmt"
	"strings"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
)

// A group exists as long as keys are in it. Its keys are in a list of their own. One more
// sorted set has the names of all groups, which readers repair as they do lists of keys:
// its members are the lower-case name, a zero byte and the name.
const groupsKey = indexKey + ":groups"

func groupIndexKey(name string) string { return indexKey + ":group:" + name }

func groupMember(name string) string { return strings.ToLower(name) + "\x00" + name }

func (s *Store) addGroup(name string) valkey.Completed {
	return s.client.B().Zadd().Key(groupsKey).ScoreMember().ScoreMember(0, groupMember(name)).Build()
}

// Group is a group of keys.
type Group struct {
	Name string
	Keys int64
}

// Groups returns up to count groups whose names begin with a prefix, whatever the case,
// in the order of their names.
func (s *Store) Groups(ctx context.Context, prefix string, count int) ([]Group, error) {
	from, to := "-", "+"
	if prefix = strings.ToLower(prefix); prefix != "" {
		from, to = "["+prefix, "["+prefix+"\xff"
	}
	read := s.client.B().Zrangebylex().Key(groupsKey).Min(from).Max(to).Limit(0, int64(count)).Build()
	members, err := s.client.Do(ctx, read).AsStrSlice()
	if err != nil {
		return nil, fmt.Errorf("registry: list groups: %w", err)
	}
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = memberID(m)
	}
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
	if len(names) == 0 {
		return nil, nil
	}
	commands := make(valkey.Commands, len(names))
	for i, name := range names {
		commands[i] = s.client.B().Zcard().Key(groupIndexKey(name)).Build()
	}
	sizes := make([]int64, len(names))
	for i, result := range s.client.DoMulti(ctx, commands...) {
		var err error
		if sizes[i], err = result.AsInt64(); err != nil {
			return nil, fmt.Errorf("registry: count keys of a group: %w", err)
		}
	}
	return sizes, nil
}

// removeGroups removes the names of groups without keys, and adds those again that got a
// key meanwhile. The next reader repairs what fails here.
func (s *Store) removeGroups(ctx context.Context, names []string) {
	if len(names) == 0 {
		return
	}
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
			s.client.Do(ctx, s.addGroup(name))
		}
	}
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
	w := write{id: id, key: keyspace.Record(id), versionAt: 1,
		entry: audit.Entry{By: edit.By, Action: audit.GroupReset, Name: name, Reason: edit.Reason}}
	for _, p := range set.Plans {
		w.forget = append(w.forget, keyspace.Of(id, policy.GroupState(p.Number)))
	}
	_, err = s.write(ctx, w)
	return err
}
