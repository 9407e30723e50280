package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/audit"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
)

// Undo is the kind of a Job that reverts the changes of another job.
const Undo = "undo"

// Job changes many keys in steps, because a function's request is short. It is stored
// after each step, so any request can continue it. The audit records its start, its end,
// and its id in the entry of every key that it changed.
type Job struct {
	KeyChange             // Do may also be Undo
	ID        string      `json:"id"`
	Plan      string      `json:"plan,omitempty"` // name at the start
	IDs       []string    `json:"ids,omitempty"`
	Filter    *KeyFilter  `json:"filter,omitempty"`   // nil if IDs selects the keys
	Undoes    string      `json:"undoes,omitempty"`   // id of the job that Undo reverts
	Total     int64       `json:"total"`              // keys the user confirmed; no more are changed
	By        audit.Actor `json:"by"`                 // who started it
	Resumer   audit.Actor `json:"resumedBy,omitzero"` // who continued it after the last stop
	Reason    string      `json:"reason"`
	Started   time.Time   `json:"started"`

	Ended    time.Time `json:"ended,omitzero"`
	Stopped  bool      `json:"stopped,omitempty"` // until somebody continues it
	Resumed  string    `json:"resumed,omitempty"` // the last stop mark that was overruled
	Paused   string    `json:"paused,omitempty"`  // why the last step ended early; empty otherwise
	Done     int64     `json:"done"`              // keys that were changed
	Skipped  int64     `json:"skipped"`           // keys that needed no change or are not active
	Failed   int64     `json:"failed"`            // keys that could not be changed
	Failures []Failure `json:"named,omitempty"`   // the first maxFailures of them
	More     bool      `json:"more,omitempty"`    // it ended at Total although more keys match
	After    string    `json:"after,omitempty"`   // cursor at which the next step begins

	stop string // the newest stop mark, which is stored beside the job
}

// Failure is a key that a job could not change, and the reason.
type Failure struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Why  string `json:"why"`
}

// maxFailures bounds Job.Failures.
const maxFailures = 100

// Processed returns the number of keys the job has handled.
func (j Job) Processed() int64 { return j.Done + j.Skipped + j.Failed }

// Over reports whether the job has ended.
func (j Job) Over() bool { return !j.Ended.IsZero() }

// Undoable reports whether the job may have changes that another job can revert. It
// cannot use Done: a repeated chunk counts its keys as skipped, and an unfinished one
// counts none.
func (j Job) Undoable() bool {
	return j.Do != Reset && (j.Stopped || j.Over() && j.Processed() > 0)
}

// jobTitles has a change's title: what stands before the number of keys, and between the
// number and what the change sets.
var jobTitles = map[string][2]string{
	Plan: {"Change plan of ", " to "}, Override: {"Override limits of "}, EndOverride: {"End overrides of "},
	Reset: {"Reset counts of "}, Revoke: {"Revoke "}, Ban: {"Ban ", " until "}, Unban: {"Unban "},
	AddTags: {"Add tags to ", ": "}, RemoveTags: {"Remove tags from ", ": "},
	SetGroup: {"Change group of ", " to "}, SetExpiry: {"Change expiry of ", " to "},
	Undo: {"Undo changes of "},
}

// Title describes the change and the number of keys.
func (j Job) Title() string {
	return j.Heading() + jobTitles[j.Do][1] + j.sets()
}

// Heading describes the kind of change and the number of keys.
func (j Job) Heading() string { return jobTitles[j.Do][0] + KeyCount(j.Total) }

// sets returns what the change sets, as text.
func (j Job) sets() string {
	switch {
	case j.Do == Plan:
		return j.Plan
	case j.Do == AddTags, j.Do == RemoveTags:
		return strings.Join(j.Tags, ", ")
	case j.Do == SetGroup:
		return cmp.Or(j.Group, "none")
	case j.Do == SetExpiry && j.Until.IsZero():
		return "never"
	case j.Do == Ban, j.Do == SetExpiry:
		return j.Until.UTC().Format(policydoc.ToMinute)
	}
	return ""
}

// KeyCount returns a number of keys in words, such as "1 key" or "1,200 keys".
func KeyCount(n int64) string {
	if n == 1 {
		return "1 key"
	}
	return limits.Number(n) + " keys"
}

// Actor returns who answers for the changes of the next step.
func (j Job) Actor() audit.Actor { return cmp.Or(j.Resumer, j.By) }

// edit returns what the audit records with each key.
func (j Job) edit() Edit { return Edit{By: j.Actor(), Reason: j.Reason, Job: j.ID} }

// NeedsCount reports whether a job that is to start harms callers, is hard to revert and
// changes all keys of a filter. Its author must confirm their number.
func (j Job) NeedsCount() bool {
	return j.Filter != nil && (j.Do == Revoke || j.Do == Reset || j.Do == Ban)
}

// StartJob records and stores a job for StepJob to run. It uses the change, the selection
// of keys and Total of j, and sets the rest. The plan is the one that has the name in set,
// whatever its name becomes. StartJob returns a *policy.InvalidError if the store would
// refuse the change for every key, an *UnconfirmedError if accepts does not confirm the
// warnings of an override, and ErrRunning if j undoes a job that has a step under way.
func (r *Registry) StartJob(
	ctx context.Context, set *policy.Set, j Job, accepts Accepts, e Edit,
) (Job, error) {
	j.ID, j.By, j.Reason, j.Started = rand.Text(), e.By, e.Reason, time.Now().UTC()
	if err := e.Validate(); err != nil {
		return Job{}, err
	}
	if j.Do == Plan {
		p, found := set.Plan(j.Plan)
		if !found {
			return Job{}, policy.Invalid(
				[]policy.FieldError{{Field: "plan", Message: "no plan has this name"}})
		}
		j.PlanNumber = p.Number
	}
	if err := r.validateJob(ctx, set, j); err != nil {
		return Job{}, err
	}
	if err := r.confirmOverride(ctx, j.Override, accepts); err != nil {
		return Job{}, err
	}
	if err := r.awaitStep(ctx, j.Undoes); err != nil {
		return Job{}, err
	}
	text, err := r.recordJob(ctx, j, audit.JobStart, j.By)
	if err != nil {
		return Job{}, err
	}
	return j, r.store.CreateJob(ctx, j.ID, string(text))
}

// validateJob validates the change, and an override or a plan on a copy of the first
// selected key.
func (r *Registry) validateJob(ctx context.Context, set *policy.Set, j Job) error {
	if j.Do != Override && j.Do != Plan {
		return j.Validate()
	}
	first, _, err := r.selectedKeys(ctx, set, j, 1)
	if err != nil || len(first) == 0 {
		return err
	}
	k, _ := j.Result(set, first[0])
	if k.Status != policy.Active {
		return nil
	}
	return k.Validate(set, first[0])
}

// awaitStep waits until the job to be undone has no step under way: a step would change
// keys that the undo has passed. It returns ErrRunning if the job is still running.
func (r *Registry) awaitStep(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	same := func(_ context.Context, j Job, _ saveFunc) (Job, error) { return j, nil }
	j, err := r.withJob(ctx, id, stepTime, same)
	if errors.Is(err, errStepUnderWay) || err == nil && !j.Over() && !j.Stopped {
		return ErrRunning
	}
	return err
}

// recordJob appends the job to the audit and returns its stored form.
func (r *Registry) recordJob(ctx context.Context, j Job, action string, by audit.Actor) ([]byte, error) {
	text, err := j.marshal()
	if err != nil {
		return nil, err
	}
	return text, r.store.Audit().Append(ctx, audit.Entry{
		By: by, Action: action, Subject: j.ID, Name: j.Title(), Reason: j.Reason, After: text,
	})
}

// marshal returns the stored form of the job.
func (j Job) marshal() ([]byte, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, fmt.Errorf("app: write job: %w", err)
	}
	return text, nil
}

// StopJob stops a job until somebody continues it. A step that is under way ends after
// its chunk. A nil error means that the stop holds for every request that continues the
// job, and that the audit says who stopped it.
func (r *Registry) StopJob(ctx context.Context, id string, by audit.Actor) (Job, error) {
	j, err := r.Job(ctx, id)
	if err != nil || j.Over() || j.Stopped {
		return j, err
	}
	if err := r.store.StopJob(ctx, id, rand.Text()); err != nil {
		return j, err
	}
	if j, err = r.Job(ctx, id); err != nil || j.Over() {
		return j, err
	}
	if err := r.store.ListJob(ctx, id, false); err != nil {
		return j, err
	}
	_, err = r.recordJob(ctx, j, audit.JobStop, by)
	return j, err
}

// lostReason is shown as Job.Paused for a job whose state Valkey lost.
const lostReason = "Valkey lost the progress of the job; it may have been stopped or undone"

// Job returns a job, or policy.ErrNotFound. A job that Valkey lost, or stored too long
// ago, is read from the audit. If it has no end there, it may have been stopped or
// undone, so it is returned as Stopped. Continuing it starts over, which changes no key
// twice.
func (r *Registry) Job(ctx context.Context, id string) (Job, error) {
	stored, err := r.store.Jobs(ctx, id)
	if err != nil {
		return Job{}, err
	}
	return r.readJob(ctx, id, stored[0])
}

// Jobs returns the jobs among ids that exist, in the order of ids, as Job does.
func (r *Registry) Jobs(ctx context.Context, ids []string) ([]Job, error) {
	stored, err := r.store.Jobs(ctx, ids...)
	if err != nil {
		return nil, err
	}
	jobs := make([]Job, 0, len(ids))
	for i, id := range ids {
		j, err := r.readJob(ctx, id, stored[i])
		if err != nil && !errors.Is(err, policy.ErrNotFound) {
			return nil, err
		}
		if err == nil {
			jobs = append(jobs, j)
		}
	}
	return jobs, nil
}

// RecentJobs returns up to 200 jobs that started in the last 30 days, newest first.
func (r *Registry) RecentJobs(ctx context.Context) ([]Job, error) {
	ids, err := r.store.RecentJobs(ctx)
	if err != nil {
		return nil, err
	}
	return r.Jobs(ctx, ids)
}

// readJob decodes a stored job, or the one in the audit if its text is lost.
func (r *Registry) readJob(ctx context.Context, id string, stored registry.StoredJob) (Job, error) {
	text, stop := stored.Text, stored.Stop
	lost := text == ""
	if lost {
		newest, err := r.newestEntry(ctx, id, audit.OfJobs)
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
		j.Stopped, j.Paused = true, lostReason
	case stop != j.Resumed && stop != "":
		j.Stopped = true
	}
	return j, nil
}

// newestEntry returns the newest audit entry of a job whose action begins with action, or
// policy.ErrNotFound.
func (r *Registry) newestEntry(ctx context.Context, job, action string) (audit.Entry, error) {
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
	jobs, err := r.Jobs(ctx, ids)
	if err != nil {
		return nil, err
	}
	var open []Job
	for _, id := range ids {
		i := slices.IndexFunc(jobs, func(j Job) bool { return j.ID == id })
		if i >= 0 && !jobs[i].Over() && !jobs[i].Stopped {
			open = append(open, jobs[i])
			continue
		}
		if err := r.store.ListJob(ctx, id, false); err != nil { // a step died before it removed the job
			return nil, err
		}
	}
	return open, nil
}
