package app

import (
	"context"
	"errors"
	"time"

	"tidegate/internal/policy"
)

// Bounds of one step of a job.
const (
	Chunk       = 200                     // keys
	stepTimeout = 1200 * time.Millisecond // and for how long
)

// NeedsCount reports whether the change harms callers and cannot simply be taken back, so
// that on all keys of a filter it is to be confirmed with their number.
func (c KeyChange) NeedsCount() bool { return c.Do == Revoke || c.Do == Reset }

// Selection says which keys a job means: those with the ids, or all that Filter means.
type Selection struct {
	IDs    []string
	Filter *KeyFilter // nil for the ids
	After  string     // cursor where the step before ended
}

// Step is what one step of a job did.
type Step struct {
	Done, Skipped int64
	Failed        []Failure
	Next          string // cursor where the job goes on; empty when all is done
}

// Failure is a key that could not be changed.
type Failure struct {
	ID    string
	Cause error
}

// Step changes the next keys that are meant, up to Chunk of them for about a second. It
// fails when they cannot be listed, or with the context.
func (c KeyChange) Step(
	ctx context.Context, keys *Registry, set *policy.Set, of Selection, edit Edit,
) (Step, error) {
	list, next, err := of.keys(ctx, keys, set)
	if err != nil {
		return Step{}, err
	}
	step, deadline := Step{Next: next}, time.Now().Add(stepTimeout)
	for i, k := range list {
		changed, err := c.apply(ctx, keys, k, edit)
		switch {
		case ctx.Err() != nil:
			return step, ctx.Err()
		case err != nil:
			step.Failed = append(step.Failed, Failure{k.ID, err})
		case changed:
			step.Done++
		default:
			step.Skipped++
		}
		if i+1 < len(list) && of.Filter != nil && time.Now().After(deadline) {
			step.Next = of.Filter.cursor(k)
			break
		}
	}
	return step, nil
}

// keys are the next keys that are meant, and the cursor behind them.
func (s Selection) keys(
	ctx context.Context, keys *Registry, set *policy.Set,
) ([]policy.Key, string, error) {
	if s.Filter == nil {
		list, err := keys.Many(ctx, set, s.IDs)
		return list, "", err
	}
	found, err := FindKeys(ctx, keys, set, *s.Filter, s.After, Chunk)
	list := make([]policy.Key, len(found.Subjects))
	for i, subject := range found.Subjects {
		list[i] = subject.Key
	}
	return list, found.Next, err
}

// apply changes a key, once more if somebody else just did, and reports whether there was
// anything to change. Keys that are not active are left alone.
func (c KeyChange) apply(ctx context.Context, keys *Registry, k policy.Key,
	edit Edit) (bool, error) {
	if k.Status != policy.Active {
		return false, nil
	}
	changed, current, err := c.change(ctx, keys, k, edit)
	if errors.Is(err, policy.ErrConflict) && current.Status == policy.Active {
		changed, _, err = c.change(ctx, keys, current, edit)
	}
	if errors.Is(err, policy.ErrNotFound) {
		return false, nil
	}
	return changed, err
}

func (c KeyChange) change(ctx context.Context, keys *Registry, k policy.Key,
	edit Edit) (changed bool, current policy.Key, err error) {
	switch {
	case c.Do == Plan && k.Plan == c.Plan, c.Do == End && k.Override == nil:
		return false, k, nil
	}
	current, err = keys.Change(ctx, k.ID, Base{Version: k.Version}, c, edit)
	return current.Version != k.Version, current, err
}
