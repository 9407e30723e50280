package dashboard

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/web/templates"
)

// keyAction is a change of one key that is asked for on a page of its own.
type keyAction struct {
	heading string
	advice  string
	submit  string
	done    string // what the next page says
	danger  bool
	revoked bool // makes sense for a revoked key too
	any     bool // even for one that cannot be read
	reason  bool // must be given
	fields  func(d *dashboard, f *actionForm) []templates.FormField
	// do makes the change; it returns the key as it is then.
	do func(ctx context.Context, d *dashboard, f *actionForm, edit registry.Edit) (policy.Key, error)
}

// actionForm is what was typed on the page of an action.
type actionForm struct {
	set     *policy.Set
	key     policy.Key
	version int64
	reason  form.Input
	until   form.Until
	grace   form.Input
	name    form.Input
	tags    form.Input
	plan    form.Input
	secret  string // that a rotation made
	wrong   string
}

// update changes the key as the form's version was.
func (f *actionForm) update(ctx context.Context, d *dashboard, action string, edit registry.Edit,
	change func(*policy.Key)) (policy.Key, error) {
	return d.Keys.Update(ctx, f.key.ID, f.version, action, edit, change)
}

var keyActions = map[string]keyAction{
	"end": {
		heading: "End the override of",
		advice:  "The plan's limits apply from the next check. Counts are kept.", submit: "End the override",
		done: "Override ended. The plan applies.",
		do: func(ctx context.Context, d *dashboard, f *actionForm, edit registry.Edit) (policy.Key, error) {
			return d.Keys.SetOverride(ctx, f.key.ID, f.version, nil, edit)
		},
	},
	"reset": {
		heading: "Reset the counts of", advice: "All counts go to zero. This cannot be undone.",
		submit: "Reset", danger: true,
		done: "Counts reset.",
		do: func(ctx context.Context, d *dashboard, f *actionForm, edit registry.Edit) (policy.Key, error) {
			return f.key, d.Keys.Reset(ctx, f.key.ID, edit)
		},
	},
	"revoke": {
		heading: "Revoke", advice: "Calls with this key get 401 from the next check. You can restore " +
			"the key.", submit: "Revoke",
		danger: true,
		done:   "Key revoked.",
		do: func(ctx context.Context, d *dashboard, f *actionForm, edit registry.Edit) (policy.Key, error) {
			return d.Keys.Revoke(ctx, f.key.ID, f.version, edit)
		},
	},
	"unrevoke": {
		heading: "Restore", advice: "Calls with this key are allowed again, within its limits.",
		submit: "Restore", revoked: true,
		done: "Key restored.",
		do: func(ctx context.Context, d *dashboard, f *actionForm, edit registry.Edit) (policy.Key, error) {
			return f.update(ctx, d, audit.KeyUnrevoke, edit, func(k *policy.Key) { k.Status = policy.Active })
		},
	},
	"ban": {
		heading: "Ban", advice: "Calls with this key get 429 until then.", submit: "Ban",
		danger: true, reason: true,
		done: "Banned.", fields: banFields, do: ban,
	},
	"unban": {
		heading: "Unban", advice: "Calls with this key are allowed again, within its limits.",
		submit: "Unban", done: "Ban lifted.",
		do: func(ctx context.Context, d *dashboard, f *actionForm, edit registry.Edit) (policy.Key, error) {
			return d.Keys.Unban(ctx, f.key.ID, f.version, edit)
		},
	},
	"rotate": {
		heading: "Rotate the secret of", submit: "Rotate secret", danger: true,
		fields: graceFields, do: rotate,
		advice: "The key gets a new secret. Plan, counts and history stay. The old secret works until its " +
			"grace period ends.",
	},
	"delete": {
		heading: "Delete", advice: "Deletes the key and its counts. Its audit is kept. This cannot be " +
			"undone.", submit: "Delete permanently",
		danger: true, revoked: true, any: true, done: "Deleted.",
		do: func(ctx context.Context, d *dashboard, f *actionForm, edit registry.Edit) (policy.Key, error) {
			return policy.Key{}, d.Keys.Delete(ctx, f.key.ID, edit)
		},
	},
	"edit": {
		heading: "Edit",
		advice:  "A new plan acts on the next check and keeps counts. An override stays in force.",
		submit:  "Save", done: "Saved.", revoked: true,
		fields: editFields, do: saveKey,
	},
}

func ban(ctx context.Context, d *dashboard, f *actionForm, edit registry.Edit) (policy.Key, error) {
	until := f.until.Time(time.Now())
	if until.IsZero() && f.until.ErrorCount() == 0 {
		f.until.Choice.Error = "Choose how long the ban lasts. To block permanently, revoke the key."
	}
	if f.until.ErrorCount() > 0 {
		return f.key, errTyped
	}
	return f.update(ctx, d, audit.KeyBan, edit, func(k *policy.Key) { k.Banned = until })
}

// errTyped means that the form holds what is wrong.
var errTyped = errors.New("wrong input")

func rotate(ctx context.Context, d *dashboard, f *actionForm, edit registry.Edit) (policy.Key, error) {
	f.grace.CheckOption(graces)
	grace, err := time.ParseDuration(f.grace.Text)
	if err != nil || f.grace.Error != "" {
		f.grace.Error = form.ChooseFromList
		return f.key, errTyped
	}
	key, secret, err := d.Keys.Rotate(ctx, f.key.ID, f.version, grace, edit)
	if err == nil {
		f.secret = secret.Reveal()
	}
	return key, err
}

func saveKey(ctx context.Context, d *dashboard, f *actionForm, edit registry.Edit) (policy.Key, error) {
	expires := f.until.Time(time.Now())
	if f.key.Expires.Format(form.UntilForm) == f.until.At.Text && f.until.Choice.Text == form.UntilAt {
		f.until.At.Error, expires = "", f.key.Expires // it may be past, and its seconds are not shown
	}
	if f.until.ErrorCount() > 0 {
		return f.key, errTyped
	}
	return f.update(ctx, d, audit.KeyEdit, edit, func(k *policy.Key) {
		k.Name, k.Tags, k.Plan, k.Expires = strings.TrimSpace(f.name.Text), splitTags(f.tags.Text),
			f.plan.Text, expires
	})
}

// setError notes what the store found wrong.
func (f *actionForm) setError(invalid *policy.InvalidError) {
	fields := map[string]*form.Input{
		"name": &f.name, "plan": &f.plan, "expires": &f.until.At, "bannedUntil": &f.until.At,
		"grace": &f.grace,
	}
	for _, e := range invalid.Fields {
		field, _, _ := strings.Cut(e.Field, "[")
		if in := fields[e.Field]; in != nil {
			in.Error = form.Sentence(e.Message)
		} else if field == "tags" {
			f.tags.Error = form.Sentence(e.Message)
		} else {
			f.wrong = e.Field + ": " + form.Sentence(e.Message)
		}
	}
}

func (f *actionForm) errors() int {
	return f.until.ErrorCount() + form.CountErrors(f.reason, f.grace, f.name, f.tags, f.plan)
}

// action returns the action that the path names and what it is on, or answers the
// request.
func (d *dashboard) action(w http.ResponseWriter, r *http.Request) (keyAction, *actionForm, bool) {
	a, known := keyActions[r.PathValue("action")]
	if !known {
		d.Fail(w, r, page.Problem{Status: http.StatusNotFound})
		return a, nil, false
	}
	set, key, ok := d.keyAndSet(w, r)
	if !ok {
		return a, nil, false
	}
	if key.Status == policy.Revoked && !a.revoked || key.Status == policy.Unreadable && !a.any {
		d.Fail(w, r, page.Problem{Status: http.StatusConflict, Heading: "This key is " + string(key.Status),
			Advice: "This action does not apply to it."})
		return a, nil, false
	}
	return a, &actionForm{set: set, key: key, version: key.Version}, true
}

func (d *dashboard) showKeyAction(w http.ResponseWriter, r *http.Request) {
	a, f, ok := d.action(w, r)
	if !ok {
		return
	}
	f.name.Text, f.tags.Text, f.plan.Text, f.until = f.key.Name, strings.Join(f.key.Tags, ", "), f.key.Plan,
		form.NewUntil(f.key.Expires)
	if r.PathValue("action") == "ban" {
		f.until = form.Until{}
	}
	d.renderKeyAction(w, r, http.StatusOK, a, f, nil)
}

func (d *dashboard) doKeyAction(w http.ResponseWriter, r *http.Request) {
	if !d.ParseForm(w, r) {
		return
	}
	a, f, ok := d.action(w, r)
	if !ok {
		return
	}
	var err error
	if f.version, err = form.ReadVersion(r.PostForm); err != nil {
		d.Fail(w, r, page.Problem{Status: http.StatusBadRequest})
		return
	}
	v := r.PostForm
	f.reason, f.until, f.grace = form.Typed(
		v, "reason", form.MaxReasonInput,
	), form.ReadUntil(v), form.Typed(v, "grace", form.MaxInput)
	f.name, f.tags, f.plan = form.Typed(
		v, "name", policy.MaxNameLen+50,
	), form.Typed(v, "tags", 1000), form.Typed(v, "plan", page.MaxName+10)
	if f.reason.Text != "" || a.reason {
		f.reason.CheckReason()
	}
	if f.errors() > 0 {
		d.renderKeyAction(w, r, http.StatusUnprocessableEntity, a, f, nil)
		return
	}
	d.makeKeyAction(w, r, a, f)
}

func (d *dashboard) makeKeyAction(w http.ResponseWriter, r *http.Request, a keyAction, f *actionForm) {
	before := f.key
	if before.Version != f.version {
		d.keyConflict(w, r, a, f, before)
		return
	}
	saved, err := a.do(r.Context(), d, f, d.Edit(r, strings.TrimSpace(f.reason.Text)))
	var invalid *policy.InvalidError
	switch {
	case errors.Is(err, policy.ErrConflict):
		// what takes no version does not return the newer one
		if saved.Version == before.Version || saved.ID == "" {
			if saved, err = d.key(r); err != nil {
				d.FailStore(w, r, "get key", err)
				return
			}
		}
		d.keyConflict(w, r, a, f, saved)
	case errors.Is(err, errTyped):
		d.renderKeyAction(w, r, http.StatusUnprocessableEntity, a, f, nil)
	case errors.As(err, &invalid):
		f.setError(invalid)
		d.renderKeyAction(w, r, http.StatusUnprocessableEntity, a, f, nil)
	case err != nil:
		d.FailStore(w, r, "change key", err)
	case f.secret != "":
		d.renderSecret(w, r, saved, "The new secret of “"+page.Clip(saved.Name, page.MaxName)+"”", f.secret)
	case saved.ID == "":
		d.Flash(r, "Deleted “"+page.Clip(before.Name, page.MaxName)+"”.", "")
		http.Redirect(w, r, d.Path("/keys"), http.StatusSeeOther)
	default:
		d.Flash(r, a.done, d.UndoOf(r, saved.ID, saved.Version))
		d.toKey(w, r, saved)
	}
}

func (d *dashboard) keyConflict(w http.ResponseWriter, r *http.Request, a keyAction, f *actionForm,
	current policy.Key) {
	f.key, f.version = current, current.Version
	var theirs []string
	if page, err := d.Keys.Audit().List(r.Context(), newest(current.ID)); err == nil &&
		len(page.Entries) > 0 {
		for _, c := range changes.OfEntry(page.Entries[0]) {
			theirs = append(theirs, c.What+": "+c.Before+" → "+c.After)
		}
	}
	d.renderKeyAction(w, r, http.StatusConflict, a, f, &templates.Conflict{
		Theirs: theirs, Yours: []string{strings.ToLower(a.submit)}, By: d.LastActor(r,
			current.ID), Saved: page.Instant(current.Updated), Keep: d.keyPath(current),
	})
}

func (d *dashboard) renderKeyAction(w http.ResponseWriter, r *http.Request, status int, a keyAction,
	f *actionForm, conflict *templates.Conflict) {
	name := page.Clip(f.key.Name, page.MaxName)
	var fields []templates.FormField
	if a.fields != nil {
		fields = a.fields(d, f)
	}
	d.Render(w, r, status, templates.FormOf(templates.FormPage{
		Page: d.Page(r, a.heading+" "+name), Trail: d.keyTrail(f.key), Heading: a.heading, Name: name,
		Lead: []string{a.advice}, Conflict: conflict,
		Form: &templates.Form{
			Action: d.keyPath(f.key) + "/" + r.PathValue("action"),
			Hidden: []templates.Hidden{{Name: "version", Value: strconv.FormatInt(f.version, 10)}},
			Error:  f.wrong, Errors: f.errors(),
			After:  append(fields, form.ReasonField(f.reason)),
			Submit: a.submit, Danger: a.danger,
			Cancel: templates.Choice{Text: "Cancel", Address: d.keyPath(f.key)},
		},
	}))
}

// renderSecret answers with the page itself, not with a way to it: the secret is in this
// answer and nowhere else.
func (d *dashboard) renderSecret(w http.ResponseWriter, r *http.Request, k policy.Key, heading,
	secret string) {
	advice := []string{"Send it as x-api-key, or as Authorization: Bearer."}
	if k.Grace.After(time.Now()) {
		advice = append(advice, "The old secret works until "+page.Instant(k.Grace).Text+".")
	}
	d.Render(w, r, http.StatusCreated, templates.FormOf(templates.FormPage{
		Page: d.Page(r, heading), Trail: d.keyTrail(k), Heading: "Secret of",
		Name:   page.Clip(k.Name, page.MaxName),
		Secret: &templates.Secret{Heading: heading, Text: secret, Advice: advice},
	}))
}
