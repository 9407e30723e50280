package keys

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/internal/policy"
)

type (
	bulkInput struct {
		rest.AcceptQuery
		Body struct {
			rest.WithReason
			Do       string      `json:"do" enum:"plan,override,end,reset,revoke,ban,unban,tag,untag,group,expiry" doc:"Change to make to each key; end removes overrides, untag removes tags"`
			IDs      []string    `json:"ids,omitempty" maxItems:"100" doc:"Ids of the keys to change"`
			Filter   *BulkFilter `json:"filter,omitempty" doc:"In place of ids: change all keys that match; {} matches every key"`
			Plan     string      `json:"plan,omitempty" maxLength:"100" doc:"With do plan: name of the new plan"`
			Override *Override   `json:"override,omitempty" doc:"With do override: the new limits"`
			Until    *time.Time  `json:"until,omitempty" doc:"With do ban: when the ban ends. With do expiry: the new expiry; if omitted, never"`
			Tags     []string    `json:"tags,omitempty" maxItems:"10" doc:"With do tag or untag: the tags to add or remove"`
			Group    string      `json:"group,omitempty" maxLength:"64" doc:"With do group: the new group; if omitted, none"`
			Confirm  *int64      `json:"confirm,omitempty" minimum:"0" doc:"Number of keys that match. Needed in the first request of revoke, reset or ban with a filter"`
			After    string      `json:"after,omitempty" maxLength:"1000" doc:"The value of next in the previous response"`
		}
	}
	bulkOutput struct {
		Body struct {
			Job     string   `json:"job" doc:"Id of the job"`
			Total   int64    `json:"total" doc:"Number of keys to change; the job never changes more"`
			Done    int64    `json:"done" doc:"Keys changed by this request"`
			Skipped int64    `json:"skipped" doc:"Keys that needed no change or are not active"`
			Failed  []string `json:"failed" doc:"Ids of keys that this request could not change; the job names the first 100"`
			Next    string   `json:"next,omitempty" doc:"Repeat the request with after set to this value, or POST to the job; absent when the job has ended"`
		}
	}
	// JobPath is the path parameter of a bulk job.
	JobPath struct {
		Job string `path:"job" doc:"Id of the job" maxLength:"64"`
	}
	continueInput struct {
		JobPath
		Resume bool `query:"resume" doc:"Continues a stopped job. Send it once, not with every request"`
	}
	undoInput struct {
		JobPath
		rest.RequiredReason
	}
)

// Job is the state of a change of many keys.
type Job struct {
	ID      string       `json:"id"`
	Title   string       `json:"title" example:"Change plan of 50 keys to pro"`
	Do      string       `json:"do" enum:"plan,override,end,reset,revoke,ban,unban,tag,untag,group,expiry,undo"`
	Undoes  string       `json:"undoes,omitempty" doc:"Id of the job that this job undoes"`
	By      schema.Actor `json:"by" doc:"Who started the job, or continued it after a stop"`
	Reason  string       `json:"reason"`
	Started time.Time    `json:"started"`
	Ended   *time.Time   `json:"ended,omitempty" doc:"When the job ended; absent until then"`
	Stopped bool         `json:"stopped" doc:"The job is stopped until somebody continues it"`
	Paused  string       `json:"paused,omitempty" doc:"Why the last request ended early, or what waits for the journal"`
	Total   int64        `json:"total" doc:"Number of keys to change; the job never changes more"`
	Done    int64        `json:"done" doc:"Keys changed"`
	Skipped int64        `json:"skipped" doc:"Keys that needed no change or are not active"`
	Failed  int64        `json:"failed" doc:"Keys that could not be changed, or that an undo left unchanged"`
	Left    []LeftKey    `json:"left" doc:"The first 100 of the failed keys"`
	More    bool         `json:"more" doc:"More keys match than the job counted at its start; it leaves the others unchanged"`
}

// LeftKey is a key that a job did not change, and the reason.
type LeftKey struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Why  string `json:"why" example:"The key was changed since."`
}

func jobOf(j app.Job) Job {
	out := Job{
		ID: j.ID, Title: j.Title(), Do: j.Do, Undoes: j.Undoes, By: schema.Actor(j.Actor()), Reason: j.Reason,
		Started: j.Started,
		Stopped: j.Stopped, Paused: j.Paused, Total: j.Total, Done: j.Done, Skipped: j.Skipped,
		Failed: j.Failed, Left: []LeftKey{}, More: j.More,
	}
	if j.Over() {
		out.Ended = &j.Ended
	}
	for _, f := range j.Failures {
		out.Left = append(out.Left, LeftKey(f))
	}
	return out
}

// BulkFilter selects the keys of a bulk change.
type BulkFilter struct {
	Prefix string `json:"prefix,omitempty" maxLength:"100"`
	Plan   string `json:"plan,omitempty" maxLength:"100" doc:"Name of a plan"`
	Group  string `json:"group,omitempty" maxLength:"64"`
	State  string `json:"state,omitempty" enum:"overridden,blocked,near,shadow,banned,expiring,revoked,unreadable"`
}

func (ops operations) registerBulk(group rest.Group) {
	rest.Register(group, rest.Operation{
		Pattern: "POST /bulk", ID: "change-keys", Role: auth.Editor,
		Deadline: auth.Long, Summary: "Start a bulk change of keys",
		Details: "Starts a job and works on it for about 3 seconds. The response says how to continue. A " +
			"repeated request changes no key twice.",
	}, ops.changeKeys)
	rest.Register(group, rest.Operation{
		Pattern: "GET /bulk", ID: "list-jobs", Role: auth.Viewer,
		Summary: "List the last 200 bulk jobs of 30 days, newest first",
	}, ops.listJobs)
	rest.Register(group, rest.Operation{
		Pattern: "GET /bulk/{job}", ID: "get-job", Role: auth.Viewer,
		Summary: "Get the progress of a bulk job",
	}, ops.getJob)
	rest.Register(group, rest.Operation{
		Pattern: "POST /bulk/{job}", ID: "continue-job", Role: auth.Editor,
		Deadline: auth.Long, Summary: "Continue a job for about 3 seconds",
		Details: "Repeat until the response has ended. While another request works on the job, it returns " +
			"the progress. A job that was stopped, or whose progress Valkey lost, gets 409 and needs resume.",
	}, ops.continueJob)
	rest.Register(group, rest.Operation{
		Pattern: "POST /bulk/{job}/undo", ID: "undo-job", Role: auth.Editor,
		Deadline: auth.Long, Summary: "Undo a job",
		Details: "Starts another job, which restores every key that was not changed since. Continue it " +
			"like any job.",
	}, ops.undoJob)
}

func (ops operations) changeKeys(ctx context.Context, in *bulkInput) (*bulkOutput, error) {
	job, err := ops.bulkJob(ctx, in)
	if err != nil {
		return nil, err
	}
	before := job
	if job, err = ops.keys.StepJob(ctx, job.ID); err != nil {
		return nil, err
	}
	if job.Stopped {
		return nil, stopped(job)
	}
	if job.Paused != "" && !before.Over() {
		return nil, rest.NewProblem(http.StatusServiceUnavailable,
			"Paused: "+job.Paused+". Some keys may be changed already. Send the request again with after "+
				"set to "+job.ID+".")
	}
	out := &bulkOutput{}
	out.Body.Job, out.Body.Total = job.ID, job.Total
	out.Body.Done, out.Body.Skipped = job.Done-before.Done, job.Skipped-before.Skipped
	out.Body.Failed = []string{}
	for _, f := range job.Failures[len(before.Failures):] {
		out.Body.Failed = append(out.Body.Failed, f.ID)
	}
	if !job.Over() {
		out.Body.Next = job.ID
	}
	return out, nil
}

// bulkJob starts the job of a request, or returns the job that the request continues.
func (ops operations) bulkJob(ctx context.Context, in *bulkInput) (app.Job, error) {
	if in.Body.After != "" {
		j, err := ops.keys.Job(ctx, in.Body.After)
		if errors.Is(err, policy.ErrNotFound) || err == nil && j.Do != in.Body.Do {
			return j, rest.Invalid("body.after", "names no job with this do; start again without after")
		}
		return j, err
	}
	set, err := ops.keys.Set(ctx)
	if err != nil {
		return app.Job{}, err
	}
	j, err := in.job(set)
	if err != nil {
		return j, err
	}
	j.Total, err = ops.keys.CountMatching(ctx, set, j.IDs, j.Filter)
	if errors.Is(err, app.ErrUncounted) {
		return j, rest.Invalid("body.filter", "matches "+err.Error()+": narrow it by a prefix")
	}
	if err != nil {
		return j, err
	}
	if err := in.confirmed(j); err != nil {
		return j, err
	}
	return ops.keys.StartJob(ctx, set, j, in.Accepts, app.NewEdit(ctx, in.Body.Reason))
}

// confirmed refuses a change that harms callers unless its first request sends the number
// of keys that match.
func (in *bulkInput) confirmed(j app.Job) error {
	if sent := in.Body.Confirm; j.NeedsCount() && sent == nil || sent != nil && *sent != j.Total {
		return rest.Invalid("body.confirm",
			fmt.Sprintf("must be %d, the number of keys that match", j.Total))
	}
	return nil
}

// job returns the job, not yet started, that the request describes.
func (in *bulkInput) job(set *policy.Set) (app.Job, error) {
	b := in.Body
	var details rest.Details
	add := func(location, message string) {
		details = append(details, rest.Detail{Location: "body." + location, Message: message})
	}
	if (len(b.IDs) == 0) == (b.Filter == nil) {
		add("ids", "or filter is required, but not both")
	}
	if _, known := set.Plan(b.Plan); b.Do == app.Plan && !known {
		add("plan", "no plan has this name")
	}
	j := app.Job{KeyChange: app.KeyChange{Do: b.Do}, IDs: b.IDs}
	switch b.Do {
	case app.Plan:
		j.Plan = b.Plan
	case app.Override:
		if b.Override == nil {
			add("override", "is required with this do")
		}
		j.Override = b.Override.read("override.", &details)
	case app.Ban, app.SetExpiry:
		details.Add("until", inFuture(b.Until, "to block keys now, revoke them"))
		j.Until = schema.TimeOf(b.Until)
	case app.AddTags, app.RemoveTags:
		j.Tags = b.Tags
	case app.SetGroup:
		j.Group = b.Group
	}
	if err := details.Err(); err != nil {
		return j, err
	}
	if f := b.Filter; f != nil {
		selected, err := filter(set, f.Prefix, f.Plan, f.State, "body.filter.plan")
		selected.Group = f.Group
		j.Filter = &selected
		return j, err
	}
	return j, nil
}

// JobList is the answer of list-jobs.
type JobList struct {
	Items []Job `json:"items"`
}

func (ops operations) listJobs(ctx context.Context, _ *rest.None) (*rest.Body[JobList], error) {
	jobs, err := ops.keys.RecentJobs(ctx)
	if err != nil {
		return nil, err
	}
	list := JobList{Items: make([]Job, len(jobs))}
	for i, j := range jobs {
		list.Items[i] = jobOf(j)
	}
	return rest.Answer(list), nil
}

func (ops operations) getJob(ctx context.Context, in *JobPath) (*rest.Body[Job], error) {
	j, err := ops.keys.Job(ctx, in.Job)
	return answerJob(j, err)
}

func (ops operations) continueJob(ctx context.Context, in *continueInput) (*rest.Body[Job], error) {
	if in.Resume {
		return answerJob(ops.keys.ResumeJob(ctx, in.Job, app.ActorOf(ctx)))
	}
	j, err := ops.keys.StepJob(ctx, in.Job)
	if err == nil && j.Stopped {
		return nil, stopped(j)
	}
	return answerJob(j, err)
}

// stopped returns the problem of continuing a stopped job without resume. It keeps a
// script that repeats its request from overruling every stop at once.
func stopped(j app.Job) error {
	return rest.NewProblem(http.StatusConflict,
		"The job is stopped. POST "+rest.Prefix+"/bulk/"+j.ID+"?resume=true continues it.")
}

func (ops operations) undoJob(ctx context.Context, in *undoInput) (*rest.Body[Job], error) {
	j, err := ops.keys.Job(ctx, in.Job)
	if err == nil {
		j, err = ops.keys.UndoingJob(ctx, j)
	}
	if err == nil {
		j, err = ops.keys.StartJob(ctx, nil, j, nil, app.NewEdit(ctx, in.Body.Reason))
	}
	if err == nil {
		j, err = ops.keys.StepJob(ctx, j.ID)
	}
	return answerJob(j, err)
}

func answerJob(j app.Job, err error) (*rest.Body[Job], error) {
	switch {
	case errors.Is(err, policy.ErrNotFound):
		return nil, rest.NewProblem(http.StatusNotFound, "No such job.")
	case errors.Is(err, app.ErrRunning):
		return nil, rest.NewProblem(http.StatusConflict,
			"The job has not ended. Continue it to its end, or stop it on the dashboard.")
	case errors.Is(err, app.ErrNoUndo):
		return nil, rest.NewProblem(http.StatusConflict, "The job changed nothing that can be undone.")
	case err != nil:
		return nil, err
	}
	return rest.Answer(jobOf(j)), nil
}
