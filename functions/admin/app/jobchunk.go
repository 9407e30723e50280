package app

import (
	"context"
	"errors"
	"sync"
	"time"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
)

// task is the change of one key.
type task struct {
	id, name string
	run      func(context.Context) (changed bool, err error)
}

// chunk changes the next keys and returns the job as it is then, Paused when changes wait
// for the journal. It fails when the keys cannot be listed, when one cannot be changed
// without the journal, and with the context: then what it did is done again, and changes
// nothing twice.
func (r *Registry) chunk(ctx context.Context, set *policy.Set, j Job) (Job, error) {
	count := int64(Chunk)
	if j.Do != Undo {
		count = min(count, j.Total-j.Looked())
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
	if j.After = next; next == "" || j.Do != Undo && j.Looked() >= j.Total {
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
	if j.Failed++; len(j.Named) < maxNamed {
		j.Named = append(j.Named, Failure{t.id, t.name, whyNot(err)})
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

// inBuckets runs tasks, those of one bucket in their order, for several buckets at a
// time.
func inBuckets(tasks []task, run func(task)) {
	byBucket := map[keyspace.Bucket][]task{}
	for _, t := range tasks {
		b := keyspace.BucketOf(t.id)
		byBucket[b] = append(byBucket[b], t)
	}
	var wait sync.WaitGroup
	slots := make(chan struct{}, bucketsAtOnce)
	for _, of := range byBucket {
		slots <- struct{}{}
		wait.Go(func() {
			for _, t := range of {
				run(t)
			}
			<-slots
		})
	}
	wait.Wait()
}

func (r *Registry) changeTasks(ctx context.Context, set *policy.Set, j Job, count int) (
	[]task, string, error) {
	keys, next, err := r.meant(ctx, set, j, count)
	tasks := make([]task, len(keys))
	for i, k := range keys {
		tasks[i] = task{k.ID, k.Name, func(ctx context.Context) (bool, error) {
			return j.change().apply(ctx, r, k, j.edit())
		}}
	}
	return tasks, next, err
}

// meant are the next keys that are meant, and the cursor behind them.
func (r *Registry) meant(ctx context.Context, set *policy.Set, j Job, count int) ([]policy.Key, string,
	error) {
	switch {
	case j.Filter == nil:
		keys, err := r.Many(ctx, set, j.IDs)
		return keys, "", err
	case !j.Filter.Computed():
		page, err := r.List(ctx, set, *j.Filter, j.After, count)
		return page.Keys, page.Next, err
	}
	found, err := FindKeys(ctx, r, set, *j.Filter, j.After, count)
	keys := make([]policy.Key, len(found.Subjects))
	for i, subject := range found.Subjects {
		keys[i] = subject.Key
	}
	return keys, found.Next, err
}
