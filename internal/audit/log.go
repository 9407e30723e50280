// Package audit records who changed what, when and why. The script that makes a change
// appends its entry. Each entry has an HMAC-SHA-256 over itself and the entry before it,
// under a key that Valkey does not have. The same script writes the chain's head: the
// number of entries and the hash of the newest one, under another HMAC. So Verify finds
// an entry that was altered, inserted, moved or removed, and entries missing at either
// end of a chain.
//
// Verify does not find a chain that was reset with its head to an earlier state, by
// somebody who read the head then. Nor does it find that a chain is missing with its
// head. An attacker who gains access to Valkey can therefore not remove single entries
// recorded before, only all of them.
//
// A change and its entry share a slot, so every bucket of the key space has its own
// chain, a stream. List merges the chains by time. With a journal, old entries may be
// only in its segments: List, Get and Verify continue there where a stream begins. An
// entry contains its subject before and after the change, so that it can be read, checked
// and reverted alone. Large entries are stored packed, and hashed as they are stored.
//
// Packages registry and journal, the admin function and tools import it; the check
// function must not.
package audit

import (
	"bytes"
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store/keyspace"
)

// Log appends to the chains and reads them. It is safe for concurrent use.
type Log struct {
	client  valkey.Client
	key     Key
	journal Journal // may be nil
}

// NewLog returns a Log on a connected client.
func NewLog(client valkey.Client, key Key) *Log { return &Log{client: client, key: key} }

// Head returns the head of a bucket's chain, which the next entry is sealed for. It is
// empty before the first entry.
func (l *Log) Head(ctx context.Context, b keyspace.Bucket) ([]byte, error) {
	head, err := l.client.Do(ctx, l.client.B().Get().Key(HeadKey(b)).Build()).AsBytes()
	if err != nil && !valkey.IsValkeyNil(err) {
		return nil, fmt.Errorf("audit: head: %w", err)
	}
	return head, nil
}

// Names returns the names in Valkey of a bucket's chain: its stream, its head, and its
// list of unshipped items.
func Names(b keyspace.Bucket) []string { return []string{Stream(b), HeadKey(b), UnshippedKey(b)} }

// UnshippedKey names a bucket's list of items that the journal does not have yet, oldest
// first.
func UnshippedKey(b keyspace.Bucket) string { return b.Name("aj") }

// Stream names the stream of a bucket's chain.
func Stream(b keyspace.Bucket) string { return b.Name("a") }

// HeadKey names the head of a bucket's chain.
func HeadKey(b keyspace.Bucket) string { return b.Name("ah") }

// AppendFunction is Lua code that defines `local function append(stream, head, unshipped,
// expected, body, hash, next, item)`. A script that makes a change calls it first, with
// the Names of a chain and the Args of an entry. If it returns false, the script must
// change nothing.
//
//go:embed append.lua
var AppendFunction string

// Step is a change of a record and the entry that goes with it.
type Step struct {
	Bucket keyspace.Bucket
	Entry  Entry
	Change *Change // nil if no record changes
	// Urgent steps are made even while the journal is unavailable, and shipped later:
	// revocations, bans and log-ins.
	Urgent bool
	// Run runs the script that makes the change, with the Args of the sealed entry. It
	// reports whether another entry came first; then Commit calls it again.
	Run func(args []string) (stale bool, err error)
}

// Commit makes a change, appends its entry to the bucket's chain and ships the entry.
// After ErrJournalUnavailable and ErrBehind nothing is changed; after ErrUnsafe the
// change is made.
func (l *Log) Commit(ctx context.Context, s Step) error {
	for {
		head, err := l.Head(ctx, s.Bucket)
		if err != nil {
			return err
		}
		moved, err := l.ready(ctx, s, head)
		if err != nil {
			return err
		}
		if moved {
			continue
		}
		sealed, err := l.key.Seal(s.Bucket, head, s.Entry)
		if err != nil {
			return err
		}
		if l.journal != nil {
			if sealed.Item, err = l.key.item(s.Bucket, sealed, s.Change); err != nil {
				return err
			}
		}
		switch stale, err := s.Run(sealed.Args()); {
		case err != nil:
			return err
		case !stale:
			return l.ship(ctx, s)
		}
	}
}

// ready asks the journal whether it can store the entry after the head. It reports
// whether the head has moved since it was read.
func (l *Log) ready(ctx context.Context, s Step, head []byte) (moved bool, err error) {
	if l.journal == nil {
		return false, nil
	}
	err = l.journal.Ready(ctx, s.Bucket, head)
	switch {
	case errors.Is(err, ErrJournalUnavailable) && (s.Urgent || l.journal.Queues()):
		return false, nil
	case errors.Is(err, ErrBehind):
		current, headErr := l.Head(ctx, s.Bucket)
		if headErr != nil {
			return false, headErr
		}
		if !bytes.Equal(current, head) {
			return true, nil
		}
	}
	return false, err
}

// ship makes the journal store the entry. If the step is urgent or the journal queues, an
// entry that stays in Valkey for now is no error: every page shows how many there are.
func (l *Log) ship(ctx context.Context, s Step) error {
	if l.journal == nil {
		return nil
	}
	err := l.journal.Ship(ctx, s.Bucket)
	queued := errors.Is(err, ErrUnsafe) && !errors.Is(err, ErrMayBeLost)
	if queued && (s.Urgent || l.journal.Queues()) {
		return nil
	}
	return err
}

var appendScript = valkey.NewLuaScript(AppendFunction +
	`return append(KEYS[1], KEYS[2], KEYS[3], unpack(ARGV)) and 1 or 0`)

// Append records an event that changes no record, such as a log-in. It sets the entry's
// time to now. The scripts that make changes record the rest.
func (l *Log) Append(ctx context.Context, e Entry) error {
	bucket := keyspace.BucketOf(e.Subject)
	e.Time = time.Now().UTC()
	return l.Commit(ctx, Step{Bucket: bucket, Entry: e, Urgent: true,
		Run: func(args []string) (stale bool, err error) {
			done, err := appendScript.Exec(ctx, l.client, Names(bucket), args).AsInt64()
			if err != nil {
				return false, fmt.Errorf("audit: append: %w", err)
			}
			return done == 0, nil
		}})
}

// Journal is a durable store of entries. Package journal has one.
type Journal interface {
	// Ready returns nil if the entry after this head can be shipped. It fails with
	// ErrBehind if the journal has an entry there already, and with ErrJournalUnavailable
	// if the journal is unavailable.
	Ready(ctx context.Context, b keyspace.Bucket, head []byte) error
	// Ship stores all unshipped items of the bucket. It fails with ErrUnsafe if they stay
	// in Valkey, and with ErrMayBeLost if it does not know that they do.
	Ship(ctx context.Context, b keyspace.Bucket) error
	// Queues reports whether all changes are made even while the journal is unavailable.
	Queues() bool
	// Segment reads a segment by the number of its first entry. It fails with
	// ErrOlderUnavailable, or with ErrItem if the segment was altered or is missing.
	Segment(ctx context.Context, b keyspace.Bucket, first uint64) (Segment, error)
}

var (
	// ErrJournalUnavailable means that nothing was changed, because the journal is
	// unavailable.
	ErrJournalUnavailable = errors.New("the journal is unavailable: nothing was changed")
	// ErrUnsafe means that a change is made in Valkey, but is not in the journal yet.
	ErrUnsafe = errors.New("the change is made, but is not in the journal yet")
	// ErrMayBeLost is an ErrUnsafe after which Valkey did not confirm that it still has
	// the change, for example because a primary failed right after it.
	ErrMayBeLost = fmt.Errorf("%w, and Valkey may have lost it", ErrUnsafe)
	// ErrBehind means that Valkey lost changes that the journal has. Nothing was changed.
	ErrBehind = errors.New("the journal has changes that Valkey lost: restore them first")
)

// UseJournal makes the log store every later change in a journal before it is
// acknowledged. It must not be called while the log is in use.
func (l *Log) UseJournal(j Journal) { l.journal = j }

// Journalled reports whether changes are stored in a journal.
func (l *Log) Journalled() bool { return l.journal != nil }

// Whole returns nil if Valkey has every entry of a bucket that the journal has. Otherwise
// it fails as Journal.Ready does.
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
