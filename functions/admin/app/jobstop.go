package app

import (
	"context"
	"crypto/rand"
	"errors"
	"time"
)

// StopJob stops a job until somebody continues it. A step that is under way ends after
// its chunk. Without an error the stop is recorded, whoever goes on with the job.
func (r *Registry) StopJob(ctx context.Context, id string) (Job, error) {
	j, err := r.Job(ctx, id)
	if err != nil || j.Over() {
		return j, err
	}
	if err := r.store.StopJob(ctx, id, rand.Text()); err != nil {
		return j, err
	}
	if j, err = r.storeStopped(ctx, id, 0); errors.Is(err, errStepUnderWay) {
		err = nil // that step stores it
	}
	return j, err
}

// storeStopped writes a stop into the text of a job when no step is under way, for which
// it waits some time. Earlier releases read no stop mark.
func (r *Registry) storeStopped(ctx context.Context, id string, maxWait time.Duration) (Job, error) {
	return r.withJob(ctx, id, maxWait, func(_ context.Context, j Job, _ saveFunc) (Job, error) {
		return j, nil
	})
}

// awaitStep waits until no step of a job that is to be undone is under way: it would
// change keys that the undo has passed. It fails with ErrRunning.
func (r *Registry) awaitStep(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	j, err := r.storeStopped(ctx, id, stepTime)
	if errors.Is(err, errStepUnderWay) || err == nil && !j.Over() && !j.Stopped {
		return ErrRunning
	}
	return err
}
