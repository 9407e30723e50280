package journal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"tidegate/internal/audit"
	"tidegate/internal/store/keyspace"
)

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
