package app

import (
	"context"
	"crypto/rand"
	"time"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
)

// StartJob records and stores a job that is begun by StepJob. Of j it takes what is to be
// done, to which keys, and Total. What the store would refuse for every key is refused
// here with a *policy.InvalidError. An undo fails with ErrRunning while a step of the
// other job is under way.
func (r *Registry) StartJob(ctx context.Context, set *policy.Set, j Job, e Edit) (Job, error) {
	j.ID, j.By, j.Reason, j.Started = rand.Text(), e.By, e.Reason, time.Now().UTC()
	if err := e.Validate(); err != nil {
		return Job{}, err
	}
	if err := r.tryJob(ctx, set, j); err != nil {
		return Job{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepEnds)
	defer cancel()
	if err := r.awaitStep(ctx, j.Undoes); err != nil {
		return Job{}, err
	}
	text, err := j.text()
	if err != nil {
		return Job{}, err
	}
	if err := r.store.Audit().Append(ctx, j.entry(audit.JobStart, text)); err != nil {
		return Job{}, err
	}
	return j, r.store.CreateJob(ctx, j.ID, string(text))
}

// tryJob makes the change to a copy of the first key that is meant.
func (r *Registry) tryJob(ctx context.Context, set *policy.Set, j Job) error {
	if j.Do != Override && j.Do != Plan {
		return nil
	}
	first, _, err := r.meant(ctx, set, j, 1)
	if err != nil || len(first) == 0 {
		return err
	}
	k := first[0]
	if j.Do == Plan {
		k.Plan = j.Plan
	} else {
		k.Override = j.Override
	}
	if k.Status != policy.Active {
		return nil
	}
	return k.Validate(set)
}
