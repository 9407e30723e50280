package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"tidegate/internal/changes"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
)

// Set returns the policy set in force, without the overrides of groups that ended: they
// would stay until somebody overrides another group.
func (s *Store) Set(ctx context.Context) (*policy.Set, error) {
	set, err := policyset.LoadSet(ctx, s.client)
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	s.dropEnded(set)
	return set, nil
}

func (s *Store) dropEnded(set *policy.Set) {
	maps.DeleteFunc(set.GroupOverrides, func(_ string, o policy.Override) bool {
		return !o.ActiveAt(s.Now())
	})
}

// SaveSet replaces the policy set. next.Version is the one that the edit was based on. If
// another is current, what the edit changes is put into the current set, part by part: a
// plan, a route, a limit, an override, a list. If both changed a part, nothing is written,
// and the current set is returned with ErrConflict. New plans get numbers. Bad input is an
// *InvalidError. After a nil error, every check that starts obeys the new set.
func (s *Store) SaveSet(ctx context.Context, next policy.Set, edit Edit) (*policy.Set, error) {
	return s.editSet(ctx, PolicySave, edit, func(ctx context.Context, _ *changes.Reader,
		current *policy.Set) (*policy.Set, error) {
		base, err := s.baseOf(ctx, next.Version, current)
		if err != nil {
			return nil, err
		}
		basis := *base
		basis.NextNumber = max(base.NextNumber, current.NextNumber)
		identified, err := policy.Identify(next, &basis)
		if err != nil {
			return nil, err
		}
		return merge(base, identified, current)
	})
}

// baseOf returns the set that an edit was based on. It fails with ErrConflict if the log
// does not have it.
func (s *Store) baseOf(ctx context.Context, version int64, current *policy.Set) (*policy.Set, error) {
	if version == current.Version {
		return current, nil
	}
	if version < 1 || version > current.Version {
		return nil, policy.ErrConflict
	}
	c, err := s.log.Change(ctx, uint64(version))
	if _, damaged := errors.AsType[*changes.DamagedError](err); damaged {
		return nil, policy.ErrConflict
	}
	if err != nil {
		return nil, err
	}
	for _, i := range c.Items {
		if i.Record == changes.Policy {
			return policyset.DecodeSet(c.Number, i.After)
		}
	}
	return nil, policy.ErrConflict
}

// Follows reports whether an edit that was made to a version of the policy set changes only
// parts of it that nobody changed since, so that it may be made to the current set. edit
// makes it, and returns false if it cannot.
func (s *Store) Follows(ctx context.Context, version int64, current *policy.Set,
	edit func(*policy.Set) bool) (bool, error) {
	base, err := s.baseOf(ctx, version, current)
	if errors.Is(err, policy.ErrConflict) {
		return false, nil
	}
	if err != nil {
		return false, editError(err)
	}
	next := *base
	next.Plans, next.Routes = slices.Clone(base.Plans), slices.Clone(base.Routes)
	if !edit(&next) {
		return false, nil
	}
	_, err = merge(base, &next, current)
	return err == nil, nil
}

// editSet replaces the policy set by what change returns for the current one. With
// ErrConflict it returns the current set.
func (s *Store) editSet(ctx context.Context, action string, edit Edit,
	change func(context.Context, *changes.Reader, *policy.Set) (*policy.Set, error)) (*policy.Set, error) {
	if err := edit.Validate(); err != nil {
		return nil, err
	}
	var saved *policy.Set
	receipt, err := s.log.Edit(ctx, edit.change(action),
		func(ctx context.Context, r *changes.Reader) ([]changes.Item, error) {
			current, before, err := readSet(ctx, r)
			if err != nil {
				return nil, err
			}
			saved = current
			next, err := change(ctx, r, current)
			if err != nil {
				return nil, err
			}
			after, err := checkSet(next)
			if err != nil {
				return nil, err
			}
			if err := checkDropped(next, current, func(lists ...string) ([]int, error) {
				return countAt(ctx, r, lists)
			}); err != nil || bytes.Equal(before, after) {
				return nil, err
			}
			saved = next
			return []changes.Item{{Record: changes.Policy, After: after}}, nil
		})
	switch {
	case errors.Is(err, policy.ErrConflict):
		s.dropEnded(saved)
		return saved, policy.ErrConflict
	case err != nil:
		return nil, editError(err)
	case receipt.Number > 0:
		saved.Version = int64(receipt.Number)
	}
	s.dropEnded(saved)
	return saved, acknowledge(receipt)
}

// editError returns the error of an edit: of its judge as it is, else with its package.
func editError(err error) error {
	if _, bad := errors.AsType[*policy.InvalidError](err); bad || errors.Is(err, policy.ErrNotFound) ||
		errors.Is(err, policy.ErrConflict) || errors.Is(err, policy.ErrUnreadable) {
		return err
	}
	return fmt.Errorf("registry: %w", err)
}

// readSet reads the policy set at the newest change.
func readSet(ctx context.Context, r *changes.Reader) (*policy.Set, []byte, error) {
	found, err := r.Get(ctx, changes.Policy)
	if err != nil {
		return nil, nil, err
	}
	set, err := policyset.DecodeSet(found[0].Number, found[0].Content)
	return set, found[0].Content, err
}

// countAt counts the entries of lists at the newest change.
func countAt(ctx context.Context, r *changes.Reader, lists []string) ([]int, error) {
	counts := make([]int, len(lists))
	for i, list := range lists {
		var err error
		if counts[i], err = r.Count(ctx, list+"\x00"); err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// CheckSet returns next as SaveSet would save it in place of current, with the numbers of
// its new plans and the IDs of its new routes. It fails with the *InvalidError of SaveSet,
// and writes nothing.
func (s *Store) CheckSet(ctx context.Context, next policy.Set, current *policy.Set) (*policy.Set, error) {
	checked, err := policy.Identify(next, current)
	if err != nil {
		return nil, err
	}
	if _, err := checkSet(checked); err != nil {
		return nil, err
	}
	return checked, checkDropped(checked, current, func(lists ...string) ([]int, error) {
		return s.counts(ctx, lists)
	})
}

// checkSet validates a set and returns its record.
func checkSet(set *policy.Set) ([]byte, error) {
	if err := set.Validate(); err != nil {
		return nil, err
	}
	record, err := policyset.EncodeSet(set)
	if err != nil {
		return nil, err
	}
	if n := len(record); n > policy.MaxSetBytes {
		return nil, invalid("routes",
			fmt.Sprintf("all policies take %d bytes: must be at most %d. Remove plans, routes or patterns "+
				"that nobody needs, or serve some APIs by a deployment of their own", n, policy.MaxSetBytes))
	}
	return record, nil
}

// checkDropped returns an *InvalidError if next lacks a plan of current that keys have.
func checkDropped(next, current *policy.Set, count func(lists ...string) ([]int, error)) error {
	var dropped []policy.Plan
	var lists []string
	for _, p := range current.Plans {
		if _, found := next.PlanByNumber(p.Number); !found {
			dropped, lists = append(dropped, p), append(lists, planList(p.Number))
		}
	}
	if len(dropped) == 0 {
		return nil
	}
	counts, err := count(lists...)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(counts, func(n int) bool { return n > 0 }); i >= 0 {
		return invalid("plans", fmt.Sprintf("must keep plan %q: keys use it (%d). Change their plan first",
			dropped[i].Name, counts[i]))
	}
	return nil
}
