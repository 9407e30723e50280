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

// AppendFunction is the text of Lua code that defines `local function append(stream,
// head, unshipped, expected, body, hash, next, item)`. A script that changes something
// calls it first, with the Names of a chain and the Args of an entry, and changes nothing
// when it returns false.
//
//go:embed append.lua
var AppendFunction string

// Step is a change of a record and the entry that goes with it.
type Step struct {
	Bucket keyspace.Bucket
	Entry  Entry
	Change *Change // nil when no record changes
	// Urgent steps are made while the journal is away, and shipped later: revocations,
	// bans and log-ins.
	Urgent bool
	// Run runs the script that makes the change, with the last arguments of append, and
	// reports whether another entry came first.
	Run func(args []string) (stale bool, err error)
}

// Commit makes a change, behind the newest entry of its bucket, and ships its entry. With
// ErrJournalAway and ErrBehind nothing is changed; with ErrUnsafe the change is made.
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

// ready asks the journal whether it takes the entry behind the head. The head may have
// moved since it was read.
func (l *Log) ready(ctx context.Context, s Step, head []byte) (moved bool, err error) {
	if l.journal == nil {
		return false, nil
	}
	err = l.journal.Ready(ctx, s.Bucket, head)
	switch {
	case errors.Is(err, ErrJournalAway) && (s.Urgent || l.journal.Queues()):
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

// ship has the journal store the entry. One that waits in Valkey for the journal is no
// error where the step is urgent or changes may wait: every page says how many do.
func (l *Log) ship(ctx context.Context, s Step) error {
	if l.journal == nil {
		return nil
	}
	err := l.journal.Ship(ctx, s.Bucket)
	waits := errors.Is(err, ErrUnsafe) && !errors.Is(err, ErrMayBeLost)
	if waits && (s.Urgent || l.journal.Queues()) {
		return nil
	}
	return err
}

var appendScript = valkey.NewLuaScript(AppendFunction +
	`return append(KEYS[1], KEYS[2], KEYS[3], unpack(ARGV)) and 1 or 0`)

// Append records something that changes no record, such as a log-in; the rest is recorded
// by the scripts that make the change. The entry is now's.
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
