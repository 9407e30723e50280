package changes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidegate/internal/lua"
)

// Mark is a revocation or a ban that acts before it is stored. A check refuses a record
// with a mark before it looks at anything else.
type Mark struct {
	ID     string    `json:"id"`     // of its change
	Record string    `json:"record"` // has no line feed
	Seen   Position  `json:"seen"`   // the newest change that its writer knew
	Time   time.Time `json:"time"`
	Action string    `json:"action"`
	By     string    `json:"by"`
	Why    string    `json:"why"`
	Until  int64     `json:"until,omitempty"` // when it ends (microseconds since 1970); 0 for never
}

func parseMark(id, text string) (Mark, error) {
	m := Mark{ID: id}
	_, body, _ := strings.Cut(text, "\n")
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		return m, fmt.Errorf("changes: mark %s: %w", id, err)
	}
	return m, nil
}

// Mark sets a mark, and then stores it. A nil error means that it is in force; if the
// receipt has no number, it is not stored yet, which the first edit of its bucket or the
// next minute does.
func (l *Log) Mark(ctx context.Context, m Mark) (Receipt, error) {
	began := l.o.Now()
	if m.ID == "" {
		m.ID = l.random()
	}
	m.Time = began.UTC()
	for _, b := range l.positions(ctx, all(l.buckets)) {
		if b.at.Number > m.Seen.Number {
			m.Seen = b.at
		}
	}
	receipt := Receipt{ID: m.ID}
	for {
		if err := l.setMark(ctx, began, m); err != nil {
			return receipt, err
		}
		receipt.InForce = true
		number, err := l.storeMark(ctx, began, m)
		if err == nil && number == 0 {
			continue // the shard lost the mark before it was stored
		}
		receipt.Number = number
		receipt.Replicated = l.valkey.Replicated(ctx, keys(l.bucketsOf(m.Record)[0])[:1]) == nil
		return receipt, nil // after an error it is in force, and not stored yet
	}
}

// storeMark stores a mark as any edit of its bucket does, and returns the number of its
// change.
func (l *Log) storeMark(ctx context.Context, began time.Time, m Mark) (number uint64, err error) {
	_, err = l.edit(ctx, Edit{}, began, func(ctx context.Context, r *Reader) ([]Item, error) {
		_, err := r.Get(ctx, m.Record)
		if err == nil {
			number, err = r.r.numberOf(ctx, m)
		}
		return nil, err
	})
	return number, err
}

// setMark writes a mark, in time.
func (l *Log) setMark(ctx context.Context, began time.Time, m Mark) error {
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("changes: %w", err)
	}
	b := l.bucketsOf(m.Record)[0]
	for {
		if l.late(began) || ctx.Err() != nil {
			return fmt.Errorf("%w: the mark is not known to be set", ErrView)
		}
		if reply := l.runMark(ctx, b, m.ID, m.Record+"\n"+string(body)); reply.Err == nil {
			return nil
		}
		l.pause(ctx, retryAfter)
	}
}

func (l *Log) runMark(ctx context.Context, b int, id, text string) lua.Reply {
	return l.valkey.Run(ctx, markScript, []lua.Run{{Keys: keys(b)[2:], Args: []string{id, text}}})[0]
}

// numberOf returns the number of the change with a mark's id, 0 for none. A writer that
// knew a change that the log does not have knew another log.
func (r *reading) numberOf(ctx context.Context, m Mark) (number uint64, err error) {
	first := m.Seen.Number + 1
	if err := r.has(ctx, m.Seen); errors.Is(err, ErrAhead) {
		first = 1
	} else if err != nil {
		return 0, err
	}
	err = r.each(ctx, first, func(c Change) error {
		if c.ID == m.ID {
			number = c.Number
		}
		return nil
	})
	return number, err
}

// settle stores the first mark of buckets that are at the newest change, as a change, also
// if it changes nothing: only a change takes a mark away. Then the log grew. A mark whose
// change is in the log already came back with an old shard, or late.
func (r *Reader) settle(ctx context.Context, buckets []int) error {
	l := r.r.l
	for _, b := range buckets {
		for _, m := range r.r.view[b].marks {
			number, err := r.r.numberOf(ctx, m)
			if err != nil {
				return err
			}
			if number > 0 {
				if reply := l.runMark(ctx, b, m.ID, ""); reply.Err != nil {
					return fmt.Errorf("%w: %w", ErrView, reply.Err)
				}
				continue
			}
			if err := r.store(ctx, b, m); err != nil {
				return err
			}
			return errAgain
		}
	}
	return nil
}

// store writes the change of a mark.
func (r *Reader) store(ctx context.Context, b int, m Mark) error {
	l := r.r.l
	view := make([]bucket, l.buckets)
	l.read(ctx, view, []int{b}, func(int) query { return query{records: []string{m.Record}} })
	if err := view[b].err; err != nil {
		return fmt.Errorf("%w: %w", ErrView, err)
	}
	same := func(other Mark) bool { return other.ID == m.ID }
	if view[b].at != r.r.newest || !slices.ContainsFunc(view[b].marks, same) {
		return errAgain
	}
	c := Change{ID: m.ID, Action: m.Action, By: m.By, Why: m.Why}
	found := view[b].records[0]
	if after := l.o.Settle(m, found.Content); !bytes.Equal(after, found.Content) {
		c.Items = []Item{{Record: m.Record, Last: found.Number, Before: found.Content, After: after}}
	}
	_, err := r.r.write(ctx, r.began, c)
	if errors.Is(err, ErrUnknown) { // of the edit that waits for it, nothing is saved
		return fmt.Errorf("%w: mark %s is not stored: %v", ErrStore, m.ID, err) //nolint:errorlint // as said
	}
	return err
}
