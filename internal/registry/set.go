package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
)

// Set returns the policy set in force, without the overrides of groups that ended. Before
// the first save it has version 0 and no plans.
func (s *Store) Set(ctx context.Context) (*policy.Set, error) {
	set, _, err := s.newestSet(ctx)
	return set, err
}

// newestSet returns what policyset.NewestSet does, without the overrides that ended: they
// would stay until somebody overrides another group, and each save would be checked
// against them.
func (s *Store) newestSet(ctx context.Context) (newest, stored *policy.Set, err error) {
	newest, stored, err = policyset.NewestSet(ctx, s.client)
	if err == nil {
		maps.DeleteFunc(newest.GroupOverrides, func(_ string, o policy.Override) bool {
			return !o.ActiveAt(s.Now())
		})
	}
	return newest, stored, err
}

// SaveSet replaces the policy set. next.Version is the one that the edit was based on. If
// it is no longer current, nothing is written, and the current set is returned with
// ErrConflict. New plans get numbers. Bad input is an *InvalidError. After a nil error,
// every check that starts obeys the new set. With ErrUnfinished the set is saved, but not
// in force everywhere.
func (s *Store) SaveSet(ctx context.Context, next policy.Set, edit Edit) (*policy.Set, error) {
	return s.saveSet(ctx, next, edit.entry(audit.PolicySave, "", 0))
}

// saveSet is SaveSet with an audit entry, whose version it sets.
func (s *Store) saveSet(ctx context.Context, next policy.Set, entry audit.Entry) (*policy.Set, error) {
	found, err := s.readVersions(ctx)
	if err != nil {
		return nil, err
	}
	current, stored, err := s.newestSet(ctx)
	if err != nil {
		return nil, err
	}
	if current.Version != next.Version {
		return current, policy.ErrConflict
	}
	basis := *current
	found.raiseVersion(&basis, current)
	saved, err := s.CheckSet(ctx, next, &basis)
	if err != nil {
		return nil, err
	}
	saved.Version = basis.Version
	entry.Version = saved.Version
	newer, err := s.writeSet(ctx, saved, current, stored.Version, entry)
	if err != nil {
		return newer, err
	}
	return saved, s.Distribute(ctx, saved)
}

// CheckSet returns next as SaveSet would save it in place of current, with the numbers of
// its new plans and the IDs of its new routes. It fails with the *InvalidError of SaveSet,
// and writes nothing.
func (s *Store) CheckSet(ctx context.Context, next policy.Set, current *policy.Set) (*policy.Set, error) {
	checked, err := policy.Identify(next, current)
	if err != nil {
		return nil, err
	}
	if err := checked.Validate(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(checked)
	if err != nil {
		return nil, fmt.Errorf("registry: check set: %w", err)
	}
	if n := len(text); n > policy.MaxSetBytes {
		return nil, invalid("routes",
			fmt.Sprintf("all policies take %d bytes: must be at most %d. Remove plans, routes or patterns "+
				"that nobody needs, or serve some APIs by a deployment of their own", n, policy.MaxSetBytes))
	}
	return checked, s.checkDropped(ctx, checked, current)
}

// writeSet writes the record of next, if the stored record has the version stored. It
// adds next and before, the set that it replaces, to the audit entry. With ErrConflict it
// returns the stored set.
func (s *Store) writeSet(ctx context.Context, next, before *policy.Set, stored int64,
	entry audit.Entry) (newer *policy.Set, err error) {
	if entry.After, err = json.Marshal(next); err != nil {
		return nil, fmt.Errorf("registry: save set: %w", err)
	}
	if entry.Before, err = json.Marshal(before); err != nil {
		return nil, fmt.Errorf("registry: save set: %w", err)
	}
	e := recordEdit{
		id:        policyset.SetID,
		key:       policyset.SetKey,
		versionAt: 1,
		expected:  stored,
		record:    policyset.EncodeSet(next.Version, entry.After),
		entry:     entry,
	}
	record, err := s.write(ctx, e)
	if errors.Is(err, policy.ErrConflict) {
		newer, decodeErr := policyset.DecodeSet(record)
		return newer, errors.Join(err, decodeErr)
	}
	return nil, err
}

// checkDropped returns an *InvalidError if next lacks a plan of current that keys have.
func (s *Store) checkDropped(ctx context.Context, next, current *policy.Set) error {
	for _, p := range current.Plans {
		if _, found := next.PlanByNumber(p.Number); found {
			continue
		}
		used, err := s.planInUse(ctx, current, p.Number)
		if err != nil {
			return fmt.Errorf("registry: save set: %w", err)
		}
		if !used {
			continue
		}
		n, err := s.Count(ctx, Query{Plan: p.Number})
		if err != nil {
			return fmt.Errorf("registry: save set: %w", err)
		}
		return invalid("plans",
			fmt.Sprintf("must keep plan %q: keys use it (%d). Change their plan first", p.Name, n))
	}
	return nil
}
