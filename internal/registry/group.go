package registry

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"

	"tidegate/internal/changes"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
)

// A group exists while it has keys. Its record says when it was reset, and lists it: it is
// made with the first key of the group, and stays.

// Group is a group of keys.
type Group struct {
	Name string `json:"name"`
	Keys int64  `json:"keys" doc:"Number of keys; list-keys lists them"`
}

// keysPerGroup is how many entries of the lists of groups are read for each group of a page.
const keysPerGroup = 20

// Groups returns up to count groups with keys whose names start with a prefix, ignoring
// case, in the order of their names. They follow the group after, unless it is empty. It
// reads a page in one flush, and in another the sizes of groups with many keys.
func (s *Store) Groups(ctx context.Context, prefix, after string, count int) ([]Group, error) {
	var groups []Group
	prefix = strings.ToLower(prefix)
	names := changes.Part{Begin: allGroups + "\x00" + prefix, Limit: count}
	keys := changes.Part{Begin: groupLists + prefix, Limit: keysPerGroup * count}
	for len(groups) < count {
		if after != "" {
			names.After = allGroups + "\x00" + member(after, after)
			keys.After = groupList(after) + "\x00\xff"
		}
		listed, err := s.log.List(ctx, names, keys)
		if err != nil {
			return nil, fmt.Errorf("registry: list groups: %w", err)
		}
		found := listed[0].Entries
		sizes, err := s.groupSizes(ctx, found, listed[1].Entries, len(listed[1].Entries) == keys.Limit)
		if err != nil {
			return nil, err
		}
		for _, entry := range found {
			name := memberID(entry)
			if sizes[name] > 0 && len(groups) < count {
				groups = append(groups, Group{name, int64(sizes[name])})
			}
			after = name
		}
		if len(found) < count {
			break
		}
	}
	return groups, nil
}

// groupSizes returns the number of keys of each listed group. keys are entries of their
// lists, in order; cut says that more follow. It counts the groups from the last one on.
func (s *Store) groupSizes(ctx context.Context, groups, keys []string, cut bool) (map[string]int, error) {
	sizes, last := map[string]int{}, ""
	for _, entry := range keys {
		entry = strings.TrimPrefix(entry, groupLists)
		parts := strings.SplitN(entry, "\x00", 3)
		last = member(parts[1], parts[1])
		sizes[parts[1]]++
	}
	var rest, lists []string
	for _, entry := range groups {
		name := memberID(entry)
		if cut && member(name, name) >= last {
			rest, lists = append(rest, name), append(lists, groupList(name))
		}
	}
	if len(rest) == 0 {
		return sizes, nil
	}
	counts, err := s.counts(ctx, lists)
	for i, n := range counts {
		sizes[rest[i]] = n
	}
	return sizes, err
}

// ResetGroup writes that what a group was counted up to now does not count. The counts of
// its keys stay. It fails with ErrNotFound for a group without keys.
func (s *Store) ResetGroup(ctx context.Context, name string, edit Edit) error {
	if err := edit.Validate(); err != nil {
		return err
	}
	id := policy.GroupID(name)
	now, err := s.serverTime(ctx, id)
	if err != nil {
		return err
	}
	receipt, err := s.log.Edit(ctx, edit.change(GroupReset),
		func(ctx context.Context, r *changes.Reader) ([]changes.Item, error) {
			if n, err := r.Count(ctx, groupList(name)+"\x00"); err != nil || n == 0 {
				return nil, cmp.Or(err, policy.ErrNotFound)
			}
			if _, err := r.Get(ctx, id); err != nil {
				return nil, err
			}
			return []changes.Item{{Record: id, After: policyset.EncodeGroup(now.UnixMicro(), name)}}, nil
		})
	if err != nil {
		return editError(err)
	}
	return acknowledge(receipt)
}

// OverrideGroup gives the keys of a group limits in place of their plans' until the
// override ends; nil ends it at once. Counts stay, and a key's own override wins. Every
// check that starts after it returns obeys. It fails with ErrNotFound for a group without
// keys, or without an override to end; otherwise as SaveSet does.
func (s *Store) OverrideGroup(ctx context.Context, name string, o *policy.Override, edit Edit) (*policy.Set,
	error) {
	action := GroupOverride
	if o == nil {
		action = GroupEnd
	}
	return s.editGroup(ctx, name, action, edit, func(next *policy.Set) error {
		if o != nil {
			next.GroupOverrides[name] = *o
			return o.Validate(next)
		}
		if over, found := next.GroupOverrides[name]; !found || !over.ActiveAt(s.Now()) {
			return policy.ErrNotFound
		}
		delete(next.GroupOverrides, name)
		return nil
	})
}

// BillGroup says when the billing months of a group begin: the zero value for the first day
// of a month in UTC. It fails with ErrNotFound for a group without keys; otherwise as
// SaveSet does.
func (s *Store) BillGroup(ctx context.Context, name string, b limits.Billing, edit Edit) (*policy.Set,
	error) {
	return s.editGroup(ctx, name, GroupBilling, edit, func(next *policy.Set) error {
		if next.GroupBilling[name] = b; b == (limits.Billing{}) {
			delete(next.GroupBilling, name)
		}
		return next.Validate()
	})
}

// editGroup changes what the policy says of a group with keys. As SaveSet does, it puts the
// change of the version that the edit is based on into the current set.
func (s *Store) editGroup(ctx context.Context, name, action string, edit Edit,
	change func(next *policy.Set) error) (*policy.Set, error) {
	return s.editSet(ctx, action, edit, func(ctx context.Context, r *changes.Reader,
		current *policy.Set) (*policy.Set, error) {
		if n, err := r.Count(ctx, groupList(name)+"\x00"); err != nil || n == 0 {
			return nil, cmp.Or(err, policy.ErrNotFound)
		}
		base := current
		if edit.Version > 0 {
			var err error
			if base, err = s.baseOf(ctx, edit.Version, current); err != nil {
				return nil, err
			}
		}
		next := *base
		next.GroupOverrides, next.GroupBilling = map[string]policy.Override{}, map[string]limits.Billing{}
		maps.Copy(next.GroupOverrides, base.GroupOverrides)
		maps.Copy(next.GroupBilling, base.GroupBilling)
		if err := change(&next); err != nil {
			return nil, err
		}
		merged, err := merge(base, &next, current)
		if err == nil {
			s.dropEnded(merged)
		}
		return merged, err
	})
}
