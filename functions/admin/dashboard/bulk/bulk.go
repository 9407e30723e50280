// Package bulk serves the pages that change many keys at once: the bar below the list of
// keys, the form with its preview, the jobs that it starts, and their list. Package
// dashboard mounts it and shows the bar. Package app does the changes.
package bulk

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// Pages serves the pages of bulk changes.
type Pages struct {
	*page.Renderer
	*changes.Changes
	Keys *app.Registry
}

// Routes returns the pages.
func (d *Pages) Routes() []auth.Route {
	return []auth.Route{
		{Pattern: "GET /keys/bulk", Role: auth.Editor, Handle: d.showBulk, Deadline: auth.Long},
		{Pattern: "POST /keys/bulk", Role: auth.Editor, Handle: d.startBulk, Resumes: true,
			Deadline: auth.Long},
		{Pattern: "GET /jobs", Role: auth.Viewer, Handle: d.showJobs},
		{Pattern: "GET /jobs/{job}", Role: auth.Viewer, Handle: d.showJob},
		{Pattern: "POST /jobs/{job}", Role: auth.Editor, Handle: d.stepJob, Deadline: auth.Long},
		{Pattern: "POST /jobs/{job}/stop", Role: auth.Editor, Handle: d.stopJob},
		{Pattern: "GET /jobs/{job}/undo", Role: auth.Editor, Handle: d.showUndo, Deadline: auth.Long},
		{Pattern: "POST /jobs/{job}/undo", Role: auth.Editor, Handle: d.startUndo, Resumes: true,
			Deadline: auth.Long},
	}
}

// actions are the bulk changes in words. The bar has buttons for the first buttons of them
// and a list of the others.
var actions = []templates.Option{
	{Value: app.Plan, Text: "Change plan"},
	{Value: app.Override, Text: "Override limits"},
	{Value: app.Ban, Text: "Ban"},
	{Value: app.Revoke, Text: "Revoke"},
	{Value: app.AddTags, Text: "Add tags"},
	{Value: app.RemoveTags, Text: "Remove tags"},
	{Value: app.SetGroup, Text: "Change group"},
	{Value: app.SetExpiry, Text: "Change expiry"},
	{Value: app.EndOverride, Text: "End overrides"},
	{Value: app.Unban, Text: "Unban"},
	{Value: app.Reset, Text: "Reset counts"},
}

const buttons = 4

const (
	selectField = "select" // query parameter of the list: ofPage, ofAll or ids tick rows
	ofField     = "of"     // form field of the bar: ofSelected or ofAll
	ofSelected  = "selected"
	ofPage      = "page"
	ofAll       = "all"
)

// Bar returns the form below the list of keys; nil for viewers and an empty list. It
// ticks the rows of p that the address selects.
func (d *Pages) Bar(r *http.Request, f app.KeyFilter, p templates.KeysPage) *templates.Bulk {
	if !page.CanEdit(r) || len(p.Rows) == 0 {
		return nil
	}
	b := &templates.Bulk{
		Action: d.Path("/keys/bulk"), Actions: actions[:buttons], Others: actions[buttons:],
		Of:   ofSelected,
		Page: page.Number(int64(len(p.Rows))), More: p.First != "" || p.Next != "",
	}
	here := r.URL.Query()
	carried := placeOf(here)
	maps.Copy(carried, changes.FilterValues(f))
	b.Hidden = hiddenOf(carried)
	if b.More {
		b.All = p.Matching
	}
	chosen := here.Get(selectField)
	for to, value := range map[*string]string{&b.SelectPage: ofPage, &b.SelectAll: ofAll, &b.Clear: ""} {
		here.Set(selectField, value)
		*to = page.Address(d.Path("/keys"), here)
	}
	if b.Ticked = chosen == ofPage || chosen == ofAll; chosen == ofAll {
		b.Of = ofAll
	}
	for i, row := range p.Rows {
		p.Rows[i].Ticked = b.Ticked || slices.Contains(strings.Split(chosen, ","), row.ID)
	}
	return b
}

// Unfinished returns links to the jobs that an editor can continue. It returns none if
// they cannot be read, so that the list of keys still renders.
func (d *Pages) Unfinished(r *http.Request) []templates.Choice {
	if !page.CanEdit(r) {
		return nil
	}
	jobs, err := d.Keys.OpenJobs(r.Context())
	if err != nil {
		return nil
	}
	var open []templates.Choice
	for _, j := range jobs {
		open = append(open, templates.Choice{Address: d.jobPath(j.ID),
			Text: page.Clip(j.Title(), page.MaxName) +
				": " + page.Number(j.Processed()) + " of " + page.Number(j.Total) + " done"})
	}
	return open
}

// showBulk shows the form of a change.
func (d *Pages) showBulk(w http.ResponseWriter, r *http.Request) error {
	f, set, err := d.form(r, r.URL.Query())
	if err != nil {
		return err
	}
	f.override = changes.NewOverrideForm(0, nil, nil)
	return d.renderForm(w, r, http.StatusOK, set, f)
}

// form reads the form, the policy set and the number of matching keys.
func (d *Pages) form(r *http.Request, values url.Values) (bulkForm, *policy.Set, error) {
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		return bulkForm{}, nil, page.Failed("read policy", err)
	}
	f, err := readForm(set, values)
	if err != nil {
		return f, nil, page.Problem{Status: http.StatusBadRequest}
	}
	if !f.all && len(f.ids) == 0 {
		return f, nil, page.Problem{
			Status: http.StatusUnprocessableEntity, Heading: "No keys selected",
			Advice: "Select keys in the list, or choose all that match.",
		}
	}
	j := f.job()
	if f.total, err = d.Keys.CountMatching(r.Context(), set, j.IDs, j.Filter); err != nil {
		return f, nil, countProblem(err)
	}
	return f, set, nil
}

// startBulk starts the job, or shows the form again with its errors or a review.
func (d *Pages) startBulk(w http.ResponseWriter, r *http.Request) error {
	if err := page.ParseForm(r); err != nil {
		return err
	}
	f, set, err := d.form(r, r.PostForm)
	if err != nil {
		return err
	}
	button := r.PostForm.Get("action")
	if form.Resumes(r) {
		return d.renderForm(w, r, http.StatusOK, set, f)
	}
	f.check(set)
	if button == changes.PreviewButton { // needs no reason
		f.reason.AllowEmpty()
		f.override.Reason.AllowEmpty()
	}
	f.asked = button == changes.PreviewButton || f.review.shown != ""
	switch {
	case f.errorCount() > 0:
		return d.renderForm(w, r, http.StatusUnprocessableEntity, set, f)
	case button == changes.PreviewButton:
		if f.do == app.Override {
			f.warnings = app.OverrideWarnings(set, f.job().Override.Limits)
		}
		return d.renderForm(w, r, http.StatusOK, set, f)
	case !f.checkTotal():
		return d.renderForm(w, r, http.StatusConflict, set, f)
	}
	reviewed, err := d.checkReview(r, set, &f)
	switch {
	case err != nil:
		return err
	case !reviewed:
		return d.renderForm(w, r, http.StatusConflict, set, f)
	case !f.checkConfirm():
		return d.renderForm(w, r, http.StatusUnprocessableEntity, set, f)
	default:
		return d.start(w, r, set, f)
	}
}

// start stores the job and does its first step.
func (d *Pages) start(w http.ResponseWriter, r *http.Request, set *policy.Set, f bulkForm) error {
	reason := f.reason.Text
	if f.do == app.Override {
		reason = f.override.Reason.Text
	}
	edit := app.NewEdit(r.Context(), reason)
	j, err := d.Keys.StartJob(r.Context(), set, f.job(), form.Accepts(r.PostForm), edit)
	var invalid *policy.InvalidError
	var unconfirmed *app.UnconfirmedError
	switch {
	case errors.As(err, &unconfirmed):
		f.warnings = unconfirmed.Warnings
		return d.renderForm(w, r, http.StatusUnprocessableEntity, set, f)
	case errors.As(err, &invalid):
		f.setError(invalid)
		return d.renderForm(w, r, http.StatusUnprocessableEntity, set, f)
	case err != nil:
		return page.Failed("start job", err)
	default:
		return d.runFirst(w, r, j)
	}
}

// runFirst finishes a job of a single step and redirects to the job's page, which
// continues longer jobs.
func (d *Pages) runFirst(w http.ResponseWriter, r *http.Request, j app.Job) error {
	if j.Total <= app.Chunk {
		if _, err := d.Keys.StepJob(r.Context(), j.ID); err != nil {
			return jobProblem(err)
		}
	}
	return page.Redirect(w, r, d.jobPath(j.ID))
}

// countProblem returns the answer to an error of counting keys.
func countProblem(err error) error {
	if errors.Is(err, app.ErrUncounted) {
		return page.Problem{
			Status: http.StatusUnprocessableEntity, Heading: "Too many keys to count",
			Advice: "Narrow the filter, for example by the start of the name.",
		}
	}
	return page.Failed("count keys", err)
}
