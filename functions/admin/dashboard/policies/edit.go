package policies

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/web/templates"
)

// editForm is the part of the policy set that a page edits, as the user typed it, with
// the errors of its fields.
type editForm interface {
	// fill loads the saved values. It reports false if the plan or route does not exist.
	fill(set *policy.Set) bool
	fields() form.Table
	// apply writes the typed values to next, whose lists of plans and routes the saved set
	// does not share. It reports false if the plan or route does not exist.
	apply(next *policy.Set) bool
	// setError sets an error of the set that apply changed at its field. It reports false
	// if the form has no such field.
	setError(e policy.FieldError) bool
	// heading returns the page's heading and the name of the plan or route, if any.
	heading() (text, name string)
	view(set *policy.Set) templates.Form
	// done is the message after a save.
	done() string
}

// edit is an editForm with the rest of its page.
type edit struct {
	form     editForm
	path     string // of the form
	version  int64  // version of the set that the edit is based on
	reason   form.Input
	problem  string // error without a field
	conflict *templates.Conflict
	preview  *templates.Preview
	warnings []string // to confirm before the save
	values   url.Values
	plan     int // number of the edited plan; 0 for none
}

// errorCount returns the number of fields with an error.
func (e *edit) errorCount() int {
	return form.CountErrors(e.reason) + e.form.fields().ErrorCount()
}

// setErrors sets the errors of a set at their fields. Those without a field become the
// form's problem.
func (e *edit) setErrors(set *policy.Set, invalid *policy.InvalidError) {
	var others []policy.FieldError
	for _, f := range invalid.Fields {
		if !e.form.setError(f) {
			others = append(others, f)
		}
	}
	if len(others) > 0 {
		e.problem = form.Invalid(set, others)
	}
}

// show returns the handler of the form's page. open returns the edit of a request, or
// false if the address has none.
func (d *pages) show(open func(*http.Request) (edit, bool)) auth.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		e, ok := open(r)
		if !ok {
			return page.Problem{Status: http.StatusNotFound}
		}
		set, err := d.keys.Set(r.Context())
		if err != nil {
			return page.Failed("read policy", err)
		}
		if !e.form.fill(set) {
			return d.notFound()
		}
		e.version = set.Version
		return d.renderEdit(w, r, http.StatusOK, set, e)
	}
}

// save returns the handler that saves the form, or shows it again with a preview. open is
// as for show.
func (d *pages) save(open func(*http.Request) (edit, bool)) auth.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := page.ParseForm(r); err != nil {
			return err
		}
		e, ok := open(r)
		if !ok {
			return page.Problem{Status: http.StatusNotFound}
		}
		set, err := d.keys.Set(r.Context())
		if err != nil {
			return page.Failed("read policy", err)
		}
		e.version, err = form.ReadVersion(r.PostForm)
		if err != nil {
			return page.Problem{Status: http.StatusBadRequest}
		}
		e.form.fields().Read(r.PostForm)
		e.reason = form.Typed(r.PostForm, "reason", form.MaxReasonInput)
		e.values = r.PostForm
		return d.saveEdit(w, r, set, e)
	}
}

func (d *pages) saveEdit(w http.ResponseWriter, r *http.Request, set *policy.Set, e edit) error {
	button := r.PostForm.Get("action")
	if form.Resumes(r) {
		return d.renderEdit(w, r, http.StatusOK, set, e)
	}
	if e.version != set.Version {
		follows, err := d.keys.Follows(r.Context(), e.version, set, e.form.apply)
		if err != nil {
			return page.Failed("read the policy of the form", err)
		}
		if follows { // what others saved since are other parts
			e.version = set.Version
		}
	}
	next := cloneSet(set)
	exists := e.form.apply(next)
	e.reason.CheckReason()
	if button == changes.PreviewButton {
		e.reason.AllowEmpty()
	}
	switch {
	case !exists && e.version == set.Version:
		return d.notFound()
	case !exists:
		e.problem = "Someone else deleted this plan or route. Nothing was saved."
		return d.renderConflict(w, r, set, next, e)
	case e.errorCount() > 0:
		return d.renderEdit(w, r, http.StatusUnprocessableEntity, set, e)
	case button == changes.PreviewButton:
		return d.previewEdit(w, r, set, next, e)
	default:
		return d.storeEdit(w, r, set, next, e)
	}
}

// cloneSet copies a set with its lists of plans and routes, so that elements can be
// replaced.
func cloneSet(s *policy.Set) *policy.Set {
	next := *s
	next.Plans, next.Routes = slices.Clone(s.Plans), slices.Clone(s.Routes)
	return &next
}

func (d *pages) previewEdit(w http.ResponseWriter, r *http.Request, set, next *policy.Set, e edit) error {
	var invalid *policy.InvalidError
	var err error
	if e.warnings, err = d.keys.JudgePolicy(r.Context(), set, *next); errors.As(err, &invalid) {
		e.setErrors(next, invalid)
		return d.renderEdit(w, r, http.StatusUnprocessableEntity, set, e)
	}
	if err != nil {
		return page.Failed("judge policy", err)
	}
	e.preview = previewOf(set, next)
	if e.plan > 0 {
		if err := d.addPlanEffects(r, set, e); err != nil {
			return page.Failed("preview", err)
		}
	}
	return d.renderEdit(w, r, http.StatusOK, set, e)
}

// previewOf describes what an edit changes, and which limits count from zero after it.
func previewOf(set, next *policy.Set) *templates.Preview {
	p := &templates.Preview{Changes: changes.OfPolicy(set, next)}
	n := page.Number(int64(len(p.Changes))) + " changes"
	if len(p.Changes) == 1 {
		n = "1 change"
	}
	p.Effects = []string{n + "."}
	for _, count := range policydoc.NewCounts(set, next) {
		p.Effects = append(p.Effects, page.Clip(count.String(), wording.MaxText)+".")
	}
	return p
}

// storeEdit saves next. It responds with 422 if next is invalid or a warning is not
// confirmed, and with 409 if the set has changed since the form was shown.
func (d *pages) storeEdit(w http.ResponseWriter, r *http.Request, set, next *policy.Set, e edit) error {
	if len(changes.OfPolicy(set, next)) == 0 && e.version == set.Version {
		d.Flash(r, "Nothing changed. Nothing was saved.", "")
		return page.Redirect(w, r, d.Path("/policies"))
	}
	edit := app.NewEdit(r.Context(), e.reason.Text)
	saved, err := d.keys.SavePolicy(r.Context(), *next, e.version, edit, form.Accepts(e.values))
	var invalid *policy.InvalidError
	var unconfirmed *app.UnconfirmedError
	switch {
	case errors.As(err, &unconfirmed):
		e.warnings = unconfirmed.Warnings
		return d.renderEdit(w, r, http.StatusUnprocessableEntity, set, e)
	case errors.Is(err, policy.ErrConflict):
		return d.renderConflict(w, r, saved, next, e)
	case errors.As(err, &invalid):
		e.setErrors(next, invalid)
		return d.renderEdit(w, r, http.StatusUnprocessableEntity, set, e)
	case err != nil:
		return page.Failed("save policy", err)
	default:
		d.Flash(r, e.form.done()+" Effective immediately.", d.UndoOf(registry.PolicySave, saved.Version))
		return page.Redirect(w, r, d.Path("/policies"))
	}
}

func (d *pages) notFound() error {
	return page.Problem{Status: http.StatusNotFound, Heading: "Plan or route not found",
		Advice: "It may have been deleted or renamed.", Action: d.toPolicies()}
}

func (d *pages) toPolicies() templates.Choice {
	return templates.Choice{Text: "Go to policies", Address: d.Path("/policies")}
}

// renderConflict shows the edit next to the changes that others saved since the form was
// shown.
func (d *pages) renderConflict(
	w http.ResponseWriter, r *http.Request, current, next *policy.Set, e edit,
) error {
	c := &templates.Conflict{Keep: d.Path("/policies")}
	for i, entry := range d.History(r.Context(), app.PolicyRecord, current.Version) {
		if entry.Number <= uint64(e.version) {
			break
		}
		if i == 0 {
			c.By, c.Saved = page.Clip(entry.By.Name, page.MaxName), page.Instant(entry.Time)
		}
		c.Theirs = append(c.Theirs, changeTexts(entry.Changes)...)
	}
	if c.Saved.Text == "" {
		c.Saved = page.Instant(time.Now())
	}
	c.Yours = changeTexts(changes.OfPolicy(current, next))
	e.conflict, e.version = c, current.Version
	return d.renderEdit(w, r, http.StatusConflict, current, e)
}

func changeTexts(list []templates.Change) []string {
	var texts []string
	for _, c := range list {
		texts = append(texts, c.What+": "+c.Before+" → "+c.After)
	}
	return texts
}

func (d *pages) renderEdit(
	w http.ResponseWriter, r *http.Request, status int, set *policy.Set, e edit,
) error {
	heading, name := e.form.heading()
	f := e.form.view(set)
	trail, cancel := []templates.Choice{{Text: "Policies", Address: d.Path("/policies")}}, d.Path("/policies")
	if e.plan > 0 {
		counts, err := d.keys.PlanCounts(r.Context(), set)
		if err != nil {
			return page.Failed("count keys", err)
		}
		f.Notes = append(f.Notes, "Keys with this plan: "+page.Number(counts[e.plan])+".")
		p, _ := set.PlanByNumber(e.plan)
		cancel = d.planPath(e.plan)
		trail = append(trail, templates.Choice{Text: page.Clip(p.Name, page.MaxName), Address: cancel})
	}
	f.Action, f.Error, f.Errors = d.Path(e.path), e.problem, e.errorCount()
	f.Hidden = append(f.Hidden, templates.Hidden{Name: "version", Value: strconv.FormatInt(e.version, 10)})
	f.After, f.Warning = append(f.After, form.ReasonField(e.reason)), form.Warn(e.warnings)
	f.Preview = !f.Danger
	f.Cancel = templates.Choice{Text: "Cancel", Address: cancel}
	f.Submit = cmp.Or(f.Submit, "Save")
	name = page.Clip(name, page.MaxName)
	title := strings.TrimSpace(heading + " " + name)
	return d.Render(w, r, status, templates.FormOf(templates.FormPage{
		Page: d.Page(r, title), Trail: trail, Heading: heading, Name: name,
		Conflict: e.conflict, Preview: e.preview, Form: &f,
	}))
}
