package dashboard

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
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

// overridePage is the form of an override with its preview, conflict and warnings.
type overridePage struct {
	set      *policy.Set
	key      policy.Key
	form     changes.OverrideForm
	conflict *templates.Conflict
	preview  *templates.Preview
	warnings []string
}

func (d *dashboard) showOverride(w http.ResponseWriter, r *http.Request) {
	set, key, ok := d.overridable(w, r)
	if !ok {
		return
	}
	e, _ := set.Effective(key, time.Now())
	d.renderOverride(w, r, http.StatusOK,
		overridePage{set: set, key: key, form: changes.NewOverrideForm(key, e)})
}

// overridable returns the key of the request and the policy set. If the key is not
// active, it answers the request and reports false.
func (d *dashboard) overridable(w http.ResponseWriter, r *http.Request) (*policy.Set, policy.Key, bool) {
	set, key, ok := d.keyAndSet(w, r)
	if !ok {
		return nil, policy.Key{}, false
	}
	if key.Status != policy.Active {
		d.Fail(w, r, page.Problem{
			Status:  http.StatusConflict,
			Heading: "This key is " + string(key.Status),
			Advice:  "Its calls are denied. Only the limits of an active key can be changed.",
		})
		return nil, policy.Key{}, false
	}
	return set, key, true
}

// saveOverride saves the form. The other buttons render the form again: with a limit
// added or removed, or with a preview.
func (d *dashboard) saveOverride(w http.ResponseWriter, r *http.Request) {
	if !d.ParseForm(w, r) {
		return
	}
	set, key, ok := d.overridable(w, r)
	if !ok {
		return
	}
	typed, err := changes.ReadOverrideForm(r.PostForm)
	if err != nil {
		d.Fail(w, r, page.Problem{Status: http.StatusBadRequest})
		return
	}
	button := r.PostForm.Get("action")
	o := overridePage{set: set, key: key, form: typed}
	if o.form.Limits.Change(button) || form.Resumes(r) {
		d.renderOverride(w, r, http.StatusOK, o)
		return
	}
	override := o.form.Override(time.Now())
	if button == changes.PreviewButton {
		o.form.Reason.AllowEmpty()
	}
	if o.form.Errors() > 0 {
		d.renderOverride(w, r, http.StatusUnprocessableEntity, o)
		return
	}
	o.warnings = changes.MootWarnings("", override.Limits)
	switch {
	case button == changes.PreviewButton:
		if o.preview, err = d.PreviewOverride(r, set, key, override); err != nil {
			d.FailStore(w, r, "preview", err)
			return
		}
		d.renderOverride(w, r, http.StatusOK, o)
	case !form.Accepted(r.PostForm, o.warnings):
		d.renderOverride(w, r, http.StatusUnprocessableEntity, o)
	default:
		d.putOverride(w, r, o, override)
	}
}

// putOverride saves an override. It answers 422 if the store finds it invalid, and 409 if
// the key changed since the form was shown.
func (d *dashboard) putOverride(w http.ResponseWriter, r *http.Request, view overridePage,
	o *policy.Override) {
	key := view.key
	saved, err := d.Keys.Change(
		r.Context(), key.ID, app.Base{Version: view.form.Version},
		app.KeyChange{Do: app.Override, Override: o}, app.NewEdit(r.Context(), o.Reason),
	)
	var invalid *policy.InvalidError
	switch {
	case errors.Is(err, policy.ErrConflict):
		view.key = saved
		view.form.Version = saved.Version
		view.conflict = &templates.Conflict{
			Theirs: effectiveText(view.set, saved), Yours: []string{wording.Override(o)},
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
		d.redirectToKey(w, r, saved)
	default:
		before, _ := view.set.Effective(key, time.Now())
		d.Flash(
			r, "Saved: "+policydoc.LimitsText(before.Limits)+" → "+wording.Override(o)+
				". Effective immediately.",
			d.UndoOf(r, saved.ID, saved.Version),
		)
		d.redirectToKey(w, r, saved)
	}
}

func (d *dashboard) renderOverride(w http.ResponseWriter, r *http.Request, status int, o overridePage) {
	name := page.Clip(o.key.Name, page.MaxName)
	lead := "Overrides the plan " + page.Clip(o.key.Plan, page.MaxName) + " for this key only."
	if o.key.Plan == "" {
		lead = "Overrides the default limits for this caller only."
	}
	f := o.form.View()
	f.Warning = form.Warn(o.warnings)
	f.Action = d.keyPath(o.key) + "/limits"
	f.Cancel = templates.Choice{Text: "Cancel", Address: d.keyPath(o.key)}
	d.Render(w, r, status, templates.FormOf(templates.FormPage{
		Page:     d.Page(r, "Limits of "+name),
		Trail:    d.keyTrail(o.key),
		Heading:  "Limits of",
		Name:     name,
		Lead:     []string{lead + " Applies from the next check. Counts are kept."},
		Conflict: o.conflict,
		Preview:  o.preview,
		Form:     &f,
	}))
}

// effectiveText describes the limits of a key and their source.
func effectiveText(set *policy.Set, k policy.Key) []string {
	if k.Status != policy.Active {
		return []string{"the key is " + string(k.Status)}
	}
	e, _ := set.Effective(k, time.Now())
	if e.Source == "override" {
		return []string{
			wording.Override(k.Override), "reason: " + page.Clip(k.Override.Reason, policy.MaxReasonLen),
		}
	}
	return append([]string{"the plan " + page.Clip(k.Plan, page.MaxName)}, policydoc.Each(e.Limits)...)
}

const overridesPerPage = 200

func (d *dashboard) showOverrides(w http.ResponseWriter, r *http.Request) {
	after := r.URL.Query().Get("after")
	if len(after) > maxCursor {
		d.Fail(w, r, page.Problem{Status: http.StatusBadRequest})
		return
	}
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		d.FailStore(w, r, "read policy", err)
		return
	}
	list, err := d.Keys.List(r.Context(), set, app.KeyFilter{State: app.Overridden}, after, overridesPerPage)
	if err != nil {
		d.FailStore(w, r, "list overrides", err)
		return
	}
	p := templates.OverridesPage{
		Page: d.Page(r, "Overrides"),
		Rows: d.overrideRows(set, list.Keys, page.CanEdit(r)),
		Empty: templates.Empty{Heading: "No overrides",
			Advice: "Every key has its plan's limits. Override them on a key's page."},
	}
	if after != "" {
		p.First = d.Path("/overrides")
	}
	if list.Next != "" {
		p.Next = d.Path("/overrides?after=" + list.Next)
		p.Note = "Each page is sorted by end, soonest first."
	}
	d.Render(w, r, http.StatusOK, templates.Overrides(p))
}

// overrideRows lists the overrides of keys: those that end soonest first, then those
// without an end, then those that ended.
func (d *dashboard) overrideRows(set *policy.Set, keys []policy.Key, canEdit bool) []templates.OverrideRow {
	now := time.Now()
	keys = slices.DeleteFunc(slices.Clone(keys), func(k policy.Key) bool { return k.Override == nil })
	rank := func(o *policy.Override) (int, int64) {
		switch {
		case !o.ActiveAt(now):
			return 2, -o.Until.Unix()
		case o.Until.IsZero():
			return 1, 0
		}
		return 0, o.Until.Unix()
	}
	slices.SortStableFunc(keys, func(a, b policy.Key) int {
		groupA, endA := rank(a.Override)
		groupB, endB := rank(b.Override)
		return cmp.Or(cmp.Compare(groupA, groupB), cmp.Compare(endA, endB))
	})
	rows := make([]templates.OverrideRow, len(keys))
	for i, k := range keys {
		o := *k.Override
		endless := o
		endless.Until = time.Time{} // the row shows the end in a column of its own
		plan, _ := set.Plan(k.Plan)
		rows[i] = templates.OverrideRow{
			Name:    page.Clip(k.Name, page.MaxName),
			Address: d.keyPath(k),
			Plan:    page.Clip(k.Plan, page.MaxName),
			Before:  policydoc.LimitsText(plan.Limits),
			After:   wording.Override(&endless),
			Reason:  page.Clip(o.Reason, policy.MaxReasonLen),
			Ends:    "never",
		}
		switch {
		case !o.ActiveAt(now):
			rows[i].Ended = true
			rows[i].Ends = "ended " + page.Instant(o.Until).Text
		case !o.Until.IsZero():
			rows[i].Soon = o.Until.Sub(now) < 24*time.Hour
			rows[i].Ends = "in " + page.Span(o.Until.Sub(now))
			rows[i].At = page.Instant(o.Until)
		}
		if canEdit && k.Status == policy.Active {
			rows[i].End = d.keyPath(k) + "/end"
			rows[i].Edit = d.keyPath(k) + "/limits"
		}
	}
	return rows
}
