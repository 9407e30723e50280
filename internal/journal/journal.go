package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
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
// else there, and notes what it has there. A journal that was begun later than the chain
// does not have the first entries, but a checkpoint behind them.
func (j *Journal) endsAt(ctx context.Context, b keyspace.Bucket, at position) (bool, error) {
	known := j.known(b)
	if at.number < known.number {
		return false, nil
	}
	_, err := j.store.Read(ctx, entryName(b, at.number+1))
	if !errors.Is(err, ErrNotFound) { // nil when there is one
		return false, err
	}
	if at.number > known.number {
		item, err := j.entry(ctx, b, at.number)
		if err == nil {
			known = position{item.Number, item.Hash}
			j.know(b, known)
		} else if !errors.Is(err, ErrNotFound) {
			return false, err
		}
	}
	if at.number > known.number || at.number == 0 {
		s, err := j.checkpointed(ctx, b)
		if err != nil || s.number < at.number {
			return err == nil, err
		}
		known = s.position
		j.know(b, known)
	}
	return known.number == at.number && bytes.Equal(known.hash, at.hash), nil
}

// Ship implements audit.Journal. It stores items in the order of their positions, so that
// the journal never has an entry without those before. It goes on when the caller no
// longer waits.
func (j *Journal) Ship(ctx context.Context, b keyspace.Bucket) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	_, err := j.ship(ctx, b)
	if err != nil {
		j.log.Error("journal: ship", "cause", err)
		j.unsafe()
		switch {
		case errors.Is(err, audit.ErrBehind):
		case j.waits(ctx, b):
			err = audit.ErrUnsafe
		default:
			err = audit.ErrMayBeLost
		}
	}
	return err
}

// waits reports whether Valkey has items of a bucket that wait to be shipped. It asks
// after a failure, for which the time may have run out.
func (j *Journal) waits(ctx context.Context, b keyspace.Bucket) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	n, err := j.client.Do(ctx, j.client.B().Llen().Key(audit.UnshippedKey(b)).Build()).AsInt64()
	return err == nil && n > 0
}

// ship stores the unshipped items of a bucket and returns how many there were.
func (j *Journal) ship(ctx context.Context, b keyspace.Bucket) (int, error) {
	list := audit.UnshippedKey(b)
	items, err := j.client.Do(ctx, j.client.B().Lrange().Key(list).Start(0).Stop(-1).Build()).AsStrSlice()
	if err != nil {
		return 0, fmt.Errorf("read unshipped items: %w", err)
	}
	for _, item := range items {
		opened, err := j.key.OpenItem([]byte(item))
		if err != nil {
			return 0, err
		}
		if err := j.begin(ctx, opened); err != nil {
			return 0, err
		}
		if err := j.create(ctx, entryName(b, opened.Number), []byte(item)); err != nil {
			return 0, err
		}
		j.know(b, position{opened.Number, opened.Hash})
		// By its content: another environment may have shipped it meanwhile.
		remove := j.client.B().Lrem().Key(list).Count(1).Element(item).Build()
		if err := j.client.Do(ctx, remove).Error(); err != nil {
			return 0, fmt.Errorf("remove shipped item: %w", err)
		}
	}
	return len(items), nil
}

// create stores an item, once: that it is there already is good when it is the same. Some
// S3 servers refuse a put before the one that is under way can be read.
func (j *Journal) create(ctx context.Context, name string, content []byte) error {
	for {
		err := j.store.Create(ctx, name, content)
		if !errors.Is(err, ErrExists) {
			return err
		}
		stored, err := j.store.Read(ctx, name)
		switch {
		case errors.Is(err, ErrNotFound) && ctx.Err() == nil:
			continue
		case err != nil:
			return err
		case !bytes.Equal(stored, content):
			return fmt.Errorf("%w: %s holds another entry", audit.ErrBehind, name)
		}
		return nil
	}
}

// begin sees to it that the journal has what comes before an item: the entry before it,
// or a checkpoint. It has neither when the journal is new and Valkey is not, and when a
// release without a journal made changes: then it takes a checkpoint of Valkey.
func (j *Journal) begin(ctx context.Context, item audit.Item) error {
	b := item.Bucket
	if item.Number == 1 || bytes.Equal(j.known(b).hash, item.Previous) {
		return nil
	}
	before, err := j.entry(ctx, b, item.Number-1)
	switch {
	case errors.Is(err, ErrNotFound):
		return j.adopt(ctx, item)
	case err != nil:
		return err
	case !bytes.Equal(before.Hash, item.Previous):
		return fmt.Errorf("%w: entry %d of bucket %d has another before it", audit.ErrBehind, item.Number, b)
	}
	return nil
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

// entry reads the entry at a position and checks it. It fails with ErrNotFound.
func (j *Journal) entry(ctx context.Context, b keyspace.Bucket, number uint64) (audit.Item, error) {
	content, err := j.store.Read(ctx, entryName(b, number))
	if err != nil {
		return audit.Item{}, err
	}
	item, err := j.key.OpenItem(content)
	if err == nil && (item.Bucket != b || item.Number != number) {
		err = audit.ErrItem
	}
	if err != nil {
		return audit.Item{}, fmt.Errorf("%s: %w", entryName(b, number), err)
	}
	return item, nil
}

// maxAhead is how many entries are read at a time.
const maxAhead = 16

// entriesAfter reads the entries of a bucket behind a position, in their order, until
// there is none.
func (j *Journal) entriesAfter(ctx context.Context, b keyspace.Bucket,
	number uint64) iter.Seq2[audit.Item, error] {
	return func(yield func(audit.Item, error) bool) {
		for ahead := 1; ; ahead = min(2*ahead, maxAhead) {
			items, errs := make([]audit.Item, ahead), make([]error, ahead)
			var wait sync.WaitGroup
			for i := range ahead {
				wait.Go(func() { items[i], errs[i] = j.entry(ctx, b, number+1+uint64(i)) })
			}
			wait.Wait()
			for i, item := range items {
				if errors.Is(errs[i], ErrNotFound) || !yield(item, errs[i]) || errs[i] != nil {
					return
				}
			}
			number += uint64(ahead)
		}
	}
}
