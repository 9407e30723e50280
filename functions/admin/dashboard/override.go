package dashboard

import (
	"errors"
	"net/http"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

func (d *dashboard) showOverride(w http.ResponseWriter, r *http.Request) {
	set, key, ok := d.editable(w, r)
	if !ok {
		return
	}
	e, _ := set.Effective(key, time.Now())
	d.renderOverride(w, r, http.StatusOK, overridePage{set: set, key: key,
		form: changes.NewOverrideForm(key, e)})
}

// editable returns the key that the request is about, or answers the request if its
// limits cannot be edited.
func (d *dashboard) editable(w http.ResponseWriter, r *http.Request) (*policy.Set, policy.Key, bool) {
	set, key, ok := d.keyAndSet(w, r)
	if !ok {
		return nil, policy.Key{}, false
	}
	if key.Status != policy.Active {
		d.Fail(w, r, page.Problem{
			Status:  http.StatusConflict,
			Heading: "This key is " + string(key.Status),
			Advice:  "No call with it is allowed, whatever its limits. They stay as they were.",
		})
		return nil, policy.Key{}, false
	}
	return set, key, true
}

// saveOverride saves the form, or with one of its other buttons shows it again: with
// other rows, or with a preview.
func (d *dashboard) saveOverride(w http.ResponseWriter, r *http.Request) {
	if !d.ParseForm(w, r) {
		return
	}
	set, key, ok := d.editable(w, r)
	if !ok {
		return
	}
	typed, err := changes.ReadOverrideForm(r.PostForm)
	if err != nil {
		d.Fail(w, r, page.Problem{Status: http.StatusBadRequest})
		return
	}
	button := r.PostForm.Get("action")
	page := overridePage{set: set, key: key, form: typed}
	if page.form.Limits.Change(button) || form.Resumes(r) {
		d.renderOverride(w, r, http.StatusOK, page)
		return
	}
	override := page.form.Override(time.Now())
	if button == changes.PreviewButton {
		page.form.Reason.AllowEmpty()
	}
	switch {
	case page.form.Errors() > 0:
		d.renderOverride(w, r, http.StatusUnprocessableEntity, page)
	case button == changes.PreviewButton:
		page.warnings = changes.MootWarnings("", override.Limits)
		if page.preview, err = d.PreviewOverride(r, set, key, override); err != nil {
			d.FailStore(w, r, "preview", err)
			return
		}
		d.renderOverride(w, r, http.StatusOK, page)
	default:
		if page.warnings = changes.MootWarnings("", override.Limits); !form.Accepted(r.PostForm,
			page.warnings) {
			d.renderOverride(w, r, http.StatusUnprocessableEntity, page)
			return
		}
		d.putOverride(w, r, page, override)
	}
}

// putOverride saves: 422 if the store finds it wrong, 409 if the key is no longer what
// the edit was based on.
func (d *dashboard) putOverride(
	w http.ResponseWriter, r *http.Request, view overridePage, o *policy.Override,
) {
	key := view.key
	saved, err := d.Keys.Change(
		r.Context(), key.ID, app.Base{Version: view.form.Version},
		app.KeyChange{Do: app.Override, Override: o}, app.NewEdit(r.Context(), o.Reason),
	)
	var invalid *policy.InvalidError
	switch {
	case errors.Is(err, policy.ErrConflict):
		view.key, view.form.Version = saved, saved.Version
		view.conflict = &templates.Conflict{
			Theirs: d.effectiveWords(view.set, saved), Yours: []string{wording.Override(o)},
			Saved: page.Instant(saved.Updated), By: d.LastActor(r, key.ID), Keep: d.keyPath(key),
		}
		d.renderOverride(w, r, http.StatusConflict, view)
	case errors.As(err, &invalid):
		view.form.SetError(invalid)
		d.renderOverride(w, r, http.StatusUnprocessableEntity, view)
	case err != nil:
		d.FailStore(w, r, "save override", err)
	case saved.Version == view.form.Version:
		d.Flash(r, "Nothing changed. Limits are still "+wording.Override(o)+".", "")
		d.toKey(w, r, saved)
	default:
		before, _ := view.set.Effective(key, time.Now())
		d.Flash(
			r, "Saved: "+policydoc.LimitsText(before.Limits)+" → "+wording.Override(o)+
				". Effective immediately.",
			d.UndoOf(r, saved.ID, saved.Version),
		)
		d.toKey(w, r, saved)
	}
}

// overridePage is the form and what stands around it.
type overridePage struct {
	set      *policy.Set
	key      policy.Key
	form     changes.OverrideForm
	conflict *templates.Conflict
	preview  *templates.Preview
	warnings []string
}

func (d *dashboard) renderOverride(w http.ResponseWriter, r *http.Request, status int, o overridePage) {
	name := page.Clip(o.key.Name, page.MaxName)
	f := o.form.View()
	f.Warning = form.Warn(o.warnings)
	f.Action, f.Cancel = d.keyPath(o.key)+"/limits",
		templates.Choice{Text: "Cancel", Address: d.keyPath(o.key)}
	page := templates.FormPage{
		Page:     d.Page(r, "Limits of "+name),
		Trail:    d.keyTrail(o.key),
		Heading:  "Limits of",
		Name:     name,
		Lead:     []string{overriddenWords(o.key) + " only. Acts on the next check. Counts are kept."},
		Conflict: o.conflict,
		Preview:  o.preview,
		Form:     &f,
	}
	d.Render(w, r, status, templates.FormOf(page))
}

func overriddenWords(k policy.Key) string {
	if k.Plan == "" {
		return "An override of what is meant for all callers of its kind, for this one"
	}
	return "An override of the plan " + page.Clip(k.Plan, page.MaxName) + " for this key"
}

// effectiveWords says what holds for a key, and why.
func (d *dashboard) effectiveWords(set *policy.Set, k policy.Key) []string {
	if k.Status != policy.Active {
		return []string{"the key is " + string(k.Status)}
	}
	e, _ := set.Effective(k, time.Now())
	if e.Source == "override" {
		return []string{
			wording.Override(k.Override), "because: " + page.Clip(k.Override.Reason, policy.MaxReasonLen),
		}
	}
	return append([]string{"the plan " + page.Clip(k.Plan, page.MaxName)}, policydoc.Each(e.Limits)...)
}
