package app

import (
	"context"
	"errors"
	"sync"
	"time"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
)

// Bounds of one step of a job.
const (
	Chunk    = 500             // keys between two saves of the job
	stepTime = 3 * time.Second // after which no further chunk begins
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

// chunk changes the next keys and returns the job as it is then, Paused when changes wait
// for the journal. It fails when the keys cannot be listed, when one cannot be changed
// without the journal, and with the context: then what it did is done again, and changes
// nothing twice.
func (r *Registry) chunk(ctx context.Context, set *policy.Set, j Job) (Job, error) {
	count := int64(Chunk)
	if j.Do != Undo {
		count = min(count, j.Total-j.Processed())
	}
	var tasks []task
	var err error
	next := ""
	switch {
	case j.Do == Undo:
		tasks, next, err = r.undoTasks(ctx, j)
	case count > 0:
		tasks, next, err = r.changeTasks(ctx, set, j, int(count))
	}
	if err != nil {
		return j, err
	}
	var mu sync.Mutex
	inBuckets(tasks, func(t task) {
		changed, taskErr := t.run(ctx)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case isMade(taskErr):
			j.Done++
			j.Paused = pausedBy(taskErr, nil)
		case pausedBy(taskErr, nil) != "":
			err = errors.Join(err, taskErr)
		case taskErr != nil:
			j = j.failed(t, taskErr)
		case changed:
			j.Done++
		default:
			j.Skipped++
		}
	})
	if err := errors.Join(err, ctx.Err()); err != nil {
		return j, err
	}
	if j.After = next; next == "" || j.Do != Undo && j.Processed() >= j.Total {
		j.Ended, j.More = time.Now().UTC(), next != ""
	}
	return j, nil
}

// isMade reports whether a change is made, and waits in Valkey for the journal.
func isMade(err error) bool {
	return errors.Is(err, audit.ErrUnsafe) && !errors.Is(err, audit.ErrMayBeLost)
}

// progressLost is why a job waits that Valkey no longer has.
const progressLost = "Valkey lost how far it was; it may have been stopped or undone"

// pausedBy says why a step ends early for an error of the journal or the end of its time;
// it is empty for other errors.
func pausedBy(err, ended error) string {
	switch {
	case errors.Is(err, audit.ErrBehind):
		return audit.ErrBehind.Error()
	case errors.Is(err, audit.ErrMayBeLost):
		return "Valkey may have lost a change"
	case errors.Is(err, audit.ErrUnsafe):
		return "the journal does not have every change yet"
	case errors.Is(err, audit.ErrJournalAway):
		return "the journal does not answer"
	case err != nil && errors.Is(ended, context.DeadlineExceeded):
		return "the step took too long"
	}
	return ""
}

func (j Job) failed(t task, err error) Job {
	if j.Failed++; len(j.Failures) < maxNamed {
		j.Failures = append(j.Failures, Failure{t.id, t.name, whyNot(err)})
	}
	return j
}

func whyNot(err error) string {
	var kept keptError
	var invalid *policy.InvalidError
	switch {
	case errors.As(err, &kept):
		return string(kept)
	case errors.As(err, &invalid) && len(invalid.Fields) > 0:
		return invalid.Fields[0].Field + " " + invalid.Fields[0].Message
	case errors.Is(err, policy.ErrConflict):
		return "changed at the same time"
	}
	return "failed"
}
