package dashboard

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"tidegate/internal/policy"
	"tidegate/web/templates"
)

func (d *dashboard) showNewKey(w http.ResponseWriter, r *http.Request) {
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		d.failStore(w, r, "read policy", err)
		return
	}
	f := &newKeyForm{actionForm: actionForm{set: set}, env: input{text: "live"}}
	if plan, known := set.Plan(r.URL.Query().Get("plan")); known {
		f.plan.text = plan.Name
	}
	d.renderNewKey(w, r, http.StatusOK, f)
}

// newKeyForm is a key to create as it was typed.
type newKeyForm struct {
	actionForm
	env input
}

func (f *newKeyForm) setError(invalid *policy.InvalidError) {
	for i, e := range invalid.Fields {
		if e.Field == "env" {
			f.env.wrong = sentence(e.Message)
			invalid.Fields = append(invalid.Fields[:i], invalid.Fields[i+1:]...)
			break
		}
	}
	f.actionForm.setError(invalid)
}

func (f *newKeyForm) errors() int { return f.actionForm.errors() + wrongs(f.env) }

func (d *dashboard) createKey(w http.ResponseWriter, r *http.Request) {
	if !d.parseForm(w, r) {
		return
	}
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		d.failStore(w, r, "read policy", err)
		return
	}
	v := r.PostForm
	f := &newKeyForm{actionForm: actionForm{set: set, until: readUntil(v)}, env: typed(v, "env", maxInput)}
	f.name, f.tags, f.plan = typed(v, "name", policy.MaxNameLen+50), typed(v, "tags", 1000), typed(v, "plan", maxName+10)
	f.reason = typed(v, "reason", maxReasonInput)
	n := policy.NewKey{
		Name: strings.TrimSpace(f.name.text), Env: strings.TrimSpace(f.env.text), Plan: f.plan.text, Tags: splitTags(f.tags.text),
		Expires: f.until.time(time.Now()),
	}
	if f.reason.text != "" {
		f.reason.reason()
	}
	if f.errors() > 0 {
		d.renderNewKey(w, r, http.StatusUnprocessableEntity, f)
		return
	}
	key, secret, err := d.Keys.Create(r.Context(), n, d.edit(r, strings.TrimSpace(f.reason.text)))
	var invalid *policy.InvalidError
	switch {
	case errors.As(err, &invalid):
		f.setError(invalid)
		d.renderNewKey(w, r, http.StatusUnprocessableEntity, f)
	case err != nil:
		d.failStore(w, r, "create key", err)
	default:
		d.renderSecret(w, r, key, "The key “"+clip(key.Name, maxName)+"” is made", secret.Reveal())
	}
}

func (d *dashboard) renderNewKey(w http.ResponseWriter, r *http.Request, status int, f *newKeyForm) {
	page := templates.FormPage{Page: d.page(r, "Create a key"), Trail: []templates.Choice{{Text: "Keys", Address: d.path("/keys")}},
		Heading: "Create a key"}
	if len(f.set.Plans) == 0 {
		page.Lead = []string{"A key needs a plan, and there is none yet: create one under Policies first."}
		d.render(w, r, status, templates.FormOf(page))
		return
	}
	fields := []templates.FormField{
		text("name", "Name", "who will use it", policy.MaxNameLen, f.name),
		choice("plan", "Plan", planOptions(f.set), f.plan),
		text("env", "Environment, in the key's text", "live", 16, f.env),
		text("tags", "Tags, with commas between", "team-a, beta", 600, f.tags),
	}
	page.Form = &templates.Form{
		Action: d.path("/keys"), Fields: append(fields, untilFields(f.until, "never expires")...), After: []templates.FormField{reasonField(f.reason)},
		Error: f.wrong, Errors: f.errors(), Submit: "Create the key", Cancel: templates.Choice{Text: "Cancel", Address: d.path("/keys")},
	}
	d.render(w, r, status, templates.FormOf(page))
}
