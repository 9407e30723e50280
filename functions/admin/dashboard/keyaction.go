package dashboard

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// keyAction is a change of one key that has a page of its own.
type keyAction struct {
	heading string
	advice  string
	submit  string
	done    string // message on the next page
	danger  bool
	reason  bool // a reason is required
	// fields returns the fields of the form other than the reason; nil means none.
	fields func(f *keyForm) []templates.FormField
	// read validates the fields and adds them to the change; nil if there are none.
	read func(f *keyForm, change *app.KeyChange)
}

// keyActions holds the actions by their name in the address.
var keyActions = map[string]keyAction{
	app.EndOverride: {
		heading: "End the override of",
		advice:  "The plan's limits apply from the next check. Counts are kept.", submit: "End the override",
		done: "Override ended. The plan's limits apply.",
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
		heading: "Ban", advice: "Calls with this key get 429 until the ban ends.", submit: "Ban",
		danger: true, reason: true,
		done: "Banned.", fields: banFields, read: readBan,
	},
	app.Unban: {
		heading: "Unban", advice: "Calls with this key are allowed again, within its limits.",
		submit: "Unban", done: "Ban lifted.",
	},
	app.Rotate: {
		heading: "Rotate the secret of", submit: "Rotate secret", danger: true,
		fields: (*keyForm).graceFields, read: readGrace,
		advice: "The key gets a new secret. Plan, counts and history are kept. The previous secret " +
			"works until its grace period ends.",
	},
	app.ExpireSecret: {
		heading: "Expire the previous secret of", submit: "Expire previous secret", danger: true,
		advice: "Calls with the previous secret get 401 from the next check. This cannot be undone.",
		done:   "Previous secret expired.",
	},
	app.Delete: {
		heading: "Delete", submit: "Delete permanently",
		advice: "Deletes the key and its counts. Its change history is kept. This cannot be undone.",
		danger: true, done: "Deleted.",
	},
	app.Details: {
		heading: "Edit",
		advice:  "A new plan applies from the next check. Counts and an override are kept.",
		submit:  "Save", done: "Saved.", fields: (*keyForm).editFields, read: readDetails,
	},
}

func banFields(f *keyForm) []templates.FormField { return form.BanFields(f.until) }

func readBan(f *keyForm, change *app.KeyChange) { change.Until = f.until.BanEnd(time.Now()) }

func readGrace(f *keyForm, _ *app.KeyChange) { f.grace.CheckOption(graces) }

func readDetails(f *keyForm, change *app.KeyChange) {
	expires := f.until.Time(time.Now())
	opens := f.opens.Patterns(policy.MaxOpens)
	billing := f.billing.Billing()
	change.Details = func(k *policy.Key) {
		k.Name = f.name.Text
		k.Tags = f.tags.Tags()
		k.Plan = f.plan.Text
		k.Group = f.group.Text
		k.Billing = billing
		k.Opens = opens
		k.Expires = expires
	}
}

// loadAction returns the action that the path names and a form for its key. It fails if
// the action does not exist or does not apply to the key.
func (d *dashboard) loadAction(r *http.Request) (keyAction, *keyForm, error) {
	name := r.PathValue("action")
	a, known := keyActions[name]
	if !known {
		return a, nil, page.Problem{Status: http.StatusNotFound}
	}
	set, key, err := d.keyAndSet(r)
	if err != nil {
		return a, nil, err
	}
	if !(app.KeyChange{Do: name}).Fits(key.Status) {
		return a, nil, page.Problem{Status: http.StatusConflict, Heading: "This key is " + string(key.Status),
			Advice: "This action is not available for it."}
	}
	f := &keyForm{set: set, key: key, version: key.Version}
	if err := d.addSecretNotes(r, name, f); err != nil {
		return a, nil, page.Failed("read use of the previous secret", err)
	}
	return a, f, nil
}

func (d *dashboard) showKeyAction(w http.ResponseWriter, r *http.Request) error {
	a, f, err := d.loadAction(r)
	if err != nil {
		return err
	}
	f.name.Text = f.key.Name
	f.tags.Text = strings.Join(f.key.Tags, ", ")
	f.plan.Text = f.key.Plan
	f.group.Text = f.key.Group
	f.billing.Text = f.key.Billing.String()
	f.opens = form.PatternsInput(f.key.Opens)
	if r.PathValue("action") != app.Ban {
		f.until = form.NewUntil(f.key.Expires)
	}
	return d.renderKeyAction(w, r, http.StatusOK, a, f, nil)
}

func (d *dashboard) doKeyAction(w http.ResponseWriter, r *http.Request) error {
	if err := page.ParseForm(r); err != nil {
		return err
	}
	a, f, err := d.loadAction(r)
	if err != nil {
		return err
	}
	if f.version, err = form.ReadVersion(r.PostForm); err != nil {
		return page.Problem{Status: http.StatusBadRequest}
	}
	f.read(r.PostForm)
	if form.Resumes(r) {
		return d.renderKeyAction(w, r, http.StatusOK, a, f, nil)
	}
	if f.reason.Text != "" || a.reason {
		f.reason.CheckReason()
	}
	if f.errors() > 0 {
		return d.renderKeyAction(w, r, http.StatusUnprocessableEntity, a, f, nil)
	}
	return d.applyKeyAction(w, r, a, f)
}

// applyKeyAction validates the action's fields, then saves the change.
func (d *dashboard) applyKeyAction(w http.ResponseWriter, r *http.Request, a keyAction, f *keyForm) error {
	if f.key.Version != f.version {
		return d.renderKeyConflict(w, r, a, f, f.key)
	}
	change := app.KeyChange{Do: r.PathValue("action")}
	if a.read != nil {
		a.read(f, &change)
	}
	if f.errors() > 0 || !form.Accepted(r.PostForm, f.warnings) {
		return d.renderKeyAction(w, r, http.StatusUnprocessableEntity, a, f, nil)
	}
	saved, secret, err := d.changeKey(r, f, change)
	var invalid *policy.InvalidError
	switch {
	case errors.Is(err, policy.ErrConflict):
		return d.renderKeyConflict(w, r, a, f, saved)
	case errors.As(err, &invalid):
		f.setError(invalid)
		return d.renderKeyAction(w, r, http.StatusUnprocessableEntity, a, f, nil)
	case err != nil:
		return page.Failed("change key", err)
	case secret != "":
		return d.redirectToSecret(w, r, saved, secret)
	case saved.ID == "":
		d.Flash(r, "Deleted “"+page.Clip(f.key.Name, page.MaxName)+"”.", "")
		return page.Leave(w, r, d.Path("/keys"))
	case saved.Version == f.version && len(app.NotesOf(r.Context())) == 0:
		d.Flash(r, "Nothing changed. Nothing was saved.", "")
		return d.redirectToKey(w, r, saved)
	default:
		d.Flash(r, a.done, d.UndoOf(app.Action(change.Do), saved.Version))
		return d.redirectToKey(w, r, saved)
	}
}

// changeKey saves a change if the key still has the form's version. A rotation returns
// the new secret.
func (d *dashboard) changeKey(r *http.Request, f *keyForm, c app.KeyChange) (
	saved policy.Key, secret string, err error,
) {
	edit := app.NewEdit(r.Context(), f.reason.Text)
	if c.Do != app.Rotate {
		saved, err = d.Keys.Change(r.Context(), f.key.ID, f.version, c, edit)
		return saved, "", err
	}
	grace, err := time.ParseDuration(f.grace.Text)
	if err != nil {
		return f.key, "", err
	}
	saved, rotated, err := d.Keys.Rotate(r.Context(), f.key.ID, f.version, grace, edit)
	if err != nil {
		return saved, "", err
	}
	return saved, rotated.Reveal(), nil
}

// renderKeyConflict shows the form with the newest change of the key, which was saved
// meanwhile. The form is then based on the current key.
func (d *dashboard) renderKeyConflict(w http.ResponseWriter, r *http.Request, a keyAction, f *keyForm,
	current policy.Key) error {
	f.key = current
	f.version = current.Version
	var theirs []string
	by := ""
	if entries := d.History(r.Context(), current.ID, current.Version); len(entries) > 0 {
		e := entries[0]
		by = page.Clip(e.By.Name, page.MaxName)
		for _, c := range e.Changes {
			theirs = append(theirs, c.What+": "+c.Before+" → "+c.After)
		}
	}
	return d.renderKeyAction(w, r, http.StatusConflict, a, f, &templates.Conflict{
		Theirs: theirs,
		Yours:  []string{strings.ToLower(a.submit)},
		By:     by,
		Saved:  page.Instant(current.Updated),
		Keep:   d.keyPath(current),
	})
}

func (d *dashboard) renderKeyAction(w http.ResponseWriter, r *http.Request, status int, a keyAction,
	f *keyForm, conflict *templates.Conflict) error {
	name := page.Clip(f.key.Name, page.MaxName)
	var fields []templates.FormField
	if a.fields != nil {
		fields = a.fields(f)
	}
	return d.Render(w, r, status, templates.FormOf(templates.FormPage{
		Page:     d.Page(r, a.heading+" "+name),
		Trail:    d.keyTrail(f.key),
		Heading:  a.heading,
		Name:     name,
		Lead:     append([]string{a.advice}, f.facts...),
		Conflict: conflict,
		Form: &templates.Form{
			Action:  d.keyPath(f.key) + "/" + r.PathValue("action"),
			Hidden:  []templates.Hidden{{Name: "version", Value: strconv.FormatInt(f.version, 10)}},
			Error:   f.problem,
			Errors:  f.errors(),
			After:   append(fields, form.ReasonField(f.reason)),
			Submit:  a.submit,
			Danger:  a.danger,
			Warning: form.Warn(f.warnings),
			Cancel:  templates.Choice{Text: "Cancel", Address: d.keyPath(f.key)},
		},
	}))
}
