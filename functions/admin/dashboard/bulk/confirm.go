package bulk

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// showBulk asks what the change needs to know, and says what it would do where that is
// known already.
func (d *Pages) showBulk(w http.ResponseWriter, r *http.Request) {
	f, set, ok := d.form(w, r, r.URL.Query())
	if !ok {
		return
	}
	f.override = changes.NewOverrideForm(policy.Key{}, policy.Effective{Mode: policy.Enforce})
	var effects []string
	if f.do != app.Plan && f.do != app.Override {
		var err error
		if effects, err = d.effects(r, set, f); err != nil {
			d.FailStore(w, r, "preview", err)
			return
		}
	}
	d.renderForm(w, r, http.StatusOK, set, f, effects)
}

// form reads the form, the Set, and how many keys are meant, or answers the request.
func (d *Pages) form(w http.ResponseWriter, r *http.Request, values url.Values) (bulkForm, *policy.Set,
	bool) {
	f, err := readForm(values)
	if err != nil {
		d.Fail(w, r, page.Problem{Status: http.StatusBadRequest})
		return f, nil, false
	}
	if !f.all && len(f.ids) == 0 {
		d.Fail(w, r, page.Problem{
			Status: http.StatusUnprocessableEntity, Heading: "No keys selected",
			Advice: "Select keys in the list, or choose all that match.",
		})
		return f, nil, false
	}
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		d.FailStore(w, r, "read policy", err)
		return f, nil, false
	}
	j := f.job()
	if f.total, err = d.Keys.CountMatching(r.Context(), set, j.IDs, j.Filter); err != nil {
		d.failCount(w, r, err)
		return f, nil, false
	}
	return f, set, true
}

// startBulk begins the job, or shows what is wrong with it, or what it would do.
func (d *Pages) startBulk(w http.ResponseWriter, r *http.Request) {
	if !d.ParseForm(w, r) {
		return
	}
	f, set, ok := d.form(w, r, r.PostForm)
	if !ok {
		return
	}
	button := r.PostForm.Get("action")
	if f.override.Limits.Change(button) || form.Resumes(r) {
		d.renderForm(w, r, http.StatusOK, set, f, nil)
		return
	}
	if button == changes.PreviewButton {
		d.preview(w, r, set, f)
		return
	}
	switch {
	case f.check(set) > 0:
		f.checkConfirm()
		d.renderForm(w, r, http.StatusUnprocessableEntity, set, f, nil)
	case !f.checkTotal():
		d.renderForm(w, r, http.StatusConflict, set, f, nil)
	case f.checkConfirm() > 0:
		d.renderForm(w, r, http.StatusUnprocessableEntity, set, f, nil)
	default:
		d.start(w, r, set, f)
	}
}

func (d *Pages) preview(w http.ResponseWriter, r *http.Request, set *policy.Set, f bulkForm) {
	mistakes := f.check(set)
	for _, reason := range []*form.Input{&f.reason, &f.override.Reason} {
		if reason.Error != "" && strings.TrimSpace(reason.Text) == "" {
			reason.AllowEmpty()
			mistakes = min(mistakes, f.override.Errors()+form.CountErrors(f.plan, f.reason))
		}
	}
	if mistakes > 0 {
		d.renderForm(w, r, http.StatusUnprocessableEntity, set, f, nil)
		return
	}
	effects, err := d.effects(r, set, f)
	if err != nil {
		d.FailStore(w, r, "preview", err)
		return
	}
	d.renderForm(w, r, http.StatusOK, set, f, effects)
}

// start records the job.
func (d *Pages) start(w http.ResponseWriter, r *http.Request, set *policy.Set, f bulkForm) {
	reason := f.reason.Text
	if f.do == app.Override {
		reason = f.override.Reason.Text
	}
	j, err := d.Keys.StartJob(r.Context(), set, f.job(), app.NewEdit(r.Context(), reason))
	var invalid *policy.InvalidError
	switch {
	case errors.As(err, &invalid):
		f.override.SetError(invalid)
		d.renderForm(w, r, http.StatusUnprocessableEntity, set, f, nil)
	case err != nil:
		d.FailStore(w, r, "start job", err)
	default:
		d.begin(w, r, j)
	}
}

// begin does a job that a step is enough for, and leads to its page, which goes on with
// others.
func (d *Pages) begin(w http.ResponseWriter, r *http.Request, j app.Job) {
	if j.Total <= app.Chunk {
		if _, err := d.Keys.StepJob(r.Context(), j.ID, false); err != nil {
			d.failJob(w, r, err)
			return
		}
	}
	http.Redirect(w, r, d.jobPath(j.ID), http.StatusSeeOther)
}

func (d *Pages) renderForm(w http.ResponseWriter, r *http.Request, status int, set *policy.Set, f bulkForm,
	effects []string) {
	list := page.Address(d.Path("/keys"), changes.FilterValues(f.filter))
	heading := app.JobTitle(f.do, "", f.total)
	view := templates.FormPage{
		Page:    d.Page(r, heading),
		Trail:   []templates.Choice{{Text: "Keys", Address: list}},
		Heading: heading,
		Lead: []string{d.whichWords(r, set, f) +
			" Keys that are revoked, or as they should be already, are left as they are."},
	}
	v := f.override.View()
	if f.do != app.Override {
		v = templates.Form{
			After:  []templates.FormField{form.ReasonField(f.reason)},
			Errors: form.CountErrors(f.plan, f.reason, f.confirm), Preview: f.do == app.Plan,
		}
		if f.do == app.Plan {
			v.Fields = []templates.FormField{form.ChoiceField("to", "Plan", wording.PlanOptions(set), f.plan)}
		}
		if word := f.confirms(); word != "" {
			v.After = append(v.After, form.TextField("confirm", "Type "+word+" to confirm", "", 20,
				f.confirm))
		}
	}
	v.Submit, v.Action = heading, d.Path("/keys/bulk")
	v.Danger = f.do == app.Revoke || f.do == app.Reset
	v.Cancel = templates.Choice{Text: "Cancel", Address: list}
	if f.problem != "" {
		v.Error = f.problem
	}
	carried := url.Values{"do": {f.do}, "id": f.ids, ofField: {ofSelected}}
	if f.all {
		carried[ofField], carried["count"] = []string{ofAll}, []string{strconv.FormatInt(f.total, 10)}
	}
	for name, v := range changes.FilterValues(f.filter) {
		carried[name] = v
	}
	v.Hidden = hiddenOf(carried)
	v.Effects = effects
	view.Form = &v
	d.Render(w, r, status, templates.FormOf(view))
}

// whichWords says which keys are meant.
func (d *Pages) whichWords(r *http.Request, set *policy.Set, f bulkForm) string {
	if !f.all {
		return d.selectedNames(r, set, f)
	}
	words := "All keys"
	if f.filter.Prefix != "" {
		match := " whose name starts with “"
		if f.filter.Anywhere {
			match = " whose name contains “"
		}
		words += match + page.Clip(f.filter.Prefix, changes.MaxSearch) + "”"
	}
	if p, known := set.Numbered(f.filter.Plan); known {
		words += " of the plan " + page.Clip(p.Name, page.MaxName)
	}
	if f.filter.Group != "" {
		words += " of the group “" + page.Clip(f.filter.Group, page.MaxName) + "”"
	}
	if f.filter.Tag != "" {
		words += " tagged “" + page.Clip(f.filter.Tag, policy.MaxTagLen) + "”"
	}
	for _, o := range changes.KeyStates {
		if o.Value == string(f.filter.State) && o.Value != "" {
			words += " that are " + o.Text
		}
	}
	return words + ": " + page.Number(f.total) + "."
}

// selectedNames lists the keys that were ticked.
func (d *Pages) selectedNames(r *http.Request, set *policy.Set, f bulkForm) string {
	keys, err := d.Keys.Many(r.Context(), set, f.ids)
	if err != nil {
		return "Selected keys."
	}
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = page.Clip(k.Name, page.MaxName)
	}
	return page.Clip(strings.Join(names, ", "), 1000) + "."
}

// effects says what the recorded calls of the last hour were, and what would have become
// of them.
func (d *Pages) effects(r *http.Request, set *policy.Set, f bulkForm) ([]string, error) {
	if f.do == app.Reset {
		return nil, nil
	}
	j := f.job()
	text, err := d.PreviewKeys(r.Context(), set, j.Filter, j.IDs, func(k *policy.Key) {
		switch f.do {
		case app.Plan:
			k.Plan = j.Plan
		case app.Override:
			k.Override = j.Override
		case app.EndOverride:
			k.Override = nil
		case app.Revoke:
			k.Status = policy.Revoked
		}
	})
	if err != nil {
		return nil, err
	}
	effects := []string{text}
	if f.do == app.Override {
		effects = append(effects, changes.MootWarnings("", j.Override.Limits)...)
	}
	return effects, nil
}
