package app

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/audit"
	"tidegate/internal/policy"
)

// Undo is what a Job does that takes back the changes of another.
const Undo = "undo"

// Job is a change of many keys, made in steps, since a function's request is short. It is
// stored after each of them, so anybody can go on with it. The audit has its start, its
// end, and its id in the entry of every key that it changed.
type Job struct {
	ID       string           `json:"id"`
	Do       string           `json:"do"` // of a KeyChange, or Undo
	Plan     string           `json:"plan,omitempty"`
	Override *policy.Override `json:"override,omitempty"`
	IDs      []string         `json:"ids,omitempty"`
	Filter   *KeyFilter       `json:"filter,omitempty"` // nil for IDs
	Undoes   string           `json:"undoes,omitempty"` // the job that Undo takes back
	Total    int64            `json:"total"`            // keys that were confirmed, which bounds the job
	By       audit.Actor      `json:"by"`
	Reason   string           `json:"reason"`
	Started  time.Time        `json:"started"`

	Ended   time.Time `json:"ended,omitzero"`
	Stopped bool      `json:"stopped,omitempty"` // until somebody continues it
	Resumed string    `json:"resumed,omitempty"` // the last stop after which it was continued
	Paused  string    `json:"paused,omitempty"`  // why the last step ended early; empty if it did not
	Done    int64     `json:"done"`              // keys that were changed
	Skipped int64     `json:"skipped"`           // keys that were as they should be, or not active
	Failed  int64     `json:"failed"`            // keys that could not be changed
	Named   []Failure `json:"named,omitempty"`   // the first of those
	More    bool      `json:"more,omitempty"`    // it ended at Total; more keys match
	After   string    `json:"after,omitempty"`   // where the next step goes on

	stop string // the newest stop mark, as stored with the job
}

// Failure is a key that a job left as it was, and why.
type Failure struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Why  string `json:"why"`
}

// maxNamed is how many of the keys that could not be changed are named.
const maxNamed = 100

// Looked is how many keys the job has seen to.
func (j Job) Looked() int64 { return j.Done + j.Skipped + j.Failed }

// Over reports whether the job has ended.
func (j Job) Over() bool { return !j.Ended.IsZero() }

// Undoable reports whether there may be something that another job can take back. A key
// of a step that was done again counts as skipped; of an unfinished step nothing counts.
func (j Job) Undoable() bool {
	return j.Do != Reset && (j.Stopped || j.Over() && j.Looked() > 0)
}

// Words says what the job does and to how many keys.
func (j Job) Words() string { return JobWords(j.Do, j.Plan, j.Total) }

// JobWords says what a job does to a number of keys.
func JobWords(do, plan string, keys int64) string {
	n := policydoc.Number(keys) + " keys"
	if keys == 1 {
		n = "1 key"
	}
	switch do {
	case Plan:
		if plan == "" {
			return "Change plan of " + n
		}
		return "Change plan of " + n + " to " + plan
	case Override:
		return "Override limits of " + n
	case End:
		return "End overrides of " + n
	case Reset:
		return "Reset counts of " + n
	case Undo:
		return "Undo changes of " + n
	}
	return "Revoke " + n
}

// change is what the job does to a key.
func (j Job) change() KeyChange { return KeyChange{Do: j.Do, Plan: j.Plan, Override: j.Override} }

// NeedsCount reports whether the change harms callers and cannot simply be taken back, so
// that on all keys of a filter it is to be confirmed with their number.
func (c KeyChange) NeedsCount() bool { return c.Do == Revoke || c.Do == Reset }

// edit is what the audit records of each key.
func (j Job) edit() Edit { return Edit{By: j.By, Reason: j.Reason, Job: j.ID} }

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

// text is the stored form of the job.
func (j Job) text() ([]byte, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, fmt.Errorf("app: write job: %w", err)
	}
	return text, nil
}

func (j Job) entry(action string, text []byte) audit.Entry {
	return audit.Entry{By: j.By, Action: action, Subject: j.ID, Name: j.Words(), Reason: j.Reason,
		After: text}
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
