package app

import (
	"context"
	"slices"

	"tidegate/internal/policy"
	"tidegate/internal/records"
)

// DeniedCaller is a caller without a record, with the limits that deny it now.
type DeniedCaller struct {
	ID      string
	Deniers []Denier
}

// KeysIn returns the keys in a state that a list has, at most count, in the order of the
// list. more reports whether others may be in it too.
func (r *Registry) KeysIn(ctx context.Context, set *policy.Set, l records.List, s State, count int) (
	all []Subject, more bool, err error) {
	listed, err := r.calls.InState(ctx, l, true, "", count)
	if err != nil || len(listed.IDs) == 0 {
		return nil, false, err
	}
	found, err := r.Many(ctx, set, listed.IDs)
	if err != nil {
		return nil, false, err
	}
	all, err = subjects(ctx, r, set, s, found)
	all = slices.DeleteFunc(all, func(k Subject) bool { return !k.Is(s) })
	return all, listed.Next != "", err
}

// DeniedCallers returns callers without a record that limits deny now, at most count. more
// reports whether there may be others.
func (r *Registry) DeniedCallers(ctx context.Context, count int) (all []DeniedCaller, more bool, err error) {
	listed, err := r.calls.InState(ctx, records.DeniedNow, false, "", count)
	if err != nil || len(listed.IDs) == 0 {
		return nil, false, err
	}
	deniers, err := r.CallerDeniers(ctx, listed.IDs)
	if err != nil {
		return nil, false, err
	}
	for i, id := range listed.IDs {
		if len(deniers[i]) > 0 {
			all = append(all, DeniedCaller{id, deniers[i]})
		}
	}
	return all, listed.Next != "", nil
}

// maxCountedNow bounds the callers that CountDenied reads.
const maxCountedNow = 50

// CountDenied returns how many callers limits deny now. more reports whether it stopped
// early.
func (r *Registry) CountDenied(ctx context.Context, set *policy.Set) (n int, more bool, err error) {
	keys, moreKeys, err := r.KeysIn(ctx, set, records.DeniedNow, Blocked, maxCountedNow)
	if err != nil {
		return 0, false, err
	}
	others, moreOthers, err := r.DeniedCallers(ctx, maxCountedNow)
	return len(keys) + len(others), moreKeys || moreOthers, err
}
