package policies

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/web/templates"
)

// setForm is an edit of a part of the Set as it was typed. It keeps what is wrong with
// it.
type setForm interface {
	// fill begins with what is there; it reports whether that exists.
	fill(set *policy.Set) bool
	// read takes what a browser sent. It fails for a form that is not ours.
	read(values url.Values) error
	lists() []*form.LimitList
	// apply makes the edit; next shares nothing with the Set in force. It reports whether
	// what is edited exists.
	apply(next *policy.Set) bool
	errors() int
	// setError notes what the store found wrong with next and reports whether the form
	// has a place for it.
	setError(e policy.FieldError, next *policy.Set) bool
	heading() (text, name string)
	view(set *policy.Set) templates.Form
	done() string
}

// setEdit is a form and what stands around it.
type setEdit struct {
	form     setForm
	path     string // of the form
	version  int64  // of the Set that the edit is based on
	reason   form.Input
	problem  string
	conflict *templates.Conflict
	preview  *templates.Preview
	warnings []string // what saving it would do
	values   url.Values
	plan     int // number of the plan that is edited; 0 for none
	// effect is what the edit would have done to calls; nil if that is unknown.
	effect func(r *http.Request, set, next *policy.Set) ([]string, error)
}

func (d *pages) showSetForm(w http.ResponseWriter, r *http.Request, e setEdit) {
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		d.FailStore(w, r, "read policy", err)
		return
	}
	if !e.form.fill(set) {
		d.Fail(w, r, page.Problem{Status: http.StatusNotFound, Heading: "Rule or plan not found",
			Advice: "It may have been deleted or renamed.",
			Action: d.toPolicies()})
		return
	}
	e.version = set.Version
	d.renderSetForm(w, r, http.StatusOK, set, e)
}

func (d *pages) toPolicies() templates.Choice {
	return templates.Choice{Text: "Go to policies", Address: d.Path("/policies")}
}

// saveSetForm saves the form, or with one of its other buttons shows it again: with other
// rows, or with a preview.
func (d *pages) saveSetForm(w http.ResponseWriter, r *http.Request, e setEdit) {
	if !d.ParseForm(w, r) {
		return
	}
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		d.FailStore(w, r, "read policy", err)
		return
	}
	e.version, err = form.ReadVersion(r.PostForm)
	if err != nil || e.form.read(r.PostForm) != nil {
		d.Fail(w, r, page.Problem{Status: http.StatusBadRequest})
		return
	}
	e.reason, e.values = form.Typed(r.PostForm, "reason", form.MaxReasonInput), r.PostForm
	button := r.PostForm.Get("action")
	for _, l := range e.form.lists() {
		if l.Change(button) {
			d.renderSetForm(w, r, http.StatusOK, set, e)
			return
		}
	}
	if button == page.Resume {
		d.renderSetForm(w, r, http.StatusOK, set, e)
		return
	}
	next := cloneSet(set)
	exists := e.form.apply(next)
	e.reason.CheckReason()
	if button == changes.PreviewButton {
		e.reason.AllowEmpty()
	}
	switch {
	case !exists && e.version == set.Version:
		d.Fail(w, r, page.Problem{
			Status: http.StatusNotFound, Heading: "Rule or plan not found", Action: d.toPolicies(),
		})
	case !exists:
		e.problem = "Someone deleted it. Nothing was saved."
		d.setConflict(w, r, set, next, e)
	case e.form.errors()+form.CountErrors(e.reason) > 0:
		d.renderSetForm(w, r, http.StatusUnprocessableEntity, set, e)
	case button == changes.PreviewButton:
		d.previewSet(w, r, set, next, e)
	default:
		d.putSet(w, r, set, next, e)
	}
}

func cloneSet(s *policy.Set) *policy.Set {
	next := *s
	next.Plans, next.Routes = slices.Clone(s.Plans), slices.Clone(s.Routes)
	return &next
}

func (d *pages) previewSet(w http.ResponseWriter, r *http.Request, set, next *policy.Set, e setEdit) {
	e.preview = &templates.Preview{Changes: changes.OfPolicy(set, next)}
	var invalid *policy.InvalidError
	var err error
	if err := next.ValidateAfter(set); errors.As(err, &invalid) {
		e.setError(invalid, next)
		e.preview = nil
		d.renderSetForm(w, r, http.StatusUnprocessableEntity, set, e)
		return
	}
	if e.warnings, err = d.PolicyWarnings(r.Context(), set, next); err != nil {
		d.FailStore(w, r, "count keys", err)
		return
	}
	if e.effect != nil {
		if e.preview.Effects, err = e.effect(r, set, next); err != nil {
			d.FailStore(w, r, "preview", err)
			return
		}
	}
	d.renderSetForm(w, r, http.StatusOK, set, e)
}

// putSet saves: 422 if the store finds it wrong, 409 if the Set is no longer what the
// edit was based on.
func (d *pages) putSet(w http.ResponseWriter, r *http.Request, set, next *policy.Set, e setEdit) {
	if len(changes.OfPolicy(set, next)) == 0 && e.version == set.Version {
		d.Flash(r, "Nothing changed. Nothing was saved.", "")
		http.Redirect(w, r, d.Path("/policies"), http.StatusSeeOther)
		return
	}
	var err error
	if e.warnings, err = d.PolicyWarnings(r.Context(), set, next); err != nil {
		d.FailStore(w, r, "count keys", err)
		return
	}
	if e.version == set.Version && next.ValidateAfter(set) == nil && !form.Accepted(e.values, e.warnings) {
		d.renderSetForm(w, r, http.StatusUnprocessableEntity, set, e)
		return
	}
	saved, err := d.Keys.SavePolicy(r.Context(), *next, e.version, app.NewEdit(r.Context(), e.reason.Text))
	var invalid *policy.InvalidError
	switch {
	case errors.Is(err, policy.ErrConflict):
		d.setConflict(w, r, saved, next, e)
	case errors.As(err, &invalid):
		e.setError(invalid, next)
		d.renderSetForm(w, r, http.StatusUnprocessableEntity, set, e)
	case errors.Is(err, policy.ErrUnfinished):
		d.failUnfinished(w, r, err)
	case err != nil:
		d.FailStore(w, r, "save policy", err)
	default:
		d.Flash(r, e.form.done()+" Effective immediately.", d.UndoOf(r, policyset.SetID, saved.Version))
		http.Redirect(w, r, d.Path("/policies"), http.StatusSeeOther)
	}
}

// failUnfinished says that a save is not in force everywhere.
func (d *pages) failUnfinished(w http.ResponseWriter, r *http.Request, err error) {
	d.Log.Error("save policy", "cause", err)
	d.Fail(w, r, page.Problem{
		Status: http.StatusServiceUnavailable, Heading: "Saved, not on every shard yet",
		Advice: "Some checks still use the old limits. Finish the save under Policies.",
		Action: d.toPolicies(), Acted: true,
	})
}

func (e *setEdit) setError(invalid *policy.InvalidError, next *policy.Set) {
	for _, f := range invalid.Fields {
		if !e.form.setError(f, next) {
			e.problem = page.Clip(f.Field+": "+form.Sentence(f.Message), wording.MaxText)
		}
	}
}

// setConflict shows the edit, and what others changed since it began.
func (d *pages) setConflict(w http.ResponseWriter, r *http.Request, current, next *policy.Set, e setEdit) {
	c := &templates.Conflict{Keep: d.Path("/policies")}
	view, err := d.Keys.Audit().List(r.Context(),
		audit.Query{Subject: policyset.SetID, Count: 20, Heads: true})
	if err != nil {
		d.FailStore(w, r, "read audit", err)
		return
	}
	for i, entry := range view.Entries {
		if entry.Version <= e.version {
			break
		}
		if i == 0 {
			c.By, c.Saved = page.Clip(entry.By.Name, page.MaxName), page.Instant(entry.Time)
		}
		for _, change := range d.ChangesOf(entry) {
			c.Theirs = append(c.Theirs, change.What+": "+change.Before+" → "+change.After)
		}
	}
	if c.Saved.Text == "" {
		c.Saved = page.Instant(time.Now())
	}
	for _, change := range changes.OfPolicy(current, next) {
		c.Yours = append(c.Yours, change.What+": "+change.Before+" → "+change.After)
	}
	e.conflict, e.version = c, current.Version
	d.renderSetForm(w, r, http.StatusConflict, current, e)
}

func (d *pages) renderSetForm(
	w http.ResponseWriter, r *http.Request, status int, set *policy.Set, e setEdit,
) {
	heading, name := e.form.heading()
	f := e.form.view(set)
	if e.plan > 0 {
		counts, err := d.Keys.PlanCounts(r.Context(), set)
		if err != nil {
			d.FailStore(w, r, "count keys", err)
			return
		}
		f.Notes = append(f.Notes, "Keys with this plan: "+page.Number(counts[e.plan])+".")
	}
	f.Action, f.Error, f.Errors = d.Path(e.path), e.problem, e.form.errors()+form.CountErrors(e.reason)
	f.Hidden = append(f.Hidden, templates.Hidden{Name: "version", Value: strconv.FormatInt(e.version, 10)})
	f.After, f.Warning = append(f.After, form.ReasonField(e.reason)), form.Warn(e.warnings)
	f.Choices, f.Preview, f.Cancel = form.LimitChoices(), !f.Danger, templates.Choice{
		Text: "Cancel", Address: d.Path("/policies"),
	}
	if f.Submit == "" {
		f.Submit = "Save"
	}
	title := strings.TrimSpace(heading + " " + page.Clip(name, page.MaxName))
	d.Render(w, r, status, templates.FormOf(templates.FormPage{
		Page: d.Page(r, title), Trail: []templates.Choice{{Text: "Policies", Address: d.Path("/policies")}},
		Heading: heading, Name: page.Clip(name, page.MaxName),
		Conflict: e.conflict, Preview: e.preview, Form: &f,
	}))
}

// syncPolicies finishes a save that was interrupted.
func (d *pages) syncPolicies(w http.ResponseWriter, r *http.Request) {
	if err := d.Keys.SyncPolicy(r.Context()); err != nil {
		d.FailStore(w, r, "sync policy", err)
		return
	}
	d.Flash(r, "All shards have the newest version.", "")
	http.Redirect(w, r, d.Path("/policies"), http.StatusSeeOther)
}
