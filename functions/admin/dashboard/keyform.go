package dashboard

import (
	"errors"
	"net/http"
	"net/url"
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

// maxNameInput exceeds the longest name, in characters, so that the form shows an error
// instead of shortened text.
const maxNameInput = policy.MaxNameLen + 50

// keyForm holds the typed fields of a new key, or of an action on a key.
type keyForm struct {
	set     *policy.Set
	key     policy.Key // zero for a new key
	version int64      // of the key, when the form was shown

	name, plan, tags, group form.Input
	billing                 form.Input
	env, value              form.Input // of a new key; the form never shows value again
	opens                   form.Input // patterns, one a line
	grace                   form.Input // of a rotation
	until                   form.Until
	reason                  form.Input

	facts    []string // additional information
	warnings []string // require confirmation
	problem  string   // an error that belongs to no field
}

// table returns the fields but the expiry.
func (f *keyForm) table() form.Table {
	return form.Table{
		{Name: "name", Input: &f.name, Max: maxNameInput},
		{Name: "plan", Input: &f.plan, Max: page.MaxName + 10},
		{Name: "tags", Input: &f.tags, Max: form.MaxTagsInput},
		{Name: "group", Input: &f.group, Max: form.MaxInput},
		{Name: "billing", Input: &f.billing, Max: form.MaxInput},
		{Name: "env", Input: &f.env, Max: form.MaxInput},
		{Name: "value", Input: &f.value},
		{Name: "opens", Input: &f.opens, Max: form.MaxPatternsText},
		{Name: "grace", Input: &f.grace, Max: form.MaxInput},
		{Name: "reason", Input: &f.reason, Max: form.MaxReasonInput},
	}
}

// read reads what a browser sent.
func (f *keyForm) read(v url.Values) {
	f.table().Read(v)
	f.until = form.ReadUntil(v)
}

// errors returns the number of invalid fields.
func (f *keyForm) errors() int { return f.until.ErrorCount() + f.table().ErrorCount() }

// setError shows the store's validation errors at their fields.
func (f *keyForm) setError(invalid *policy.InvalidError) {
	f.problem = append(f.table(), f.until.Table("expires", "bannedUntil", "until")...).SetErrors(invalid)
}

var graces = []templates.Option{
	{Value: "0s", Text: "none: stops working now"},
	{Value: "1h", Text: "1 hour"},
	{Value: "24h", Text: "1 day"},
	{Value: "168h", Text: "7 days"},
	{Value: "720h", Text: "30 days"},
	{Value: "2160h", Text: "90 days"},
}

func (f *keyForm) graceFields() []templates.FormField {
	if f.grace.Text == "" {
		f.grace.Text = "24h"
	}
	return []templates.FormField{form.ChoiceField("grace", "Previous secret works for", graces, f.grace)}
}

func (f *keyForm) editFields() []templates.FormField {
	plans := wording.PlanOptions(f.set)
	if f.key.Kind != policy.APIKey {
		plans = append([]templates.Option{{Text: "none: use the caller's default plan"}}, plans...)
	}
	fields := []templates.FormField{
		form.TextField("name", "Name", "", policy.MaxNameLen, f.name),
		form.TagsField(f.tags),
		form.ChoiceField("plan", "Plan", plans, f.plan),
	}
	if f.key.Kind == policy.APIKey {
		fields = append(fields, f.groupField())
	}
	fields = append(fields, form.BillingField(f.billing))
	fields = append(fields, form.UntilFields(f.until, "never expires")...)
	if f.key.Kind == policy.APIKey {
		fields = append(fields, f.routesField())
	}
	return fields
}

func (f *keyForm) groupField() templates.FormField {
	field := form.TextField("group", "Group", "none", policy.MaxGroupLen, f.group)
	field.Hint = "Keys in a group share their plan's limits per group."
	return field
}

func (f *keyForm) routesField() templates.FormField {
	return form.OpensField("One pattern a line. The plan must open them too. Leave blank for all.", f.opens)
}

func (d *dashboard) showNewKey(w http.ResponseWriter, r *http.Request) error {
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		return page.Failed("read policy", err)
	}
	f := &keyForm{set: set, env: form.Input{Text: "live"}}
	if plan, known := set.Plan(r.URL.Query().Get("plan")); known {
		f.plan.Text = plan.Name
	}
	return d.renderNewKey(w, r, http.StatusOK, f)
}

func (d *dashboard) createKey(w http.ResponseWriter, r *http.Request) error {
	if err := page.ParseForm(r); err != nil {
		return err
	}
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		return page.Failed("read policy", err)
	}
	f := &keyForm{set: set}
	f.read(r.PostForm)
	if form.Resumes(r) {
		return d.renderNewKey(w, r, http.StatusOK, f)
	}
	n := policy.NewKey{
		Name: f.name.Text, Env: f.env.Text, Plan: f.plan.Text, Group: f.group.Text,
		Tags:    f.tags.Tags(),
		Expires: f.until.Time(time.Now()),
		Opens:   f.opens.Patterns(policy.MaxOpens),
		Billing: f.billing.Billing(),
		Value:   strings.TrimSpace(r.PostForm.Get("value")),
	}
	if f.reason.Text != "" {
		f.reason.CheckReason()
	}
	if f.errors() > 0 {
		return d.renderNewKey(w, r, http.StatusUnprocessableEntity, f)
	}
	key, secret, err := d.Keys.Create(r.Context(), n, app.NewEdit(r.Context(), f.reason.Text))
	var invalid *policy.InvalidError
	switch {
	case errors.As(err, &invalid):
		f.setError(invalid)
		return d.renderNewKey(w, r, http.StatusUnprocessableEntity, f)
	case errors.Is(err, policy.ErrConflict) && n.Value != "":
		f.value.Error = "Key " + key.ID + " already has this value."
		return d.renderNewKey(w, r, http.StatusConflict, f)
	case err != nil:
		return page.Failed("create key", err)
	case secret.Foreign():
		d.Flash(r, "Key created: “"+page.Clip(key.Name, page.MaxName)+"”.", "")
		return d.redirectToKey(w, r, key)
	default:
		return d.redirectToSecret(w, r, key, secret.Reveal())
	}
}

func (d *dashboard) renderNewKey(w http.ResponseWriter, r *http.Request, status int, f *keyForm) error {
	p := templates.FormPage{Page: d.Page(r, "Create a key"), Trail: d.keysTrail(), Heading: "Create a key"}
	if len(f.set.Plans) == 0 {
		p.Lead = []string{"Create a plan under Policies first."}
		return d.Render(w, r, status, templates.FormOf(p))
	}
	fields := []templates.FormField{
		form.TextField("name", "Name", "customer or program", policy.MaxNameLen, f.name),
		form.ChoiceField("plan", "Plan", wording.PlanOptions(f.set), f.plan),
		form.TextField("env", "Environment (key prefix)", "live", 16, f.env),
		form.TagsField(f.tags),
		f.groupField(),
		form.BillingField(f.billing),
	}
	if d.Keys.TakesForeign() || f.value.Error != "" {
		field := form.TextField("value", "Existing key value", "empty to generate one",
			apikey.MaxForeignLen, form.Input{Error: f.value.Error})
		field.Hint = "From another system. It is hashed and never shown."
		fields = append(fields, field)
	}
	p.Form = &templates.Form{
		Action: d.Path("/keys"),
		Fields: append(fields, form.UntilFields(f.until, "never expires")...),
		After:  []templates.FormField{f.routesField(), form.ReasonField(f.reason)},
		Error:  f.problem,
		Errors: f.errors(),
		Submit: "Create the key",
		Cancel: templates.Choice{Text: "Cancel", Address: d.Path("/keys")},
	}
	return d.Render(w, r, status, templates.FormOf(p))
}
