package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
)

// Set returns the Set in force. Before the first save it has version 0 and no plans.
func (s *Store) Set(ctx context.Context) (*policy.Set, error) {
	set, _, err := policyset.NewestSet(ctx, s.client)
	return set, err
}

// SaveSet replaces the Set. next.Version is the one that the edit was based on: when it
// is no longer current nothing is written, and the current Set comes back with
// ErrConflict. New plans get numbers. Bad input is an *InvalidError. Every check that
// starts after it returns without an error obeys the new Set. With ErrUnfinished the Set
// is saved, but not in force everywhere.
func (s *Store) SaveSet(ctx context.Context, next policy.Set, edit Edit) (*policy.Set, error) {
	found, err := s.spread(ctx)
	if err != nil {
		return nil, err
	}
	current, stored, err := policyset.NewestSet(ctx, s.client)
	if err != nil {
		return nil, err
	}
	if current.Version != next.Version {
		return current, policy.ErrConflict
	}
	basis := *current
	found.raise(&basis, current)
	saved, err := policy.Numbered(next, &basis)
	if err != nil {
		return nil, err
	}
	if err := saved.ValidateAfter(current); err != nil {
		return nil, err
	}
	if err := s.checkDropped(ctx, saved, current); err != nil {
		return nil, err
	}
	saved.Version, saved.ShrinkingLeases = basis.Version, current.ShrinkingLeasesAfter(saved, s.Now())
	newer, err := s.writeSet(ctx, saved, current, stored.Version,
		audit.Entry{By: edit.By, Action: audit.PolicySave, Reason: edit.Reason})
	if err != nil {
		return newer, err
	}
	return saved, s.Distribute(ctx, saved)
}

// writeSet writes next to the Set's record, which must have the version stored. The audit
// entry records before as the Set that it replaces.
func (s *Store) writeSet(ctx context.Context, next, before *policy.Set, stored int64,
	entry audit.Entry) (newer *policy.Set, err error) {
	entry.Version = next.Version
	if entry.After, err = json.Marshal(next); err != nil {
		return nil, fmt.Errorf("registry: save set: %w", err)
	}
	if n := len(entry.After); n > policy.MaxSetBytes {
		return nil, policy.Invalid(
			[]policy.FieldError{{Field: "routes",
				Message: fmt.Sprintf("the whole set takes %d bytes: must be at most %d", n,
					policy.MaxSetBytes)}},
		)
	}
	if entry.Before, err = json.Marshal(before); err != nil {
		return nil, fmt.Errorf("registry: save set: %w", err)
	}
	w := write{
		id:        policyset.SetID,
		key:       policyset.SetKey,
		versionAt: 1,
		expected:  stored,
		record:    policyset.Versioned(next.Version, entry.After),
		entry:     entry,
	}
	record, err := s.write(ctx, w)
	if errors.Is(err, policy.ErrConflict) {
		newer, decodeErr := policyset.DecodeSet(record)
		return newer, errors.Join(err, decodeErr)
	}
	return nil, err
}

// checkDropped refuses to drop a plan that keys have.
func (s *Store) checkDropped(ctx context.Context, next, current *policy.Set) error {
	for _, p := range current.Plans {
		if _, kept := next.Numbered(p.Number); kept {
			continue
		}
		used, err := s.inPlan(ctx, current, p.Number)
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
		return policy.Invalid([]policy.FieldError{{Field: "plans",
			Message: fmt.Sprintf("must keep plan %q: keys use it (%d). Change their plan first", p.Name, n)}})
	}
	return nil
}

// PlanCounts returns how many keys each plan has, by the plan's number. It counts places
// in lists, of which List drops those that an interrupted edit left behind.
func (s *Store) PlanCounts(ctx context.Context, set *policy.Set) (map[int]int64, error) {
	commands := make(valkey.Commands, len(set.Plans))
	for i, p := range set.Plans {
		commands[i] = s.client.B().Zcard().Key(planIndexKey(p.Number)).Build()
	}
	counts := make(map[int]int64, len(commands))
	if len(commands) == 0 {
		return counts, nil
	}
	for i, result := range s.client.DoMulti(ctx, commands...) {
		n, err := result.AsInt64()
		if err != nil {
			return nil, fmt.Errorf("registry: count keys: %w", err)
		}
		counts[set.Plans[i].Number] = n
	}
	return counts, nil
}
