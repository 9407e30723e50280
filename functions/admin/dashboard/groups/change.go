package groups

import (
	"context"
	"errors"
	"net/http"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// action is a change of a group that needs only a reason.
type action struct {
	path, heading, lead, submit, done string
	do                                func(ctx context.Context, name string, edit app.Edit) error
}

func (d *Pages) reset() action {
	return action{"/reset", "Reset the counts of group",
		"The group's counts go to zero. Its keys keep theirs. This cannot be undone.", "Reset",
		"Counts reset.", d.keys.ResetGroup}
}

func (d *Pages) end() action {
	return action{"/end", "End the override of group",
		"The plan's limits apply to its keys from the next check. Counts are kept.", "End override",
		"Override ended. The plan's limits apply.",
		func(ctx context.Context, name string, edit app.Edit) error {
			return d.keys.OverrideGroup(ctx, name, nil, nil, edit)
		}}
}

func (d *Pages) ask(a action) auth.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		_, g, err := d.group(r)
		if err != nil {
			return err
		}
		return d.renderAction(w, r, http.StatusOK, g, a, form.Input{})
	}
}

func (d *Pages) act(a action) auth.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := page.ParseForm(r); err != nil {
			return err
		}
		_, g, err := d.group(r)
		if err != nil {
			return err
		}
		reason := form.Typed(r.PostForm, "reason", form.MaxReasonInput)
		if form.Resumes(r) {
			return d.renderAction(w, r, http.StatusOK, g, a, reason)
		}
		if reason.Text != "" {
			reason.CheckReason()
		}
		if reason.Error != "" {
			return d.renderAction(w, r, http.StatusUnprocessableEntity, g, a, reason)
		}
		if err := a.do(r.Context(), g.Name, app.NewEdit(r.Context(), reason.Text)); err != nil {
			return problemOf(err)
		}
		return d.saved(w, r, g, a.done)
	}
}

func (d *Pages) saved(w http.ResponseWriter, r *http.Request, g app.Group, done string) error {
	d.Flash(r, done, "")
	return page.Redirect(w, r, d.Path(Path(g.Name)))
}

func (d *Pages) renderAction(
	w http.ResponseWriter, r *http.Request, status int, g app.Group, a action, reason form.Input,
) error {
	f := templates.Form{
		After: []templates.FormField{form.ReasonField(reason)}, Errors: form.CountErrors(reason),
		Submit: a.submit, Danger: true,
	}
	return d.renderForm(w, r, status, g, a.heading, a.lead, a.path, f)
}

// renderForm renders a form of a group. path is where it is sent, under the group's page.
func (d *Pages) renderForm(w http.ResponseWriter, r *http.Request, status int, g app.Group,
	heading, lead, path string, f templates.Form) error {
	of := d.Path(Path(g.Name))
	f.Action, f.Cancel = of+path, templates.Choice{Text: "Cancel", Address: of}
	return d.Render(w, r, status, templates.FormOf(templates.FormPage{
		Page:    d.Page(r, heading+" "+g.Name),
		Trail:   append(d.trail(), templates.Choice{Text: g.Name, Address: of}),
		Heading: heading, Name: g.Name, Lead: []string{lead}, Form: &f,
	}))
}

func (d *Pages) showOverride(w http.ResponseWriter, r *http.Request) error {
	set, g, err := d.group(r)
	if err != nil {
		return err
	}
	f := changes.NewOverrideForm(set.Version, g.Override, nil)
	return d.renderOverride(w, r, http.StatusOK, g, f, nil)
}

// saveOverride saves the form.
func (d *Pages) saveOverride(w http.ResponseWriter, r *http.Request) error {
	if err := page.ParseForm(r); err != nil {
		return err
	}
	set, g, err := d.group(r)
	if err != nil {
		return err
	}
	f, err := changes.ReadOverrideForm(r.PostForm)
	if err != nil {
		return page.Problem{Status: http.StatusBadRequest}
	}
	if form.Resumes(r) {
		return d.renderOverride(w, r, http.StatusOK, g, f, nil)
	}
	if f.Version != set.Version {
		f.Version = set.Version
		f.SetError(&policy.InvalidError{Fields: []policy.FieldError{
			{Message: "The policies were changed meanwhile. Check the limits and save again."}}})
		return d.renderOverride(w, r, http.StatusConflict, g, f, nil)
	}
	o := f.Override(time.Now())
	if f.Errors() > 0 {
		return d.renderOverride(w, r, http.StatusUnprocessableEntity, g, f, nil)
	}
	edit := app.NewEdit(r.Context(), o.Reason)
	err = d.keys.OverrideGroup(r.Context(), g.Name, o, form.Accepts(r.PostForm), edit)
	var invalid *policy.InvalidError
	var unconfirmed *app.UnconfirmedError
	switch {
	case errors.As(err, &unconfirmed):
		return d.renderOverride(w, r, http.StatusUnprocessableEntity, g, f, unconfirmed.Warnings)
	case errors.As(err, &invalid):
		f.SetError(invalid)
		return d.renderOverride(w, r, http.StatusUnprocessableEntity, g, f, nil)
	case err != nil:
		return problemOf(err)
	}
	return d.saved(w, r, g, "Saved: "+wording.Override(o)+". Effective immediately.")
}

func (d *Pages) renderOverride(w http.ResponseWriter, r *http.Request, status int, g app.Group,
	o changes.OverrideForm, warnings []string) error {
	f := o.View()
	f.Warning, f.Preview = form.Warn(warnings), false
	return d.renderForm(w, r, status, g, "Limits of the keys of group",
		"Overrides the plan of each key in this group. A key's own override wins. Counts are kept.",
		"/limits", f)
}

func (d *Pages) showBilling(w http.ResponseWriter, r *http.Request) error {
	_, g, err := d.group(r)
	if err != nil {
		return err
	}
	return d.renderBilling(w, r, http.StatusOK, g, form.Input{Text: g.Billing.String()}, form.Input{})
}

func (d *Pages) saveBilling(w http.ResponseWriter, r *http.Request) error {
	if err := page.ParseForm(r); err != nil {
		return err
	}
	_, g, err := d.group(r)
	if err != nil {
		return err
	}
	day := form.Typed(r.PostForm, "billing", form.MaxInput)
	reason := form.Typed(r.PostForm, "reason", form.MaxReasonInput)
	if form.Resumes(r) {
		return d.renderBilling(w, r, http.StatusOK, g, day, reason)
	}
	b := day.Billing()
	if reason.Text != "" {
		reason.CheckReason()
	}
	if form.CountErrors(day, reason) > 0 {
		return d.renderBilling(w, r, http.StatusUnprocessableEntity, g, day, reason)
	}
	if err := d.keys.BillGroup(r.Context(), g.Name, b, app.NewEdit(r.Context(), reason.Text)); err != nil {
		return problemOf(err)
	}
	return d.saved(w, r, g, "Billing day saved.")
}

func (d *Pages) renderBilling(w http.ResponseWriter, r *http.Request, status int, g app.Group,
	day, reason form.Input) error {
	return d.renderForm(w, r, status, g, "Billing day of group",
		"For limits of each group per billing month. Another day begins a new count.", "/billing",
		templates.Form{Fields: []templates.FormField{form.BillingField(day)},
			After: []templates.FormField{form.ReasonField(reason)}, Errors: form.CountErrors(day, reason),
			Submit: "Save"})
}
