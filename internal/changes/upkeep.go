package changes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// Start writes change 1 if the log is empty, with the policy that it starts with, and
// brings all buckets to the newest change.
func (l *Log) Start(ctx context.Context, policy []byte) error {
	r, err := l.begin(ctx, false)
	if errors.Is(err, ErrEmpty) {
		first := Change{ID: l.random(), Items: []Item{{Record: Policy, After: policy}}}
		first.Format, first.Number, first.Time = format, 1, l.o.Now().UTC()
		if _, err = l.put(ctx, l.o.Now(), first); err == nil {
			r, err = l.begin(ctx, false)
		}
	}
	if err != nil {
		return err
	}
	return r.catchUp(ctx)
}

// CatchUp brings all buckets to the newest change, stores their marks, and writes
// checkpoints if they are due. It does what it can and then returns the buckets' errors. It
// runs once a minute.
func (l *Log) CatchUp(ctx context.Context) error {
	r, err := l.begin(ctx, false)
	if err != nil {
		return err
	}
	return r.catchUp(ctx)
}

func (r *reading) catchUp(ctx context.Context) error {
	r.bring(ctx, all(r.l.buckets))
	marked := make([]bucket, r.l.buckets)
	r.l.read(ctx, marked, all(r.l.buckets), nil)
	failed := make([]error, r.l.buckets)
	for b, v := range r.view {
		if v.err != nil && !errors.Is(v.err, errAgain) {
			failed[b] = v.err
			continue
		}
		if v.at.Number < r.newest.Number { // the log grew while it was made again, or it was lost anew
			failed[b] = fmt.Errorf("%w: at change %d", ErrView, v.at.Number)
			continue
		}
		if len(marked[b].marks) == 0 {
			continue
		}
		settle := func(ctx context.Context, reader *Reader) ([]Item, error) {
			return nil, reader.at(ctx, []int{b}, nil)
		}
		if _, err := r.l.edit(ctx, Edit{}, r.l.o.Now(), settle); err != nil {
			failed[b] = fmt.Errorf("its marks: %w", err)
		}
	}
	errs := []error{byReason(failed)}
	if err := r.writeCheckpoints(ctx); !errors.Is(err, errAgain) { // else the next minute does it
		errs = append(errs, err)
	}
	return errors.Join(append(errs, r.fillAudit(ctx))...)
}

// byReason joins the errors of buckets, one for each reason: a shard that is away has 85 of
// them.
func byReason(failed []error) error {
	counts := map[string]int{}
	for _, err := range failed {
		if err != nil {
			counts[err.Error()]++
		}
	}
	var reasons []error
	for b, err := range failed {
		if err == nil {
			continue
		}
		if n := counts[err.Error()]; n > 0 {
			reasons = append(reasons, fmt.Errorf("%d of %d buckets, the first is %d: %w", n, len(failed), b,
				err))
			counts[err.Error()] = 0
		}
	}
	return errors.Join(reasons...)
}

// Status is how far the view is.
type Status struct {
	Newest uint64 // number of the newest change
	Lowest uint64 // position of the bucket that is farthest behind; 0 if one is lost
	Behind int    // buckets that are not at the newest change
	Away   int    // buckets that do not answer
	Marks  int    // marks that are not stored yet
}

// Status returns how far the view is. An error says why edits are refused.
func (l *Log) Status(ctx context.Context) (Status, error) {
	view := make([]bucket, l.buckets)
	l.read(ctx, view, all(l.buckets), nil)
	var s Status
	for _, b := range view {
		s.Marks += len(b.marks)
		if b.err != nil {
			s.Away++
		}
	}
	r, err := l.begin(ctx, false)
	if r == nil {
		return s, err
	}
	s.Newest, s.Lowest = r.newest.Number, r.newest.Number
	for _, b := range r.view {
		if b.err == nil && b.at != r.newest {
			s.Behind++
			s.Lowest = min(s.Lowest, b.at.Number)
		}
	}
	if err == nil && s.Behind > 0 && s.Newest-s.Lowest <= l.behind {
		err = r.each(ctx, s.Lowest+1, func(Change) error { return nil })
	}
	return s, err
}

// TakeOver makes the whole view again from this log, and its checkpoints, whatever Valkey
// and these hold. Marks stay.
func (l *Log) TakeOver(ctx context.Context) error {
	r, err := l.begin(ctx, true)
	if err != nil {
		return err
	}
	documents := l.documents()
	turns := slices.Collect(slices.Chunk(others(l.buckets, documents), group))
	turns = slices.Insert(turns, 0, documents)
	for _, buckets := range turns {
		r.remake(ctx, buckets, true)
		for _, b := range buckets {
			if err := r.view[b].err; err != nil {
				return fmt.Errorf("bucket %d: %w", b, err)
			}
		}
	}
	return errors.Join(l.forgetAudit(ctx), r.writeStates(ctx, true))
}

// Void stores a change that says that an earlier one, which is missing or damaged, is
// nothing. Every bucket is made again without it.
func (l *Log) Void(ctx context.Context, e Edit, number uint64) error {
	began := l.o.Now()
	if e.ID == "" {
		e.ID = l.random()
	}
	for {
		r, err := l.beginVoid(ctx, number)
		if err != nil {
			return err
		}
		c := e.change()
		c.Format, c.Number, c.Time = format, r.newest.Number+1, l.o.Now().UTC()
		c.Before, c.Void = r.newest.Hash, slices.Concat(r.void, []Void{{number, r.newest.Number + 1}})
		stored, err := l.put(ctx, began, c)
		if err != nil {
			return err
		}
		if stored.ID == e.ID {
			return l.CatchUp(ctx)
		}
	}
}

// beginVoid finds the newest change, whole or not, that the log or a bucket has, and what
// is nothing already. It fails if the change with this number is whole.
func (l *Log) beginVoid(ctx context.Context, number uint64) (*reading, error) {
	r := &reading{l: l, known: map[uint64]Change{}}
	listed, err := l.store.List(ctx, prefix, name(max(number, 2)-1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStore, err)
	}
	if len(listed) > 0 {
		if r.newest.Number, err = numberOf(listed[len(listed)-1].Name); err != nil {
			return nil, err
		}
	}
	for _, b := range l.positions(ctx, all(l.buckets)) {
		r.newest.Number = max(r.newest.Number, b.at.Number)
	}
	if number < 2 || number > r.newest.Number {
		return nil, fmt.Errorf("changes: there is no change %d to void", number)
	}
	if c, err := r.stored(ctx, number); err != nil || c.bad == nil {
		return nil, cmp.Or(err, fmt.Errorf("changes: change %d is whole", number))
	}
	c, err := r.stored(ctx, r.newest.Number)
	r.newest.Hash = c.hash
	for n := r.newest.Number - 1; err == nil && c.bad != nil && n > 0; n-- {
		c, err = r.stored(ctx, n) // the last whole one says what is nothing
	}
	r.void = c.Void
	return r, err
}

// Verify reads the whole log: every change is whole and names the hash of the one before.
// It returns the number of the newest. It does not need Valkey.
func (l *Log) Verify(ctx context.Context) (uint64, error) {
	r, err := l.begin(ctx, true)
	if err != nil {
		return 0, err
	}
	return r.newest.Number, r.each(ctx, 1, func(Change) error { return nil })
}
