package app

import (
	"context"
	"crypto/rand"
	"errors"
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

// apply changes a key, once more if somebody else just did, and reports whether there was
// anything to change. Keys that are not active are left alone.
func (c KeyChange) apply(ctx context.Context, keys *Registry, k policy.Key,
	edit Edit) (bool, error) {
	if k.Status != policy.Active {
		return false, nil
	}
	changed, current, err := c.change(ctx, keys, k, edit)
	if errors.Is(err, policy.ErrConflict) && current.Status == policy.Active {
		changed, _, err = c.change(ctx, keys, current, edit)
	}
	if errors.Is(err, policy.ErrNotFound) {
		return false, nil
	}
	return changed, err
}

func (c KeyChange) change(ctx context.Context, keys *Registry, k policy.Key,
	edit Edit) (changed bool, current policy.Key, err error) {
	switch {
	case c.Do == Plan && k.Plan == c.Plan, c.Do == End && k.Override == nil:
		return false, k, nil
	}
	current, err = keys.Change(ctx, k.ID, Base{Version: k.Version}, c, edit)
	return current.Version != k.Version, current, err
}
