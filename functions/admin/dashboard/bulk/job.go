package bulk

import (
	"errors"
	"net/http"
	"strconv"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// Each POST to a job's page runs one step of the job. The page's script sends them one
// after the other; without a script there is a button. Closing the tab interrupts a job;
// the list of keys links to it for editors.

// job returns the job in the path.
func (d *Pages) job(r *http.Request) (app.Job, error) {
	j, err := d.Keys.Job(r.Context(), r.PathValue("job"))
	if err != nil {
		return j, jobProblem(err)
	}
	return j, nil
}

func jobProblem(err error) error {
	switch {
	case errors.Is(err, policy.ErrNotFound):
		return page.Problem{Status: http.StatusNotFound, Heading: "No such job",
			Advice: "The address may be mistyped."}
	case errors.Is(err, app.ErrRunning):
		return page.Problem{Status: http.StatusConflict, Heading: "The job is running",
			Advice: "Stop it first, then undo it."}
	case errors.Is(err, app.ErrNoUndo):
		return page.Problem{Status: http.StatusConflict, Heading: "Cannot undo this job",
			Advice: "None of its changes can be undone."}
	default:
		return page.Failed("bulk job", err)
	}
}

// showJob shows the progress of a job, and to editors the buttons to continue, stop or
// undo it.
func (d *Pages) showJob(w http.ResponseWriter, r *http.Request) error {
	j, err := d.job(r)
	if err != nil {
		return err
	}
	path := d.jobPath(j.ID)
	p := templates.JobPage{
		Page: d.Page(r, "Job"), Heading: page.Clip(j.Title(), page.MaxName),
		Reason: page.Clip(j.Reason, policy.MaxReasonLen), By: page.Clip(j.Actor().Name, page.MaxName),
		Started: page.Instant(j.Started), Processed: page.Number(j.Processed()), Of: page.Number(j.Total),
		Total: strconv.FormatInt(max(j.Total, 1), 10), Progress: strconv.FormatInt(j.Processed(), 10),
		Done: page.Number(j.Done), Skipped: page.Number(j.Skipped), More: j.More,
		Finished: j.Over(), Stopped: j.Stopped, Paused: page.Clip(j.Paused, page.MaxName),
		Back: d.Path("/keys"), Jobs: d.Path("/jobs"),
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
		p.Named = append(p.Named, templates.UnchangedKey{
			Name: page.Clip(f.Name, page.MaxName), Address: d.Path("/keys/" + f.ID),
			Why: page.Clip(f.Why, page.MaxName),
		})
	}
	if page.CanEdit(r) {
		addButtons(&p, j, path)
	}
	return d.Render(w, r, http.StatusOK, templates.Job(p))
}

// addButtons adds the buttons to continue, stop and undo the job.
func addButtons(p *templates.JobPage, j app.Job, path string) {
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

// stepJob runs the next step of a job.
func (d *Pages) stepJob(w http.ResponseWriter, r *http.Request) error {
	if err := page.ParseForm(r); err != nil {
		return err
	}
	var j app.Job
	var err error
	if id := r.PathValue("job"); r.PostForm.Get("resume") != "" {
		j, err = d.Keys.ResumeJob(r.Context(), id, app.ActorOf(r.Context()))
	} else {
		j, err = d.Keys.StepJob(r.Context(), id)
	}
	if err != nil {
		return jobProblem(err)
	}
	return page.Redirect(w, r, d.jobPath(j.ID))
}

func (d *Pages) stopJob(w http.ResponseWriter, r *http.Request) error {
	j, err := d.Keys.StopJob(r.Context(), r.PathValue("job"), app.ActorOf(r.Context()))
	if err != nil {
		return jobProblem(err)
	}
	return page.Redirect(w, r, d.jobPath(j.ID))
}

func (d *Pages) jobPath(id string) string { return d.Path("/jobs/" + id) }

// showUndo shows what undoing a job would change.
func (d *Pages) showUndo(w http.ResponseWriter, r *http.Request) error {
	j, err := d.job(r)
	if err != nil {
		return err
	}
	return d.renderUndo(w, r, http.StatusOK, j, form.Input{})
}

func (d *Pages) renderUndo(
	w http.ResponseWriter, r *http.Request, status int, j app.Job, reason form.Input,
) error {
	undo, err := d.Keys.UndoingJob(r.Context(), j)
	if err != nil {
		return jobProblem(err)
	}
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		return page.Failed("read policy", err)
	}
	preview, err := d.Keys.PreviewUndo(r.Context(), set, j)
	if err != nil {
		return page.Failed("preview undo", err)
	}
	path := d.jobPath(j.ID)
	return d.Render(w, r, status, templates.FormOf(templates.FormPage{
		Page:    d.Page(r, undo.Title()),
		Trail:   []templates.Choice{{Text: "Jobs", Address: d.Path("/jobs")}, {Text: "Job", Address: path}},
		Heading: undo.Title(),
		Lead: []string{
			"Reverts “" + page.Clip(j.Title(), page.MaxName) +
				"”. Keys changed since are skipped.",
		},
		Form: &templates.Form{
			Action: path + "/undo", Submit: undo.Title(),
			After:  []templates.FormField{form.ReasonField(reason)},
			Errors: form.CountErrors(reason), Effects: undoText(preview),
			Cancel: templates.Choice{Text: "Cancel", Address: path},
		},
	}))
}

// undoText describes the preview in sentences.
func undoText(p app.UndoPreview) []string {
	all := []string{"Restores " + app.KeyCount(p.Back) + "."}
	if p.Changed > 0 {
		all = append(all, "Skips "+app.KeyCount(p.Changed)+": changed since.")
	}
	if p.Planless > 0 {
		all = append(all, "Skips "+app.KeyCount(p.Planless)+": their plan was deleted since.")
	}
	if p.Same > 0 {
		all = append(all, "Skips "+app.KeyCount(p.Same)+": already restored.")
	}
	if !p.Whole {
		all = append(all, "The job has more changes than this preview counts.")
	}
	return all
}

// startUndo starts the job that undoes another.
func (d *Pages) startUndo(w http.ResponseWriter, r *http.Request) error {
	if err := page.ParseForm(r); err != nil {
		return err
	}
	j, err := d.job(r)
	if err != nil {
		return err
	}
	reason := form.Typed(r.PostForm, "reason", form.MaxReasonInput)
	if form.Resumes(r) {
		return d.renderUndo(w, r, http.StatusOK, j, reason)
	}
	reason.CheckReason()
	if form.CountErrors(reason) > 0 {
		return d.renderUndo(w, r, http.StatusUnprocessableEntity, j, reason)
	}
	undo, err := d.Keys.UndoingJob(r.Context(), j)
	if err == nil {
		undo, err = d.Keys.StartJob(r.Context(), nil, undo, nil, app.NewEdit(r.Context(), reason.Text))
	}
	if err != nil {
		return jobProblem(err)
	}
	return d.runFirst(w, r, undo)
}
