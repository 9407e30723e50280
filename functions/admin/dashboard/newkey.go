package dashboard

import (
	"errors"
	"net/http"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

func (d *dashboard) showNewKey(w http.ResponseWriter, r *http.Request) {
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		d.FailStore(w, r, "read policy", err)
		return
	}
	f := &newKeyForm{actionForm: actionForm{set: set}, env: form.Input{Text: "live"}}
	if plan, known := set.Plan(r.URL.Query().Get("plan")); known {
		f.plan.Text = plan.Name
	}
	d.renderNewKey(w, r, http.StatusOK, f)
}

// newKeyForm is a key to create as it was typed.
type newKeyForm struct {
	actionForm
	env form.Input
}

func (f *newKeyForm) setError(invalid *policy.InvalidError) {
	for i, e := range invalid.Fields {
		if e.Field == "env" {
			f.env.Error = form.Sentence(e.Message)
			invalid.Fields = append(invalid.Fields[:i], invalid.Fields[i+1:]...)
			break
		}
	}
	f.actionForm.setError(invalid)
}

func (f *newKeyForm) errors() int { return f.actionForm.errors() + form.CountErrors(f.env) }

func (d *dashboard) createKey(w http.ResponseWriter, r *http.Request) {
	if !d.ParseForm(w, r) {
		return
	}
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		d.FailStore(w, r, "read policy", err)
		return
	}
	v := r.PostForm
	f := &newKeyForm{
		actionForm: actionForm{set: set, until: form.ReadUntil(v)}, env: form.Typed(v, "env", form.MaxInput),
	}
	f.name, f.tags, f.plan = form.Typed(
		v, "name", policy.MaxNameLen+50,
	), form.Typed(v, "tags", 1000), form.Typed(v, "plan", page.MaxName+10)
	f.reason = form.Typed(v, "reason", form.MaxReasonInput)
	n := policy.NewKey{
		Name: f.name.Text, Env: f.env.Text, Plan: f.plan.Text,
		Tags:    splitTags(f.tags.Text),
		Expires: f.until.Time(time.Now()),
	}
	if f.reason.Text != "" {
		f.reason.CheckReason()
	}
	if f.errors() > 0 {
		d.renderNewKey(w, r, http.StatusUnprocessableEntity, f)
		return
	}
	key, secret, err := d.Keys.Create(r.Context(), n, app.NewEdit(r.Context(), f.reason.Text))
	var invalid *policy.InvalidError
	switch {
	case errors.As(err, &invalid):
		f.setError(invalid)
		d.renderNewKey(w, r, http.StatusUnprocessableEntity, f)
	case err != nil:
		d.FailStore(w, r, "create key", err)
	default:
		d.renderSecret(w, r, key, "Key created: “"+page.Clip(key.Name, page.MaxName)+"”", secret.Reveal())
	}
}

func (d *dashboard) renderNewKey(w http.ResponseWriter, r *http.Request, status int, f *newKeyForm) {
	page := templates.FormPage{Page: d.Page(r, "Create a key"),
		Trail:   []templates.Choice{{Text: "Keys", Address: d.Path("/keys")}},
		Heading: "Create a key"}
	if len(f.set.Plans) == 0 {
		page.Lead = []string{"Create a plan under Policies first."}
		d.Render(w, r, status, templates.FormOf(page))
		return
	}
	fields := []templates.FormField{
		form.TextField("name", "Name", "customer or program", policy.MaxNameLen, f.name),
		form.ChoiceField("plan", "Plan", changes.PlanOptions(f.set), f.plan),
		form.TextField("env", "Environment (key prefix)", "live", 16, f.env),
		form.TextField("tags", "Tags, separated by commas", "team-a, beta", 600, f.tags),
	}
	page.Form = &templates.Form{
		Action: d.Path("/keys"), Fields: append(fields, form.UntilFields(f.until, "never expires")...),
		After: []templates.FormField{form.ReasonField(f.reason)},
		Error: f.wrong, Errors: f.errors(), Submit: "Create the key",
		Cancel: templates.Choice{Text: "Cancel", Address: d.Path("/keys")},
	}
	d.Render(w, r, status, templates.FormOf(page))
}
