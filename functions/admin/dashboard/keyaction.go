package dashboard

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// keyAction is a change of one key that is asked for on a page of its own.
type keyAction struct {
	heading string
	advice  string
	submit  string
	done    string // what the next page says
	danger  bool
	reason  bool // must be given
	preview bool // the form has a button for it
	fields  func(d *dashboard, f *actionForm) []templates.FormField
	// read puts what was typed into the change, and notes on the form what is wrong.
	read func(f *actionForm, change *app.KeyChange)
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
	group   form.Input
	allow   form.Input // routes
	secret  string     // that a rotation made
	problem string
	facts   []string // what else to know
	// warnings are what to confirm
	warnings []string
	preview  *templates.Preview
}

var keyActions = map[string]keyAction{
	app.EndOverride: {
		heading: "End the override of",
		advice:  "The plan's limits apply from the next check. Counts are kept.", submit: "End the override",
		done: "Override ended. The plan applies.",
	},
	app.Reset: {
		heading: "Reset the counts of", advice: "All counts go to zero. This cannot be undone.",
		submit: "Reset", danger: true,
		done: "Counts reset.",
	},
	app.Revoke: {
		heading: "Revoke", submit: "Revoke",
		advice: "Calls with this key get 401 from the next check. You can restore the key.",
		danger: true,
		done:   "Key revoked.",
	},
	app.Unrevoke: {
		heading: "Restore", advice: "Calls with this key are allowed again, within its limits.",
		submit: "Restore", done: "Key restored.",
	},
	app.Ban: {
		heading: "Ban", advice: "Calls with this key get 429 until then.", submit: "Ban",
		danger: true, reason: true,
		done: "Banned.", fields: banFields, read: readBan,
	},
	app.Unban: {
		heading: "Unban", advice: "Calls with this key are allowed again, within its limits.",
		submit: "Unban", done: "Ban lifted.",
	},
	app.Rotate: {
		heading: "Rotate the secret of", submit: "Rotate secret", danger: true,
		fields: graceFields, read: readGrace,
		advice: "The key gets a new secret. Plan, counts and history stay. The old secret works until its " +
			"grace period ends.",
	},
	app.ExpireSecret: {
		heading: "Expire the old secret of", submit: "Expire old secret", danger: true,
		advice: "Calls with the old secret get 401 from the next check. This cannot be undone.",
		done:   "Old secret expired.",
	},
	app.Delete: {
		heading: "Delete", submit: "Delete permanently",
		advice: "Deletes the key and its counts. Its audit is kept. This cannot be undone.",
		danger: true, done: "Deleted.",
	},
	app.Details: {
		heading: "Edit",
		advice:  "A new plan acts on the next check and keeps counts. An override stays in force.",
		submit:  "Save", done: "Saved.", fields: editFields, read: readDetails, preview: true,
	},
}

func readBan(f *actionForm, change *app.KeyChange) {
	change.Until = f.until.Time(time.Now())
	if change.Until.IsZero() && f.until.ErrorCount() == 0 {
		f.until.Choice.Error = "Choose how long the ban lasts. To block permanently, revoke the key."
	}
}

func readGrace(f *actionForm, _ *app.KeyChange) {
	f.grace.CheckOption(graces)
}

func readDetails(f *actionForm, change *app.KeyChange) {
	expires := f.until.Time(time.Now())
	allow := f.allow.Routes()
	change.Details = func(k *policy.Key) {
		k.Allow = allow
		k.Group = f.group.Text
		k.Name, k.Tags, k.Plan, k.Expires = f.name.Text, splitTags(f.tags.Text), f.plan.Text, expires
	}
}

// change makes the change as the form's version was.
func (f *actionForm) change(r *http.Request, d *dashboard, c app.KeyChange) (policy.Key, error) {
	edit := app.NewEdit(r.Context(), f.reason.Text)
	if c.Do != app.Rotate {
		return d.Keys.Change(r.Context(), f.key.ID, app.Base{Version: f.version}, c, edit)
	}
	grace, err := time.ParseDuration(f.grace.Text)
	if err != nil {
		return f.key, err
	}
	key, secret, err := d.Keys.Rotate(r.Context(), f.key.ID, f.version, grace, edit)
	if err == nil {
		f.secret = secret.Reveal()
	}
	return key, err
}

// setError notes what the store found wrong.
func (f *actionForm) setError(invalid *policy.InvalidError) {
	fields := map[string]*form.Input{
		"name": &f.name, "plan": &f.plan, "group": &f.group, "expires": &f.until.At, "until": &f.until.At,
		"bannedUntil": &f.until.At,
		"grace":       &f.grace,
	}
	for _, e := range invalid.Fields {
		field, _, _ := strings.Cut(e.Field, "[")
		in := fields[e.Field]
		switch {
		case in != nil:
			in.Error = form.Sentence(e.Message)
		case field == "tags":
			f.tags.Error = form.Sentence(e.Message)
		case field == "allow":
			f.allow.Error = form.Sentence(e.Message)
		default:
			f.problem = e.Field + ": " + form.Sentence(e.Message)
		}
	}
}

func (f *actionForm) errors() int {
	return f.until.ErrorCount() + form.CountErrors(f.reason, f.grace, f.name, f.tags, f.plan, f.group,
		f.allow)
}

// action returns the action that the path names and what it is on, or answers the
// request.
func (d *dashboard) action(w http.ResponseWriter, r *http.Request) (keyAction, *actionForm, bool) {
	do := r.PathValue("action")
	a, known := keyActions[do]
	if !known {
		d.Fail(w, r, page.Problem{Status: http.StatusNotFound})
		return a, nil, false
	}
	set, key, ok := d.keyAndSet(w, r)
	if !ok {
		return a, nil, false
	}
	if !(app.KeyChange{Do: do}).Fits(key.Status) {
		d.Fail(w, r, page.Problem{Status: http.StatusConflict, Heading: "This key is " + string(key.Status),
			Advice: "This action does not apply to it."})
		return a, nil, false
	}
	f := &actionForm{set: set, key: key, version: key.Version}
	if err := d.aboutSecrets(r, do, f); err != nil {
		d.FailStore(w, r, "read use of the old secret", err)
		return a, nil, false
	}
	return a, f, true
}

func (d *dashboard) showKeyAction(w http.ResponseWriter, r *http.Request) {
	a, f, ok := d.action(w, r)
	if !ok {
		return
	}
	f.name.Text, f.tags.Text, f.plan.Text, f.until = f.key.Name, strings.Join(f.key.Tags, ", "), f.key.Plan,
		form.NewUntil(f.key.Expires)
	f.allow, f.group.Text = form.RoutesInput(f.key.Allow), f.key.Group
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
	f.allow, f.group = form.TypedRoutes(v, f.key.Allow), form.Typed(v, "group", form.MaxInput)
	if !v.Has("group") { // a form of another release lacks it
		f.group.Text = f.key.Group
	}
	if form.Resumes(r) {
		d.renderKeyAction(w, r, http.StatusOK, a, f, nil)
		return
	}
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
	change := app.KeyChange{Do: r.PathValue("action")}
	if a.read != nil {
		a.read(f, &change)
	}
	if a.preview && f.errors() == 0 && r.PostForm.Get("action") == changes.PreviewButton {
		d.previewKeyAction(w, r, a, f, change)
		return
	}
	if f.errors() > 0 || !form.Accepted(r.PostForm, f.warnings) {
		d.renderKeyAction(w, r, http.StatusUnprocessableEntity, a, f, nil)
		return
	}
	saved, err := f.change(r, d, change)
	var invalid *policy.InvalidError
	switch {
	case errors.Is(err, policy.ErrConflict):
		d.keyConflict(w, r, a, f, saved)
	case errors.As(err, &invalid):
		f.setError(invalid)
		d.renderKeyAction(w, r, http.StatusUnprocessableEntity, a, f, nil)
	case err != nil:
		d.FailStore(w, r, "change key", err)
	case f.secret != "":
		d.handOver(w, r, saved, f.secret)
	case saved.ID == "":
		d.Flash(r, "Deleted “"+page.Clip(before.Name, page.MaxName)+"”.", "")
		http.Redirect(w, r, d.Path("/keys"), http.StatusSeeOther)
	case saved.Version == f.version:
		d.Flash(r, "Nothing changed. Nothing was saved.", "")
		d.toKey(w, r, saved)
	default:
		d.Flash(r, a.done, d.UndoOf(r, saved.ID, saved.Version))
		d.toKey(w, r, saved)
	}
}

func (d *dashboard) previewKeyAction(w http.ResponseWriter, r *http.Request, a keyAction, f *actionForm,
	change app.KeyChange) {
	after := f.key
	change.Details(&after)
	var err error
	if f.preview, err = d.PreviewKey(r, f.set, f.key, after); err != nil {
		d.FailStore(w, r, "preview", err)
		return
	}
	d.renderKeyAction(w, r, http.StatusOK, a, f, nil)
}

func (d *dashboard) keyConflict(w http.ResponseWriter, r *http.Request, a keyAction, f *actionForm,
	current policy.Key) {
	f.key, f.version = current, current.Version
	var theirs []string
	last := audit.Query{Subject: current.ID, Count: 1}
	if page, err := d.Keys.Audit().List(r.Context(), last); err == nil &&
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
		Lead: append([]string{a.advice}, f.facts...), Conflict: conflict, Preview: f.preview,
		Form: &templates.Form{
			Action: d.keyPath(f.key) + "/" + r.PathValue("action"),
			Hidden: []templates.Hidden{{Name: "version", Value: strconv.FormatInt(f.version, 10)}},
			Error:  f.problem, Errors: f.errors(),
			After:  append(fields, form.ReasonField(f.reason)),
			Submit: a.submit, Preview: a.preview, Danger: a.danger, Warning: form.Warn(f.warnings),
			Cancel: templates.Choice{Text: "Cancel", Address: d.keyPath(f.key)},
		},
	}))
}
