package app

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/store/keyspace"
)

// Bounds of one step of a job.
const (
	Chunk    = 500             // keys between two saves of the job
	stepTime = 3 * time.Second // no chunk begins after it
)

// stepEnds is when a step is interrupted. A step and the wait for its lease together end
// before the deadline of their route, auth.Long, so that the job is saved.
var stepEnds = 15 * time.Second

// StepJob runs a job for about stepTime and returns its new state. If another request
// runs it, StepJob waits up to stepTime and changes nothing. A stopped job stays as it is.
// StepJob returns policy.ErrNotFound for a job that does not exist.
func (r *Registry) StepJob(ctx context.Context, id string) (Job, error) {
	return r.step(ctx, id, audit.Actor{})
}

// ResumeJob continues a stopped job, whose changes by answers for from then on. It works
// as StepJob does.
func (r *Registry) ResumeJob(ctx context.Context, id string, by audit.Actor) (Job, error) {
	return r.step(ctx, id, by)
}

// step runs a job. It continues a stopped job only if there is a resumer.
func (r *Registry) step(ctx context.Context, id string, resumer audit.Actor) (Job, error) {
	j, err := r.withJob(ctx, id, stepTime, func(ctx context.Context, j Job, save saveFunc) (Job, error) {
		if j.Over() || j.Stopped && resumer == (audit.Actor{}) {
			return j, nil
		}
		j.Paused = ""
		if j.Stopped {
			var err error
			if j, err = r.resume(ctx, j, resumer, save); err != nil || j.Stopped {
				return j, err
			}
		}
		set, err := r.Set(ctx)
		if err != nil {
			return j, err
		}
		for began := time.Now(); ; {
			next, err := r.runChunk(ctx, set, j)
			if j.Paused = pauseReason(err, ctx.Err()); j.Paused != "" {
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

// resume records who continues a stopped job, and saves that it is not stopped.
func (r *Registry) resume(ctx context.Context, j Job, by audit.Actor, save saveFunc) (Job, error) {
	next := j
	next.Stopped, next.Resumed, next.Resumer = false, j.stop, by
	if _, err := r.recordJob(ctx, next, audit.JobResume, by); err != nil {
		return j, err
	}
	if err := r.store.ListJob(ctx, j.ID, true); err != nil {
		return j, err
	}
	return save(next)
}

// runChunk changes the next keys and returns the job's new state, Paused if changes wait
// for the journal. It returns an error if the keys cannot be listed, a change is refused
// without the journal, or ctx ends. A retry repeats the chunk; changes are idempotent.
func (r *Registry) runChunk(ctx context.Context, set *policy.Set, j Job) (Job, error) {
	count := int64(Chunk)
	if j.Do != Undo {
		count = min(count, j.Total-j.Processed())
	}
	var tasks []task
	var err error
	next := ""
	switch {
	case j.Do == Undo:
		tasks, next, err = r.undoTasks(ctx, set, j)
	case count > 0:
		tasks, next, err = r.changeTasks(ctx, set, j, int(count))
	}
	if err != nil {
		return j, err
	}
	var mu sync.Mutex
	runByBucket(tasks, func(t task) {
		changed, taskErr := t.run(ctx)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case savedButNotJournaled(taskErr):
			j.Done++
			j.Paused = pauseReason(taskErr, nil)
		case pauseReason(taskErr, nil) != "":
			err = errors.Join(err, taskErr)
		case taskErr != nil:
			if j.Failed++; len(j.Failures) < maxFailures {
				j.Failures = append(j.Failures, Failure{t.id, t.name, failureReason(taskErr)})
			}
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

// task is the change of one key.
type task struct {
	id, name string
	run      func(context.Context) (changed bool, err error)
}

// changeTasks returns the tasks of up to count keys, and the cursor behind them.
func (r *Registry) changeTasks(ctx context.Context, set *policy.Set, j Job, count int) (
	[]task, string, error) {
	keys, next, err := r.selectedKeys(ctx, set, j, count)
	tasks := make([]task, len(keys))
	for i, k := range keys {
		tasks[i] = task{k.ID, k.Name, func(ctx context.Context) (bool, error) {
			return j.apply(ctx, r, k, j.edit())
		}}
	}
	return tasks, next, err
}

// selectedKeys returns up to count keys that the job selects behind j.After, or all of
// j.IDs, and the cursor behind them.
func (r *Registry) selectedKeys(ctx context.Context, set *policy.Set, j Job, count int) (
	[]policy.Key, string, error) {
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

// parallelBuckets is how many buckets are changed at a time. Changes of one bucket wait
// for one another, and each waits for the journal.
const parallelBuckets = 32

// runByBucket runs the tasks of each bucket in their order, and several buckets at a
// time.
func runByBucket(tasks []task, run func(task)) {
	byBucket := map[keyspace.Bucket][]task{}
	for _, t := range tasks {
		b := keyspace.BucketOf(t.id)
		byBucket[b] = append(byBucket[b], t)
	}
	_ = keyspace.ForEach(slices.Collect(maps.Keys(byBucket)), parallelBuckets, func(b keyspace.Bucket) error {
		for _, t := range byBucket[b] {
			run(t)
		}
		return nil // run keeps the errors
	})
}

// savedButNotJournaled reports whether a change is saved in Valkey and waits there for
// the journal.
func savedButNotJournaled(err error) bool {
	return errors.Is(err, audit.ErrUnsafe) && !errors.Is(err, audit.ErrMayBeLost)
}

// pauseReason returns the reason shown for a step that ended early because of the journal
// or of its deadline. It is empty for other errors. ctxErr is the error of the step's
// context.
func pauseReason(err, ctxErr error) string {
	switch {
	case errors.Is(err, audit.ErrBehind):
		return audit.ErrBehind.Error()
	case errors.Is(err, audit.ErrMayBeLost):
		return "Valkey may have lost a change"
	case errors.Is(err, audit.ErrUnsafe):
		return "the journal does not have every change yet"
	case errors.Is(err, audit.ErrItem):
		return "the journal has a damaged object"
	case errors.Is(err, audit.ErrJournalUnavailable):
		return "the journal is unavailable"
	case err != nil && errors.Is(ctxErr, context.DeadlineExceeded):
		return "the step took too long"
	}
	return ""
}

// failureReason returns the reason shown for a key that could not be changed.
func failureReason(err error) string {
	if reason, ok := errors.AsType[IrreversibleError](err); ok {
		return string(reason)
	}
	if invalid, ok := errors.AsType[*policy.InvalidError](err); ok && len(invalid.Fields) > 0 {
		return invalid.Fields[0].Field + " " + invalid.Fields[0].Message
	}
	if errors.Is(err, policy.ErrConflict) {
		return "changed at the same time"
	}
	return "failed"
}

const (
	// jobLease is how long others wait for a step that was interrupted. It exceeds
	// stepEnds.
	jobLease = 20 * time.Second
	// leasePoll is the time between two attempts to get the lease of a job.
	leasePoll = 200 * time.Millisecond
)

var (
	// ErrTaken means that a step lasted longer than its lease, and another request runs
	// the job.
	ErrTaken        = errors.New("another request is running this job")
	errStepUnderWay = errors.New("a step of this job is under way") // another request has the lease
)

// saveFunc saves a job and returns it, Stopped if it was stopped meanwhile.
type saveFunc func(Job) (Job, error)

// withJob runs do while it holds the job's lease, and saves the job that do returns even
// if do fails. It waits up to maxWait for the lease, then returns the stored job and
// errStepUnderWay.
func (r *Registry) withJob(ctx context.Context, id string, maxWait time.Duration,
	do func(context.Context, Job, saveFunc) (Job, error)) (Job, error) {
	j, err := r.Job(ctx, id) // no lease is written for an id without a job
	if err != nil {
		return j, err
	}
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
		_, err = r.recordJob(ctx, j, audit.JobEnd, j.Actor())
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

// leaseJob reports whether it got the lease of a job within maxWait.
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

// saveJob saves a job for the holder of its lease, and releases the lease if release is
// true. It returns ErrTaken if the holder has lost the lease.
func (r *Registry) saveJob(ctx context.Context, j Job, holder string, release bool) (Job, error) {
	text, err := j.marshal()
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
