package app

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
)

const (
	// jobLease is how long others wait for a step that was interrupted: longer than
	// stepEnds.
	jobLease = 20 * time.Second
	// leasePoll is how often a job is looked at that another goes on with.
	leasePoll = 200 * time.Millisecond
)

// Job returns a job. One that Valkey lost, or stored too long ago, is as the audit has
// it. If it has no end there, it may have been stopped or undone: it is Stopped, and
// begins again when somebody continues it, which changes nothing twice.
func (r *Registry) Job(ctx context.Context, id string) (Job, error) {
	text, stop, err := r.store.Job(ctx, id)
	if err != nil {
		return Job{}, err
	}
	lost := text == ""
	if lost {
		newest, err := r.recorded(ctx, id, audit.OfJobs)
		if err != nil {
			return Job{}, err
		}
		text = string(newest.After)
	}
	var j Job
	if err := json.Unmarshal([]byte(text), &j); err != nil || j.ID != id {
		return Job{}, policy.ErrNotFound
	}
	j.stop = stop
	switch {
	case j.Over():
		j.Stopped = false
	case lost:
		j.Stopped, j.Paused = true, progressLost
	case stop != j.Resumed && stop != "":
		j.Stopped = true
	}
	return j, nil
}

// recorded is the newest entry about a job whose action begins so.
func (r *Registry) recorded(ctx context.Context, job, action string) (audit.Entry, error) {
	list, err := r.store.Audit().List(ctx, audit.Query{Subject: job, Action: action, Count: 1, Older: true})
	if err != nil {
		return audit.Entry{}, err
	}
	if job == "" || len(list.Entries) == 0 {
		return audit.Entry{}, policy.ErrNotFound
	}
	return list.Entries[0], nil
}

// OpenJobs returns the jobs that have neither ended nor been stopped, the oldest first.
func (r *Registry) OpenJobs(ctx context.Context) ([]Job, error) {
	ids, err := r.store.OpenJobs(ctx)
	if err != nil {
		return nil, err
	}
	var open []Job
	for _, id := range ids {
		j, err := r.Job(ctx, id)
		switch {
		case err != nil && !errors.Is(err, policy.ErrNotFound):
			return nil, err
		case err != nil || j.Over() || j.Stopped: // a step was interrupted at its end
			if err := r.store.ListJob(ctx, id, false); err != nil {
				return nil, err
			}
		default:
			open = append(open, j)
		}
	}
	return open, nil
}

// text is the stored form of the job.
func (j Job) text() ([]byte, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, fmt.Errorf("app: write job: %w", err)
	}
	return text, nil
}

func (j Job) entry(action string, text []byte) audit.Entry {
	return audit.Entry{By: j.By, Action: action, Subject: j.ID, Name: j.Title(), Reason: j.Reason,
		After: text}
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
