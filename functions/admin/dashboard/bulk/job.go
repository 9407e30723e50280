package bulk

import (
	"errors"
	"net/http"
	"strconv"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// A job goes on with each request for a step: the script of its page sends one after the
// other, and without a script there is a button. A tab that is closed leaves it where it
// is; the list of keys says so to every editor. GET changes nothing.

// found returns the job of the path, or answers the request.
func (d *Pages) found(w http.ResponseWriter, r *http.Request) (app.Job, bool) {
	j, err := d.Keys.Job(r.Context(), r.PathValue("job"))
	if err != nil {
		d.failJob(w, r, err)
		return j, false
	}
	return j, true
}

func (d *Pages) failJob(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, policy.ErrNotFound):
		d.Fail(w, r, page.Problem{Status: http.StatusNotFound, Heading: "No such job",
			Advice: "The address may be mistyped."})
	case errors.Is(err, app.ErrRunning):
		d.Fail(w, r, page.Problem{Status: http.StatusConflict, Heading: "The job is in progress",
			Advice: "Stop it first."})
	case errors.Is(err, app.ErrNoUndo):
		d.Fail(w, r, page.Problem{Status: http.StatusConflict, Heading: "Cannot undo this job",
			Advice: "It changed nothing that can be taken back."})
	default:
		d.FailStore(w, r, "bulk job", err)
	}
}

// showJob shows how far the job is, and the button that goes on with it.
func (d *Pages) showJob(w http.ResponseWriter, r *http.Request) {
	j, ok := d.found(w, r)
	if !ok {
		return
	}
	path := d.jobPath(j.ID)
	p := templates.JobPage{
		Page: d.Page(r, "Job"), Heading: page.Clip(j.Title(), page.MaxName),
		Reason: page.Clip(j.Reason, policy.MaxReasonLen), By: page.Clip(j.By.Name, page.MaxName),
		Started: page.Instant(j.Started), Looked: page.Number(j.Processed()), Of: page.Number(j.Total),
		Total: strconv.FormatInt(max(j.Total, 1), 10), Progress: strconv.FormatInt(j.Processed(), 10),
		Done: page.Number(j.Done), Skipped: page.Number(j.Skipped), More: j.More,
		Finished: j.Over(), Stopped: j.Stopped, Paused: page.Clip(j.Paused, page.MaxName),
		Back:  d.Path("/keys"),
		Audit: page.Address(d.Path("/audit"), map[string][]string{"job": {j.ID}}),
	}
	if j.Filter != nil {
		p.Back = page.Address(p.Back, changes.FilterValues(*j.Filter))
	}
	if j.Undoes != "" {
		p.Undoes = d.jobPath(j.Undoes)
	}
	if j.Failed > 0 {
		p.Failed = page.Number(j.Failed)
	}
	for _, f := range j.Failures {
		p.Named = append(p.Named, templates.LeftKey{
			Name: page.Clip(f.Name, page.MaxName), Address: d.Path("/keys/" + f.ID),
			Why: page.Clip(f.Why, page.MaxName),
		})
	}
	if page.CanEdit(r) {
		d.offer(&p, j, path)
	}
	d.Render(w, r, http.StatusOK, templates.Job(p))
}

// offer adds what an editor can do with the job.
func (d *Pages) offer(p *templates.JobPage, j app.Job, path string) {
	if j.Undoable() {
		p.Undo = path + "/undo"
	}
	if j.Over() {
		return
	}
	p.Form = &templates.Form{Action: path, Submit: "Continue", Auto: !j.Stopped && j.Paused == ""}
	if j.Stopped {
		p.Form.Hidden = []templates.Hidden{{Name: "resume", Value: "yes"}}
	} else {
		p.Stop = path + "/stop"
	}
}

// stepJob does the next part of the job.
func (d *Pages) stepJob(w http.ResponseWriter, r *http.Request) {
	if !d.ParseForm(w, r) {
		return
	}
	j, err := d.Keys.StepJob(r.Context(), r.PathValue("job"), r.PostForm.Get("resume") != "")
	if err != nil {
		d.failJob(w, r, err)
		return
	}
	http.Redirect(w, r, d.jobPath(j.ID), http.StatusSeeOther)
}

func (d *Pages) stopJob(w http.ResponseWriter, r *http.Request) {
	j, err := d.Keys.StopJob(r.Context(), r.PathValue("job"))
	if err != nil {
		d.failJob(w, r, err)
		return
	}
	http.Redirect(w, r, d.jobPath(j.ID), http.StatusSeeOther)
}
