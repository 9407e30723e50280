package changes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"tidegate/internal/objects"
)

// reading is the log as one request sees it.
type reading struct {
	l      *Log
	view   []bucket // as read before newest, later as brought
	newest Position
	void   []Void // as the newest change says
	known  map[uint64]Change
	held   int64  // bytes of what is known
	there  uint64 // the position of a bucket that has the policy
}

// begin reads all positions in one flush and then finds the newest change, by a list from
// the greatest position on. So a bucket ahead of the log is seen, and a hole by whoever
// brings a bucket over it. force looks for no positions.
func (l *Log) begin(ctx context.Context, force bool) (*reading, error) {
	r := &reading{l: l, view: make([]bucket, l.buckets), known: map[uint64]Change{}}
	var greatest Position
	if !force {
		r.view = l.positions(ctx, all(l.buckets))
		away := 0
		for _, b := range r.view {
			if b.err != nil {
				away++
			} else if b.at.Number > greatest.Number {
				greatest = b.at
			}
		}
		if away == l.buckets {
			return nil, fmt.Errorf("%w: %w", ErrView, r.view[0].err)
		}
		if greatest.Number == 0 {
			s, err := l.checkpoint(ctx, 0)
			if err != nil {
				return nil, err
			}
			greatest = s.At
		}
	}
	return r, r.find(ctx, greatest)
}

// find finds the newest change after a position that the log must have. It lists and reads
// the change of that position, most often the newest, at the same time.
func (r *reading) find(ctx context.Context, known Position) error {
	from, after := max(known.Number, 1), ""
	if from > 1 {
		after = name(from - 1)
	}
	var listed []objects.Object
	var at Change
	err := parallel(2, r.l.atOnce, func(i int) (err error) {
		if i == 0 {
			if listed, err = r.l.store.List(ctx, prefix, after); err != nil {
				err = fmt.Errorf("%w: %w", ErrStore, err)
			}
		} else if known.Number > 0 {
			at, err = r.l.stored(ctx, known.Number)
		}
		return err
	})
	if err != nil {
		return err
	}
	if known.Number > 0 {
		r.hold(known.Number, at)
	}
	switch {
	case len(listed) == 0 && known.Number == 0:
		return ErrEmpty
	case len(listed) == 0:
		return ErrAhead
	}
	if r.newest.Number, err = numberOf(listed[len(listed)-1].Name); err != nil {
		return err
	}
	last, err := r.stored(ctx, r.newest.Number)
	if err == nil {
		err = last.bad
	}
	if err != nil {
		return err
	}
	r.newest, r.void = last.position(), last.Void
	return r.has(ctx, known)
}

// has reports a position that the log does not have. It fails with errAgain if the log has
// it and grew since it was read.
func (r *reading) has(ctx context.Context, p Position) error {
	if p.Number == 0 || r.isVoid(p.Number) {
		return nil
	}
	c, err := r.stored(ctx, p.Number)
	switch {
	case err != nil:
		return err
	case isMissing(c.bad) && p.Number > r.newest.Number:
		return ErrAhead
	case c.bad != nil:
		return c.bad
	case c.hash != p.Hash:
		return ErrAhead
	case p.Number > r.newest.Number:
		return errAgain
	}
	return nil
}

// change returns a change. One that is nothing is bad; another bad one is an error.
func (r *reading) change(ctx context.Context, n uint64) (Change, error) {
	c, err := r.stored(ctx, n)
	switch {
	case err != nil:
		return c, err
	case r.isVoid(n):
		c.bad = &DamagedError{Number: n}
	case c.bad != nil:
		return c, c.bad
	}
	return c, nil
}

func (r *reading) isVoid(n uint64) bool {
	return slices.ContainsFunc(r.void, func(v Void) bool { return v.Number == n })
}

// stored returns what stands at a number, once read.
func (r *reading) stored(ctx context.Context, n uint64) (Change, error) {
	if c, found := r.known[n]; found {
		return c, nil
	}
	c, err := r.l.stored(ctx, n)
	if err == nil {
		r.hold(n, c)
	}
	return c, err
}

func (r *reading) hold(n uint64, c Change) {
	r.known[n] = c
	r.held += int64(c.size)
}

// stored reads what stands at a number. What is missing or damaged is bad.
func (l *Log) stored(ctx context.Context, n uint64) (Change, error) {
	content, err := l.store.Read(ctx, name(n))
	switch {
	case errors.Is(err, objects.ErrNotFound):
		return Change{Number: n, hash: l.mac(name(n), nil), bad: &DamagedError{Number: n, Missing: true}}, nil
	case err != nil:
		return Change{}, fmt.Errorf("%w: %w", ErrStore, err)
	}
	return l.decode(n, content)
}

// each calls do for each change from a number on, in order, that is not nothing. Each must
// name the hash of the one before. What is before the last Log.behind changes, or more than
// Log.bytes, is not kept in memory.
func (r *reading) each(ctx context.Context, first uint64, do func(Change) error) error {
	for ; first <= r.newest.Number; first += uint64(r.l.atOnce) {
		last := min(first+uint64(r.l.atOnce)-1, r.newest.Number)
		if err := r.fetch(ctx, first, last); err != nil {
			return err
		}
		for n := first; n <= last; n++ {
			c, err := r.change(ctx, n)
			if err != nil {
				return err
			}
			before, found := r.known[n-1]
			if found && c.bad == nil && !r.isVoid(n-1) && c.Before != before.hash {
				return fmt.Errorf("%w: change %d does not follow the one before", ErrAhead, n)
			}
			if n+r.l.behind < r.newest.Number || r.held > r.l.bytes {
				r.held -= int64(before.size)
				delete(r.known, n-1)
			}
			if c.bad == nil {
				err = do(c)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// fetch reads changes into memory, several at a time.
func (r *reading) fetch(ctx context.Context, first, last uint64) error {
	var missing []uint64
	for n := first; n <= last; n++ {
		if _, found := r.known[n]; !found {
			missing = append(missing, n)
		}
	}
	found := make([]Change, len(missing))
	err := parallel(len(missing), r.l.atOnce, func(i int) (err error) {
		found[i], err = r.l.stored(ctx, missing[i])
		return err
	})
	for i, c := range found {
		if c.Number > 0 {
			r.hold(missing[i], c)
		}
	}
	return err
}
