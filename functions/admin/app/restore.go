package app

import (
	"context"
	"time"

	"tidegate/internal/journal"
	"tidegate/internal/registry"
)

// restoreTime is how long a request begins to restore further buckets.
const restoreTime = 1500 * time.Millisecond

// RestoreLost restores what Valkey lost, for as long as a request may take. Some buckets
// are left when that is not enough: then it is to be called again. With journal.ErrNewer
// some buckets have changes that the journal lacks: nothing but the command takes them
// back.
func RestoreLost(
	ctx context.Context, j *journal.Journal, keys *registry.Store, edit registry.Edit,
) (journal.Summary, error) {
	ends := time.Now().Add(restoreTime)
	due := func() bool { return time.Now().After(ends) }
	s, err := j.RestoreAll(ctx, keys, journal.Options{}, due, nil)
	if err == nil && s.Left == 0 {
		err = journal.Log(ctx, keys, edit)
	}
	return s, err
}
