package audit

import (
	"context"
	"errors"
	"fmt"

	"tidegate/internal/store/keyspace"
)

// Journal is a durable store of entries. Package journal has one.
type Journal interface {
	// Ready reports whether the entry behind this head can be shipped: ErrBehind when the
	// journal has an entry there already, ErrJournalAway when the journal does not
	// answer.
	Ready(ctx context.Context, b keyspace.Bucket, head []byte) error
	// Ship stores all items of the bucket that the journal does not have yet. It fails
	// with ErrUnsafe while they wait in Valkey, and else with ErrMayBeLost.
	Ship(ctx context.Context, b keyspace.Bucket) error
	// Queues reports whether changes are made while the journal is away.
	Queues() bool
	// Segment reads a segment by the number of its first entry. It fails with
	// ErrOlderAway, or with ErrItem when the segment was altered or is not there.
	Segment(ctx context.Context, b keyspace.Bucket, first uint64) (Segment, error)
}

var (
	// ErrJournalAway means that nothing was changed, because the journal does not answer.
	ErrJournalAway = errors.New("the journal does not answer: nothing was changed")
	// ErrUnsafe means that a change is made in Valkey and not in the journal yet.
	ErrUnsafe = errors.New("the change is made, but the journal does not have it yet")
	// ErrMayBeLost is an ErrUnsafe after which Valkey did not say that the change waits
	// there to be stored, as when a primary ends right after the change.
	ErrMayBeLost = fmt.Errorf("%w, and Valkey may have lost it", ErrUnsafe)
	// ErrBehind means that Valkey lost changes which the journal has. Nothing was
	// changed.
	ErrBehind = errors.New("changes were lost in Valkey and are in the journal: restore them")
)

// UseJournal has every later change stored in a journal before it is acknowledged.
func (l *Log) UseJournal(j Journal) { l.journal = j }

// Journalled reports whether changes are stored in a journal.
func (l *Log) Journalled() bool { return l.journal != nil }

// Whole returns nil when Valkey lost no entry of a bucket that the journal has.
func (l *Log) Whole(ctx context.Context, b keyspace.Bucket) error {
	if l.journal == nil {
		return nil
	}
	head, err := l.Head(ctx, b)
	if err != nil {
		return err
	}
	return l.journal.Ready(ctx, b, head)
}
