package app

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"tidegate/internal/audit"
	"tidegate/internal/registry"
)

// Bounds of one step of a job.
const (
	Chunk    = 500             // keys between two saves of the job
	stepTime = 3 * time.Second // after which no further chunk begins
	// jobLease is how long others wait for a step that was interrupted: longer than
	// stepEnds.
	jobLease = 20 * time.Second
	// leasePoll is how often a job is looked at that another goes on with.
	leasePoll = 200 * time.Millisecond
	// bucketsAtOnce is how many buckets are changed at a time. Changes of one bucket wait
	// for one another, and each waits for the journal.
	bucketsAtOnce = 32
)

// stepEnds is when a step is interrupted. With the wait for its turn it ends before the
// function's time does.
var stepEnds = 15 * time.Second

// StepJob goes on with a job for about stepTime and returns it as it is then. While
// another request goes on with it, StepJob waits and changes nothing. A job that was
// stopped goes on with resume alone. It fails with policy.ErrNotFound.
func (r *Registry) StepJob(ctx context.Context, id string, resume bool) (Job, error) {
	j, err := r.withJob(ctx, id, stepTime, func(ctx context.Context, j Job, save saveFunc) (Job, error) {
		if j.Over() || j.Stopped && !resume {
			return j, nil
		}
		j.Paused = ""
		if j.Stopped {
			j.Stopped, j.Resumed = false, j.stop
			if err := r.store.ListJob(ctx, id, true); err != nil {
				return j, err
			}
			var err error
			if j, err = save(j); err != nil || j.Stopped {
				return j, err
			}
		}
		set, err := r.Set(ctx)
		if err != nil {
			return j, err
		}
		for began := time.Now(); ; {
			next, err := r.chunk(ctx, set, j)
			if j.Paused = pausedBy(err, ctx.Err()); j.Paused != "" {
				return j, nil
			}
			if err != nil {
				return j, err
			}
			if j = next; j.Over() || j.Paused != "" || time.Since(began) >= stepTime {
				return j, nil
			}
			if j, err = save(j); err != nil || j.Stopped {
				return j, err
			}
		}
	})
	if errors.Is(err, errStepUnderWay) {
		err = nil
	}
	return j, err
}

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

// saveFunc stores a job, and returns it with Stopped if it was stopped meanwhile.
type saveFunc func(Job) (Job, error)

// errStepUnderWay means that another request holds the lease of a job.
var errStepUnderWay = errors.New("a step of this job is under way")

// withJob runs do on a job while it holds the job's lease, for which it waits some time,
// and stores what do returns, also with an error. When the lease is not to be had, it
// returns the job as it is stored, with errStepUnderWay.
func (r *Registry) withJob(ctx context.Context, id string, maxWait time.Duration,
	do func(context.Context, Job, saveFunc) (Job, error)) (Job, error) {
	j, err := r.Job(ctx, id) // before anything is written under a name that anybody may have typed
	if err != nil {
		return j, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepEnds+maxWait)
	defer cancel()
	holder := rand.Text()
	leased, err := r.leaseJob(ctx, id, holder, maxWait)
	if err != nil {
		return j, err
	}
	if j, err = r.Job(ctx, id); err != nil {
		return j, err
	}
	if !leased {
		return j, errStepUnderWay
	}
	limited, end := context.WithTimeout(ctx, stepEnds)
	defer end()
	wasOver := j.Over()
	save := func(j Job) (Job, error) { return r.saveJob(limited, j, holder, false) }
	j, err = do(limited, j, save)
	if err == nil && j.Over() && !wasOver {
		err = r.endJob(ctx, j)
	}
	j, saveErr := r.saveJob(ctx, j, holder, true)
	if err := errors.Join(err, saveErr); err != nil {
		return j, err
	}
	if j.Over() && !wasOver {
		err = r.store.ListJob(ctx, id, false)
	}
	return j, err
}

// leaseJob takes the lease of a job, for which it waits a while.
func (r *Registry) leaseJob(ctx context.Context, id, holder string, maxWait time.Duration) (bool, error) {
	for began := time.Now(); ; {
		leased, err := r.store.LeaseJob(ctx, id, holder, jobLease)
		if err != nil || leased || time.Since(began) >= maxWait {
			return leased, err
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(leasePoll):
		}
	}
}

// ErrTaken means that a step took so long that another goes on with the job.
var ErrTaken = errors.New("another request goes on with this job")

func (r *Registry) saveJob(ctx context.Context, j Job, holder string, release bool) (Job, error) {
	text, err := j.text()
	if err != nil {
		return j, err
	}
	saved, stopped, err := r.store.SaveJob(ctx, j.ID, registry.JobSave{
		Holder: holder, Text: string(text), Resumed: j.Resumed, Release: release,
	})
	if err == nil && !saved {
		err = ErrTaken
	}
	j.Stopped = j.Stopped || stopped && !j.Over()
	return j, err
}

// endJob records the end of a job.
func (r *Registry) endJob(ctx context.Context, j Job) error {
	text, err := j.text()
	if err != nil {
		return err
	}
	return r.store.Audit().Append(ctx, j.entry(audit.JobEnd, text))
}
