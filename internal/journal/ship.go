package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"tidegate/internal/audit"
	"tidegate/internal/store/keyspace"
)

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
