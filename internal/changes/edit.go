package changes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tidegate/internal/lua"
)

// Edit says who changes something and why.
type Edit struct {
	ID     string // of the change; empty for a random one
	Action string
	By     string
	Why    string
}

func (e Edit) change() Change { return Change{ID: e.ID, Action: e.Action, By: e.By, Why: e.Why} }

// Receipt is what an edit may be told of.
type Receipt struct {
	ID string
	// Number is the change's number: it is stored. It is 0 if the edit changed nothing, or
	// if a mark is not stored yet.
	Number uint64
	// InForce means that the buckets that the change is about took it. Otherwise it is in
	// force when Valkey is back.
	InForce bool
	// Replicated means that the replicas, if there are any, have it too.
	Replicated bool
}

// Judge decides what an edit changes, by what it reads. It may be called several times. It
// must return the errors of its reader as they are. An item needs a record that the judge
// read, and its content afterwards.
type Judge func(ctx context.Context, r *Reader) ([]Item, error)

// Edit judges a change at the newest number and stores it, again and again until no other
// writer comes in between. After ErrUnknown the change may be stored: a new secret is shown
// with it. After other errors it is not, unless the receipt has a number: then the log is
// not the one that Valkey belongs to.
func (l *Log) Edit(ctx context.Context, e Edit, judge Judge) (Receipt, error) {
	return l.edit(ctx, e, l.o.Now(), judge)
}

func (l *Log) edit(ctx context.Context, e Edit, began time.Time, judge Judge) (Receipt, error) {
	if e.ID == "" {
		e.ID = l.random()
	}
	for {
		attempt := l.o.Now()
		if l.late(began) {
			return Receipt{ID: e.ID}, ErrLate
		}
		r, err := l.begin(ctx, false)
		if err != nil {
			return Receipt{ID: e.ID}, err
		}
		reader := &Reader{r: r, began: began, read: map[string]Record{}}
		items, err := judge(ctx, reader)
		if errors.Is(err, errAgain) {
			continue
		}
		if err != nil || len(items) == 0 {
			return Receipt{ID: e.ID}, err
		}
		if items, err = reader.complete(items); err != nil {
			return Receipt{ID: e.ID}, err
		}
		c := e.change()
		c.Items = items
		receipt, err := r.write(ctx, began, c)
		if !errors.Is(err, errAgain) {
			return receipt, err
		}
		l.pause(ctx, l.atRandom(crowd*l.o.Now().Sub(attempt)))
	}
}

// complete gives items what the judge read.
func (r *Reader) complete(items []Item) ([]Item, error) {
	if len(items) > MaxItems {
		return nil, fmt.Errorf("changes: %d items are more than %d", len(items), MaxItems)
	}
	items = slices.Clone(items)
	for i := range items {
		read, found := r.read[items[i].Record]
		if !found {
			return nil, fmt.Errorf("changes: record %q was not read, or has two items", items[i].Record)
		}
		items[i].Last, items[i].Before = read.Number, read.Content
		delete(r.read, read.Name) // a change has one item of a record
	}
	return items, nil
}

// write stores a change after the newest one, and brings it to the buckets. It fails with
// errAgain if another change got the number.
func (r *reading) write(ctx context.Context, began time.Time, c Change) (Receipt, error) {
	c.Format, c.Number, c.Before = format, r.newest.Number+1, r.newest.Hash
	c.Time, c.Void = r.l.o.Now().UTC(), r.void
	stored, err := r.l.put(ctx, began, c)
	if err != nil {
		return Receipt{ID: c.ID}, err
	}
	if stored.ID != c.ID {
		return Receipt{}, errAgain
	}
	return r.apply(ctx, stored)
}

// put gives a number to a change, if no other has it, and returns what stands there. It
// begins no attempt when the request is late.
func (l *Log) put(ctx context.Context, began time.Time, c Change) (Change, error) {
	content, err := l.seal(name(c.Number), c)
	if err != nil {
		return Change{}, err
	}
	ctx, cancel := context.WithDeadline(ctx, began.Add(within))
	defer cancel()
	for sent := false; ; {
		if l.late(began) || ctx.Err() != nil {
			if sent {
				return Change{}, ErrUnknown
			}
			return Change{}, ErrLate
		}
		err := l.store.Create(ctx, name(c.Number), content)
		if err == nil {
			return l.decode(c.Number, content)
		}
		sent = true // also if the name is taken: an attempt without an answer may have taken it
		found, err := l.stored(ctx, c.Number)
		switch {
		case err == nil && found.bad == nil:
			return found, nil
		case err == nil && !isMissing(found.bad): // it may be this change that is damaged
			return Change{}, fmt.Errorf("%w: %w", ErrUnknown, found.bad)
		}
		l.pause(ctx, retryAfter)
	}
}

// apply brings a change that is stored to all buckets: those with the policy first, if it
// changes the policy, then the others in one flush. Those that it is about must take it.
func (r *reading) apply(ctx context.Context, c Change) (Receipt, error) {
	receipt := Receipt{ID: c.ID, Number: c.Number}
	before := r.newest
	r.known[c.Number] = c
	r.newest = c.position()
	about := r.about(c)
	turns := [][]int{all(r.l.buckets)}
	if c.policy() {
		turns = [][]int{r.l.documents(), others(r.l.buckets, r.l.documents())}
	}
	for i, buckets := range turns {
		if i > 0 && r.policyIsThere(ctx, buckets[0], c.Number) != nil {
			break
		}
		runs := make([]lua.Run, len(buckets))
		for j, b := range buckets {
			runs[j] = r.l.takeRun(b, before, []Change{c})
		}
		for j, reply := range r.l.valkey.Run(ctx, takeScript, runs) {
			v := &r.view[buckets[j]]
			v.at, v.err = positionOf(reply)
			if slices.Contains(r.l.documents(), buckets[j]) && v.err == nil {
				r.there = max(r.there, v.at.Number)
			}
		}
	}
	return r.acknowledge(ctx, receipt, about)
}

// about returns the buckets that a change is about: of a policy, all.
func (r *reading) about(c Change) []int {
	if c.policy() {
		return all(r.l.buckets)
	}
	var about []int
	for b := range c.in {
		about = append(about, b)
	}
	slices.Sort(about)
	return about
}

func others(n int, but []int) []int {
	return slices.DeleteFunc(all(n), func(b int) bool { return slices.Contains(but, b) })
}

// acknowledge says whether buckets took the newest change. One that is behind is brought
// to it. After a later position, the change after must name this one's hash: otherwise
// Valkey belongs to another log.
func (r *reading) acknowledge(ctx context.Context, receipt Receipt, about []int) (Receipt, error) {
	var behind []int
	later := false
	for b, v := range r.view {
		switch {
		case v.err != nil:
		case v.at.Number > r.newest.Number:
			later = true
		case v.at.Number == r.newest.Number && v.at != r.newest:
			return receipt, ErrAhead
		case v.at.Number < r.newest.Number && slices.Contains(about, b):
			behind = append(behind, b)
		}
	}
	if later {
		next, err := r.l.stored(ctx, r.newest.Number+1)
		switch {
		case err != nil:
			return receipt, nil //nolint:nilerr // stored; nobody knows whether it is in force
		case next.bad != nil:
			return receipt, next.bad
		case next.Before != r.newest.Hash:
			return receipt, ErrAhead
		}
	}
	r.bring(ctx, behind)
	receipt.InForce = true
	for _, b := range about {
		v := r.view[b]
		if errors.Is(v.err, ErrAhead) {
			return receipt, v.err
		}
		took := v.err == nil && v.at.Number >= r.newest.Number || errors.Is(v.err, errAgain)
		receipt.InForce = receipt.InForce && took
	}
	if receipt.InForce {
		receipt.Replicated = r.l.valkey.Replicated(ctx, r.names(about)) == nil
	}
	return receipt, nil
}

// names returns a name in each bucket; of all, in the two with the policy, since a shard
// that forgets the policy's number asks for it there.
func (r *reading) names(about []int) []string {
	if len(about) == r.l.buckets {
		about = r.l.documents()
	}
	names := make([]string, len(about))
	for i, b := range about {
		names[i] = keys(b)[0]
	}
	return names
}
