package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/audit"
	"tidegate/internal/store/keyspace"
)

// saveTimeout is how long a save waits for the journal before the change, and again after
// it.
const saveTimeout = 2 * time.Second

// Journal ships entries to a store. It is safe for concurrent use, and so are several of
// one store and one Valkey.
type Journal struct {
	store  Store
	client valkey.Client
	key    audit.Key
	queue  bool
	log    *slog.Logger

	mu      sync.Mutex
	shipped [keyspace.Buckets]position // of the newest entry that the journal is known to have
	status  Status
	looked  time.Time                   // when status was found
	probed  [keyspace.Buckets]time.Time // when the store was asked about a bucket
	trimmed time.Time                   // when every stream was trimmed
	gapless time.Time                   // when the store was found to have no gap
}

// position is a place in a chain.
type position struct {
	number uint64
	hash   []byte
}

// New returns a Journal of a connected client's entries. With queue, changes are made
// while the store is away.
func New(store Store, client valkey.Client, key audit.Key, queue bool, log *slog.Logger) *Journal {
	return &Journal{store: store, client: client, key: key, queue: queue, log: log}
}

// Queues implements audit.Journal.
func (j *Journal) Queues() bool { return j.queue }

// Ready implements audit.Journal: the position behind the head must be free. It is free
// unless Valkey lost what stands there.
func (j *Journal) Ready(ctx context.Context, b keyspace.Bucket, head []byte) error {
	at, ok := j.positionOf(b, head)
	if !ok {
		return fmt.Errorf("%w: a restore was interrupted", audit.ErrBehind)
	}
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	last, err := j.endsAt(ctx, b, at)
	switch {
	case err != nil:
		j.log.Warn("journal", "cause", err)
		return audit.ErrJournalAway
	case !last:
		return audit.ErrBehind
	}
	return nil
}

// head reads a bucket's head; nil for none.
func (j *Journal) head(ctx context.Context, b keyspace.Bucket) ([]byte, error) {
	head, err := j.client.Do(ctx, j.client.B().Get().Key(audit.HeadKey(b)).Build()).AsBytes()
	if err != nil && !valkey.IsValkeyNil(err) {
		return nil, fmt.Errorf("read head: %w", err)
	}
	return head, nil
}

// positionOf reads a head. It reports false for one that was not made with the key.
func (j *Journal) positionOf(b keyspace.Bucket, head []byte) (position, bool) {
	number, hash, ok := j.key.Position(b, head)
	return position{number, bytes.Clone(hash)}, ok
}

// endsAt reports whether the journal has nothing behind a position of a bucket and nothing
// else there, and notes what it has there. Where changes were made without a journal, it
// lacks their entries and has a checkpoint behind them.
func (j *Journal) endsAt(ctx context.Context, b keyspace.Bucket, at position) (bool, error) {
	known := j.known(b)
	if at.number < known.number {
		return false, nil
	}
	_, err := j.store.Read(ctx, entryName(b, at.number+1))
	if !errors.Is(err, ErrNotFound) { // nil when there is one
		return false, err
	}
	if at.number > known.number || at.number == 0 {
		if known, err = j.lastAt(ctx, b, at.number); err != nil {
			return false, err
		}
		j.know(b, known)
	}
	return known.number < at.number || known.number == at.number && bytes.Equal(known.hash, at.hash), nil
}

// lastAt returns the newest position of which the journal has the entry or the checkpoint,
// when it has no entry behind the one at a number. An entry is that unless a gap follows.
func (j *Journal) lastAt(ctx context.Context, b keyspace.Bucket, number uint64) (position, error) {
	var at position
	if number > 0 {
		item, err := j.entry(ctx, b, number)
		if err == nil {
			at = position{item.Number, item.Hash}
			if err = j.gapAfter(ctx, b, number); errors.Is(err, ErrNotFound) {
				return at, nil
			}
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			return at, err
		}
	}
	s, err := j.checkpointed(ctx, b)
	if err != nil || s.number < at.number {
		return at, err
	}
	return s.position, nil
}

// gapAfter fails with ErrNotFound unless there is a gap behind an entry. A journal without
// any is not asked again for a while, or a start would make 256 more requests.
func (j *Journal) gapAfter(ctx context.Context, b keyspace.Bucket, number uint64) error {
	j.mu.Lock()
	gapless := j.gapless
	j.mu.Unlock()
	if time.Since(gapless) < statusAge {
		return ErrNotFound
	}
	_, err := j.store.Read(ctx, gapsName)
	if err == nil {
		_, err = j.store.Read(ctx, gapName(b, number))
	} else if errors.Is(err, ErrNotFound) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.gapless = time.Now()
	}
	return err
}

// noteGap notes that what follows an entry will be in a checkpoint alone. Before the first
// entry a checkpoint is looked for anyway.
func (j *Journal) noteGap(ctx context.Context, b keyspace.Bucket, number uint64) error {
	if number == 0 {
		return nil
	}
	if err := j.create(ctx, gapsName, nil); err != nil {
		return err
	}
	return j.create(ctx, gapName(b, number), nil)
}

// know notes what the journal has of a bucket; known returns it.
func (j *Journal) know(b keyspace.Bucket, p position) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if p.number > j.shipped[b].number {
		j.shipped[b] = p
	}
}

func (j *Journal) known(b keyspace.Bucket) position {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.shipped[b]
}
