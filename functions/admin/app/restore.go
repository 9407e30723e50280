package app

import (
	"context"
	"errors"
	"time"

	"tidegate/internal/journal"
)

// How long a request restores: it begins no further bucket, and it ends.
const (
	restoreTime = 8 * time.Second
	restoreEnds = 20 * time.Second
)

// RestoreLost restores what Valkey lost, for as long as a request may take. Some buckets
// are left when that is not enough: then it is to be called again. With journal.ErrLeft
// all others are restored.
func RestoreLost(
	ctx context.Context, j *journal.Journal, keys *Registry, edit Edit,
) (journal.Summary, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreEnds)
	defer cancel()
	ends := time.Now().Add(restoreTime)
	due := func() bool { return time.Now().After(ends) }
	s, err := j.RestoreAll(ctx, keys.store, journal.Options{}, due, nil)
	partly := s.Written > 0 && errors.Is(err, journal.ErrLeft)
	if s.Left == 0 && (err == nil || partly) {
		err = errors.Join(err, journal.Log(ctx, keys.store, edit))
	}
	return s, err
}
