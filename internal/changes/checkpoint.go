package changes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"tidegate/internal/objects"
)

// checkpointBytes is how many bytes of changes make a checkpoint due, also if they are
// fewer than maxBehind.
const checkpointBytes = 32 << 20

// State is a bucket at a position. Its checkpoint is an object of its own, folded from the
// one before and the log, never from Valkey.
type State struct {
	Bucket  int             `json:"bucket"`
	At      Position        `json:"at"`
	Policy  uint64          `json:"policy"` // number of the policy's last change
	Records map[string]Kept `json:"records"`
}

// Kept is a record in a checkpoint.
type Kept struct {
	Number  uint64 `json:"number"` // of its last change
	Content []byte `json:"content"`
}

// apply brings the state to the change after it.
func (s *State) apply(c Change) {
	for _, i := range c.in[s.Bucket] {
		if len(i.After) == 0 {
			delete(s.Records, i.Record)
		} else {
			s.Records[i.Record] = Kept{c.Number, i.After}
		}
	}
	if c.policy() {
		s.Policy = c.Number
	}
	s.At = c.position()
}

func stateName(b int) string { return fmt.Sprintf("state/%02x", b) }

// checkpoint reads a bucket's checkpoint. One that is missing or damaged is empty: the
// state is then folded from change 1.
func (l *Log) checkpoint(ctx context.Context, b int) (State, error) {
	empty := State{Bucket: b, Records: map[string]Kept{}}
	content, err := l.store.Read(ctx, stateName(b))
	if errors.Is(err, objects.ErrNotFound) {
		return empty, nil
	}
	if err != nil {
		return empty, fmt.Errorf("%w: %w", ErrStore, err)
	}
	s := empty
	if _, err := l.unseal(stateName(b), content, &s); err != nil || s.Bucket != b {
		return empty, nil //nolint:nilerr // damaged
	}
	return s, nil
}

// states returns buckets at the newest change. A checkpoint that the log does not have is
// an error, since the log lost changes; with force it counts as missing.
func (r *reading) states(ctx context.Context, buckets []int, force bool) ([]State, error) {
	states := make([]State, len(buckets))
	if err := parallel(len(buckets), r.l.atOnce, func(i int) (err error) {
		states[i], err = r.l.checkpoint(ctx, buckets[i])
		return err
	}); err != nil {
		return nil, err
	}
	for i := range states {
		s := &states[i]
		if err := r.has(ctx, s.At); err != nil && (!force || !errors.Is(err, ErrAhead)) {
			return nil, err
		} else if err != nil || r.voidIn(s.At) {
			*s = State{Bucket: s.Bucket, Records: map[string]Kept{}}
		}
		if err := r.each(ctx, s.At.Number+1, func(c Change) error {
			s.apply(c)
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return states, nil
}

// voidIn reports whether a checkpoint has a change that is nothing.
func (r *reading) voidIn(at Position) bool {
	return slices.ContainsFunc(r.void, func(v Void) bool { return v.Number <= at.Number && at.Number < v.By })
}

// writeCheckpoints writes the checkpoints of all buckets if they are due: bucket 0 last,
// whose checkpoint says when the next ones are.
func (r *reading) writeCheckpoints(ctx context.Context) error {
	if r.l.looked.Load() == r.newest.Number {
		return nil
	}
	last := r.l.due.Load()
	if last == 0 {
		s, err := r.l.checkpoint(ctx, 0)
		if err != nil {
			return err
		}
		last = s.At.Number
		r.l.due.Store(last)
	}
	if last >= r.newest.Number {
		return nil
	}
	listed, err := r.l.store.List(ctx, prefix, name(max(last, 1)))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	var size int64
	for _, o := range listed {
		size += o.Size
	}
	if r.newest.Number-last < r.l.behind && size < r.l.bytes {
		r.l.looked.Store(r.newest.Number)
		return nil
	}
	return r.writeStates(ctx, false)
}

// writeStates writes all checkpoints. force replaces those that the log does not have.
func (r *reading) writeStates(ctx context.Context, force bool) error {
	for b := r.l.buckets - 1; b >= 0; b-- {
		states, err := r.states(ctx, []int{b}, force)
		if err != nil {
			return err
		}
		content, err := r.l.seal(stateName(b), states[0])
		if err != nil {
			return err
		}
		if err := r.l.store.Replace(ctx, stateName(b), content, func(stored []byte) bool {
			var other State
			_, err := r.l.unseal(stateName(b), stored, &other)
			return !force && err == nil && other.At.Number > r.newest.Number
		}); err != nil {
			return fmt.Errorf("%w: %w", ErrStore, err)
		}
	}
	r.l.due.Store(r.newest.Number)
	return nil
}
