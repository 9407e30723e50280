package dashboard

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/internal/apikey"
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
	env   form.Input
	value form.Input // that another system made; its text is never sent back
}

func (f *newKeyForm) setError(invalid *policy.InvalidError) {
	own := map[string]*form.Input{"env": &f.env, "value": &f.value}
	invalid.Fields = slices.DeleteFunc(invalid.Fields, func(e policy.FieldError) bool {
		in := own[e.Field]
		if in != nil {
			in.Error = form.Sentence(e.Message)
		}
		return in != nil
	})
	f.actionForm.setError(invalid)
}

func (f *newKeyForm) errors() int { return f.actionForm.errors() + form.CountErrors(f.env, f.value) }

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
	f.reason, f.allow = form.Typed(v, "reason", form.MaxReasonInput), form.TypedRoutes(v, nil)
	f.group = form.Typed(v, "group", form.MaxInput)
	if form.Resumes(r) {
		d.renderNewKey(w, r, http.StatusOK, f)
		return
	}
	n := policy.NewKey{
		Name: f.name.Text, Env: f.env.Text, Plan: f.plan.Text,
		Tags:    splitTags(f.tags.Text),
		Group:   f.group.Text,
		Expires: f.until.Time(time.Now()),
		Allow:   f.allow.Routes(),
		Value:   strings.TrimSpace(v.Get("value")),
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
	case errors.Is(err, policy.ErrConflict) && n.Value != "":
		f.value.Error = "The key " + key.ID + " has this value already."
		d.renderNewKey(w, r, http.StatusConflict, f)
	case err == nil && secret.Foreign():
		d.Flash(r, "Key created: “"+page.Clip(key.Name, page.MaxName)+"”.", "")
		d.toKey(w, r, key)
	case err != nil:
		d.FailStore(w, r, "create key", err)
	default:
		d.handOver(w, r, key, secret.Reveal())
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
		form.ChoiceField("plan", "Plan", wording.PlanOptions(f.set), f.plan),
		form.TextField("env", "Environment (key prefix)", "live", 16, f.env),
		form.TextField("tags", "Tags, separated by commas", "team-a, beta", 600, f.tags),
		groupField(f.group),
	}
	if d.Keys.TakesForeign() || f.value.Error != "" {
		field := form.TextField("value", "Existing key value", "empty to generate one",
			apikey.MaxForeignLen, form.Input{Error: f.value.Error})
		field.Hint = "From another system. It is hashed and never shown."
		fields = append(fields, field)
	}
	page.Form = &templates.Form{
		Action: d.Path("/keys"), Fields: append(fields, form.UntilFields(f.until, "never expires")...),
		After: []templates.FormField{keyRoutesField(f.allow), form.ReasonField(f.reason)},
		Error: f.problem, Errors: f.errors(), Submit: "Create the key",
		Cancel: templates.Choice{Text: "Cancel", Address: d.Path("/keys")},
	}
	d.Render(w, r, status, templates.FormOf(page))
}
