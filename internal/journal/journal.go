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
	"tidegate/internal/objects"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/telemetry"
)

// saveTimeout is how long a save waits for the journal before the change, and again after
// the change.
const saveTimeout = 2 * time.Second

// Journal ships entries to a store. It is safe for concurrent use, also by several
// processes with one store and one Valkey.
type Journal struct {
	store  Store
	client valkey.Client
	key    audit.Key
	queue  bool
	log    *slog.Logger
	// timeout is saveTimeout, which tests on busy machines lengthen.
	timeout time.Duration

	mu       sync.Mutex
	shipped  [keyspace.Buckets]position // newest entry that the journal is known to have
	status   Status
	statusAt time.Time                   // when status was read; zero if it is outdated
	probed   [keyspace.Buckets]time.Time // when the store was last read for a bucket
	trimmed  time.Time                   // when all streams were last trimmed
	gapless  time.Time                   // when the store was last found to have no gap
	damaged  map[keyspace.Bucket]string  // objects of DamagedErrors that the buckets wait for
}

// DamagedError means that an object in the store is not the entry that its name says: it
// was damaged, altered or moved, or somebody without the key put it there. Changes wait
// as while the journal is unavailable, until the object is removed; revocations are made.
type DamagedError struct{ Object string }

// Error implements error.
func (e *DamagedError) Error() string { return "journal: a damaged object: " + e.Object }

// Unwrap makes it an audit.ErrItem and an audit.ErrJournalUnavailable.
func (e *DamagedError) Unwrap() []error { return []error{audit.ErrItem, audit.ErrJournalUnavailable} }

// position is a place in a chain: of an entry, or before the first.
type position struct {
	number uint64 // of the entry, from 1; 0 before the first
	hash   []byte // of the entry
}

// New returns a Journal of a connected client's entries. With queue, changes are made
// even while the store is unavailable.
func New(store Store, client valkey.Client, key audit.Key, queue bool, log *slog.Logger) *Journal {
	return &Journal{store: store, client: client, key: key, queue: queue, log: log, timeout: saveTimeout}
}

// Queues implements audit.Journal.
func (j *Journal) Queues() bool { return j.queue }

// Ready implements audit.Journal. If the journal has an entry after the head, Valkey lost
// that entry.
func (j *Journal) Ready(ctx context.Context, b keyspace.Bucket, head []byte) error {
	at, ok := j.positionOf(b, head)
	if !ok {
		return fmt.Errorf("%w: a restore was interrupted", audit.ErrBehind)
	}
	ctx, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	last, err := j.endsAt(ctx, b, at)
	damaged, found := errors.AsType[*DamagedError](err)
	j.noteDamaged(b, damaged)
	switch {
	case found:
		j.log.Error(telemetry.JournalAlarm, "damaged", damaged.Object)
		return err
	case err != nil:
		j.log.Warn(telemetry.JournalAlarm, "cause", err)
		return audit.ErrJournalUnavailable
	case !last:
		return audit.ErrBehind
	}
	return nil
}

// noteDamaged remembers for Status the damaged object that a bucket waits for; nil for
// none.
func (j *Journal) noteDamaged(b keyspace.Bucket, found *DamagedError) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.damaged, b)
	if found != nil && j.damaged == nil {
		j.damaged = map[keyspace.Bucket]string{}
	}
	if found != nil {
		j.damaged[b] = found.Object
	}
}

// Ship implements audit.Journal. It stores items in the order of their positions, so that
// the journal never has an entry without those before it. Ship continues after ctx ends,
// for up to saveTimeout.
func (j *Journal) Ship(ctx context.Context, b keyspace.Bucket) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), j.timeout)
	defer cancel()
	_, err := j.ship(ctx, b)
	if err == nil {
		return nil
	}
	j.log.Error("journal: ship", "cause", err)
	j.expireStatus()
	switch {
	case errors.Is(err, audit.ErrBehind):
		return err
	case j.hasUnshipped(ctx, b):
		return audit.ErrUnsafe
	}
	return audit.ErrMayBeLost
}

// hasUnshipped reports whether Valkey has unshipped items of a bucket. It is called after
// a failure, when the deadline of ctx may have passed, so it sets a deadline of its own.
func (j *Journal) hasUnshipped(ctx context.Context, b keyspace.Bucket) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), j.timeout)
	defer cancel()
	n, err := j.client.Do(ctx, j.client.B().Llen().Key(audit.UnshippedKey(b)).Build()).AsInt64()
	return err == nil && n > 0
}

// ship stores the unshipped items of a bucket and returns how many there were.
func (j *Journal) ship(ctx context.Context, b keyspace.Bucket) (int, error) {
	items, err := j.unshipped(ctx, b)
	if err != nil {
		return 0, err
	}
	for _, item := range items {
		opened, err := j.key.OpenItem([]byte(item))
		if err != nil {
			return 0, err
		}
		if err := j.ensurePredecessor(ctx, opened); err != nil {
			return 0, err
		}
		if err := j.create(ctx, entryName(b, opened.Number), []byte(item)); err != nil {
			if _, damaged := j.entry(ctx, b, opened.Number); errors.Is(damaged, audit.ErrItem) {
				err = damaged
			}
			return 0, err
		}
		j.setKnown(b, position{opened.Number, opened.Hash})
		// LREM removes by content: another environment may have shipped the item
		// meanwhile.
		remove := j.client.B().Lrem().Key(audit.UnshippedKey(b)).Count(1).Element(item).Build()
		if err := j.client.Do(ctx, remove).Error(); err != nil {
			return 0, fmt.Errorf("remove shipped item: %w", err)
		}
	}
	return len(items), nil
}

// unshipped returns the items of a bucket that the journal does not have yet, oldest
// first.
func (j *Journal) unshipped(ctx context.Context, b keyspace.Bucket) ([]string, error) {
	list := j.client.B().Lrange().Key(audit.UnshippedKey(b)).Start(0).Stop(-1).Build()
	items, err := j.client.Do(ctx, list).AsStrSlice()
	if err != nil {
		return nil, fmt.Errorf("read unshipped items: %w", err)
	}
	return items, nil
}

// create stores an object once. It succeeds if the same object is stored already. Some S3
// servers refuse a put before a concurrent put can be read; create then tries again.
func (j *Journal) create(ctx context.Context, name string, content []byte) error {
	for {
		err := j.store.Create(ctx, name, content)
		if !errors.Is(err, objects.ErrExists) {
			return err
		}
		stored, err := j.store.Read(ctx, name)
		switch {
		case errors.Is(err, objects.ErrNotFound) && ctx.Err() == nil:
			continue
		case err != nil:
			return err
		case !bytes.Equal(stored, content):
			return fmt.Errorf("%w: %s holds another entry", audit.ErrBehind, name)
		}
		return nil
	}
}

// ensurePredecessor makes sure that the journal has the entry before an item, or a
// checkpoint there. It has neither if the journal is newer than the data in Valkey, or if
// a release without a journal made changes. Then ensurePredecessor takes a checkpoint of
// Valkey.
func (j *Journal) ensurePredecessor(ctx context.Context, item audit.Item) error {
	b := item.Bucket
	if item.Number == 1 || bytes.Equal(j.known(b).hash, item.Previous) {
		return nil
	}
	before, err := j.entry(ctx, b, item.Number-1)
	switch {
	case errors.Is(err, objects.ErrNotFound):
		return j.adopt(ctx, item)
	case err != nil:
		return err
	case !bytes.Equal(before.Hash, item.Previous):
		return fmt.Errorf("%w: entry %d of bucket %d has another predecessor", audit.ErrBehind,
			item.Number, b)
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

// positionOf decodes a head. It reports false if the head was not made with the key.
func (j *Journal) positionOf(b keyspace.Bucket, head []byte) (position, bool) {
	number, hash, ok := j.key.Position(b, head)
	return position{number, bytes.Clone(hash)}, ok
}

// endsAt reports whether the journal has nothing after a position of a bucket, and no
// other entry at it. It remembers the newest position that it finds. Where changes were
// made without a journal, it lacks their entries and has a checkpoint after them.
func (j *Journal) endsAt(ctx context.Context, b keyspace.Bucket, at position) (bool, error) {
	known := j.known(b)
	if at.number < known.number {
		return false, nil
	}
	_, err := j.entry(ctx, b, at.number+1)
	if !errors.Is(err, objects.ErrNotFound) { // nil if there is an entry
		return false, err
	}
	if at.number > known.number || at.number == 0 {
		if known, err = j.newestUntil(ctx, b, at.number); err != nil {
			return false, err
		}
		j.setKnown(b, known)
	}
	return known.number < at.number || known.number == at.number && bytes.Equal(known.hash, at.hash), nil
}

// newestUntil returns the newest position of which the journal has the entry or the
// checkpoint, provided that it has no entry after number. Without a gap after the entry
// at number, that is this entry.
func (j *Journal) newestUntil(ctx context.Context, b keyspace.Bucket, number uint64) (position, error) {
	var at position
	if number > 0 {
		item, err := j.entry(ctx, b, number)
		if err == nil {
			at = position{item.Number, item.Hash}
			if err = j.gapAfter(ctx, b, number); errors.Is(err, objects.ErrNotFound) {
				return at, nil
			}
		}
		if err != nil && !errors.Is(err, objects.ErrNotFound) {
			return at, err
		}
	}
	s, err := j.checkpointed(ctx, b)
	if err != nil || s.number < at.number {
		return at, err
	}
	return s.position, nil
}

// gapAfter returns objects.ErrNotFound unless there is a gap after an entry. After it finds that
// the store has no gap at all, it does not read the store for statusAge: otherwise a
// start would make 256 more requests.
func (j *Journal) gapAfter(ctx context.Context, b keyspace.Bucket, number uint64) error {
	j.mu.Lock()
	gapless := j.gapless
	j.mu.Unlock()
	if time.Since(gapless) < statusAge {
		return objects.ErrNotFound
	}
	_, err := j.store.Read(ctx, gapsName)
	if err == nil {
		_, err = j.store.Read(ctx, gapName(b, number))
	} else if errors.Is(err, objects.ErrNotFound) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.gapless = time.Now()
	}
	return err
}

// markGap stores that the changes after an entry are only in a checkpoint. A gap before
// the first entry needs no mark, because the checkpoint is read there anyway.
func (j *Journal) markGap(ctx context.Context, b keyspace.Bucket, number uint64) error {
	if number == 0 {
		return nil
	}
	if err := j.create(ctx, gapsName, nil); err != nil {
		return err
	}
	return j.create(ctx, gapName(b, number), nil)
}

// setKnown remembers that the journal has the entries of a bucket up to a position.
func (j *Journal) setKnown(b keyspace.Bucket, p position) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if p.number > j.shipped[b].number {
		j.shipped[b] = p
	}
}

// known returns the newest position that the journal is known to have of a bucket.
func (j *Journal) known(b keyspace.Bucket) position {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.shipped[b]
}
