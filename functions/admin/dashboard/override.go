package dashboard

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/answer"
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

func (d *dashboard) showOverride(w http.ResponseWriter, r *http.Request) error {
	set, key, err := d.overridable(r)
	if err != nil {
		return err
	}
	e, _ := set.Effective(key, time.Now())
	var own *policy.Override
	if e.Source == "override" {
		own = e.Override
	}
	form := changes.NewOverrideForm(key.Version, own, changes.Replaceable(e))
	return d.renderOverride(w, r, http.StatusOK, overridePage{set: set, key: key, form: form})
}

// overridable returns the key of the request and the policy set. It fails if the key is
// not active.
func (d *dashboard) overridable(r *http.Request) (*policy.Set, policy.Key, error) {
	set, key, err := d.keyAndSet(r)
	if err != nil {
		return nil, policy.Key{}, err
	}
	if key.Status != policy.Active {
		return nil, policy.Key{}, page.Problem{
			Status:  http.StatusConflict,
			Heading: "This key is " + string(key.Status),
			Advice:  "Its calls are denied. Only the limits of an active key can be changed.",
		}
	}
	return set, key, nil
}

// saveOverride saves the form, or renders it again with a preview.
func (d *dashboard) saveOverride(w http.ResponseWriter, r *http.Request) error {
	if err := page.ParseForm(r); err != nil {
		return err
	}
	set, key, err := d.overridable(r)
	if err != nil {
		return err
	}
	typed, err := changes.ReadOverrideForm(r.PostForm)
	if err != nil {
		return page.Problem{Status: http.StatusBadRequest}
	}
	button := r.PostForm.Get("action")
	o := overridePage{set: set, key: key, form: typed}
	if form.Resumes(r) {
		return d.renderOverride(w, r, http.StatusOK, o)
	}
	override := o.form.Override(time.Now())
	if button == changes.PreviewButton {
		o.form.Reason.AllowEmpty()
	}
	if o.form.Errors() > 0 {
		return d.renderOverride(w, r, http.StatusUnprocessableEntity, o)
	}
	if button == changes.PreviewButton {
		o.warnings = app.OverrideWarnings(set, override.Limits)
		after := key
		after.Override = override
		o.preview = &templates.Preview{Changes: changes.OfKey(set, key, after)}
		return d.renderOverride(w, r, http.StatusOK, o)
	}
	return d.putOverride(w, r, o, override)
}

// putOverride saves an override. It answers 422 if the store finds it invalid or the form
// does not confirm its warnings, and 409 if the key changed since the form was shown.
func (d *dashboard) putOverride(w http.ResponseWriter, r *http.Request, view overridePage,
	o *policy.Override) error {
	key := view.key
	saved, err := d.Keys.Change(
		r.Context(), key.ID, view.form.Version,
		app.KeyChange{Do: app.Override, Override: o, Accepts: form.Accepts(r.PostForm)},
		app.NewEdit(r.Context(), o.Reason),
	)
	var invalid *policy.InvalidError
	var unconfirmed *app.UnconfirmedError
	switch {
	case errors.As(err, &unconfirmed):
		view.warnings = unconfirmed.Warnings
		return d.renderOverride(w, r, http.StatusUnprocessableEntity, view)
	case errors.Is(err, policy.ErrConflict):
		view.key = saved
		view.form.Version = saved.Version
		view.conflict = &templates.Conflict{
			Theirs: effectiveText(view.set, saved), Yours: []string{wording.Override(o)},
			Saved: page.Instant(saved.Updated), By: d.LastActor(r, key.ID), Keep: d.keyPath(key),
		}
		return d.renderOverride(w, r, http.StatusConflict, view)
	case errors.As(err, &invalid):
		view.form.SetError(invalid)
		return d.renderOverride(w, r, http.StatusUnprocessableEntity, view)
	case err != nil:
		return page.Failed("save override", err)
	case saved.Version == view.form.Version:
		d.Flash(r, "Nothing changed. Limits are still "+wording.Override(o)+".", "")
		return d.redirectToKey(w, r, saved)
	default:
		before, _ := view.set.Effective(key, time.Now())
		d.Flash(
			r, "Saved: "+policydoc.LimitsText(before.Limits)+" → "+wording.Override(o)+
				". Effective immediately.",
			d.UndoOf(app.Action(app.Override), saved.Version),
		)
		return d.redirectToKey(w, r, saved)
	}
}

func (d *dashboard) renderOverride(w http.ResponseWriter, r *http.Request, status int, o overridePage) error {
	name := page.Clip(o.key.Name, page.MaxName)
	lead := []string{"For this caller only. Applies from the next check. Counts are kept."}
	if o.key.Kind == policy.APIKey {
		lead[0] = strings.Replace(lead[0], "caller", "key", 1)
	}
	if last, err := d.lastDenial(r.Context(), o.set, o.key); err != nil {
		return page.Failed("read denials", err)
	} else if last != "" {
		lead = append(lead, last)
	}
	f := o.form.View()
	f.Warning = form.Warn(o.warnings)
	f.Action = d.keyPath(o.key) + "/limits"
	f.Cancel = templates.Choice{Text: "Cancel", Address: d.keyPath(o.key)}
	return d.Render(w, r, status, templates.FormOf(templates.FormPage{
		Page:     d.Page(r, "Limits of "+name),
		Trail:    d.keyTrail(o.key),
		Heading:  "Limits of",
		Name:     name,
		Lead:     lead,
		Conflict: o.conflict,
		Preview:  o.preview,
		Form:     &f,
	}))
}

// lastDenial names the limit that denied a key last, and says whether an override reaches
// it; empty for none in the last 50 hours.
func (d *dashboard) lastDenial(ctx context.Context, set *policy.Set, k policy.Key) (string, error) {
	states, err := d.Records.States(ctx, []string{k.ID})
	if err != nil {
		return "", err
	}
	e, _ := set.Effective(k, time.Now())
	last, found := app.NewSubject(set, k, nil, states[0], time.Now()).LastDenial()
	if !found {
		return "", nil
	}
	text := "Denied last by " + page.Clip(last.Limit, page.MaxName)
	for _, a := range set.Language().Candidates(e.Caller) {
		switch {
		case answer.NameOf(a.Limit) != last.Limit || a.CountsOnly:
		case a.Who.OfCaller():
			return text + ". An override reaches it.", nil
		default:
			return text + ". No override reaches it: it is " + a.For() + ".", nil
		}
	}
	return text + ", which is no longer in force.", nil
}

// effectiveText describes the limits of a key and their source.
func effectiveText(set *policy.Set, k policy.Key) []string {
	if k.Status != policy.Active {
		return []string{"the key is " + string(k.Status)}
	}
	e, _ := set.Effective(k, time.Now())
	if e.Override != nil {
		return []string{
			wording.Override(e.Override), "reason: " + page.Clip(e.Override.Reason, policy.MaxReasonLen),
		}
	}
	return append([]string{"the plan " + page.Clip(k.Plan, page.MaxName)}, policydoc.Each(e.Limits)...)
}

// redirectOverrides redirects the address of a former page to the list of keys.
func (d *dashboard) redirectOverrides(w http.ResponseWriter, r *http.Request) error {
	http.Redirect(w, r, d.Path("/keys?state="+string(app.Overridden)), http.StatusMovedPermanently)
	return nil
}

// overrideCell describes the override of a key, which is not nil.
func (d *dashboard) overrideCell(set *policy.Set, k policy.Key, canEdit bool) *templates.OverrideCell {
	endless := *k.Override
	endless.Until = time.Time{} // a badge has the end
	plan, _ := set.Plan(k.Plan)
	cell := &templates.OverrideCell{
		Name:   page.Clip(k.Name, page.MaxName),
		Before: policydoc.LimitsText(plan.Limits),
		After:  wording.Override(&endless),
		Reason: page.Clip(endless.Reason, policy.MaxReasonLen),
	}
	if canEdit && k.Status == policy.Active {
		cell.End = d.keyPath(k) + "/end"
	}
	return cell
}
