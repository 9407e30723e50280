package auditlog

import (
	"errors"
	"net/http"
	"strconv"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/web/templates"
)

// find returns the change in the path, if it can be undone.
func (d *Pages) find(r *http.Request) (changes.Entry, error) {
	noEntry := page.Problem{
		Status: http.StatusNotFound, Heading: "No such change", Advice: "The address may be mistyped.",
	}
	number, err := strconv.ParseUint(r.PathValue("number"), 10, 64)
	if err != nil || number == 0 {
		return changes.Entry{}, noEntry
	}
	found, err := d.keys.AuditEntry(r.Context(), number)
	switch {
	case errors.Is(err, policy.ErrNotFound):
		return changes.Entry{}, noEntry
	case err != nil:
		return changes.Entry{}, page.Failed("read change", err)
	}
	if reason := app.Irreversible(found.Action); reason != "" {
		return changes.Entry{}, d.irreversible(reason)
	}
	return changes.Entry{AuditEntry: found, Changes: changes.OfEntry(found)}, nil
}

func (d *Pages) irreversible(reason string) error {
	return page.Problem{
		Status: http.StatusConflict, Heading: "Cannot undo this change", Advice: reason,
		Action: templates.Choice{Text: "Go to audit", Address: d.Path("/audit")},
	}
}

func (d *Pages) showUndo(w http.ResponseWriter, r *http.Request) error {
	e, err := d.find(r)
	if err != nil {
		return err
	}
	warnings, err := d.keys.UndoWarnings(r.Context(), e.AuditEntry)
	if err != nil {
		return page.Failed("check undo", err)
	}
	return d.renderUndo(w, r, http.StatusOK, e, form.Input{}, warnings, "")
}

func (d *Pages) renderUndo(w http.ResponseWriter, r *http.Request, status int, e changes.Entry,
	reason form.Input, warnings []string, problem string) error {
	back := make([]templates.Change, len(e.Changes))
	for i, c := range e.Changes {
		back[i] = templates.Change{What: c.What, Of: c.Of, Before: c.After, After: c.Before}
	}
	lead := "Takes back this change of " + page.Instant(e.Time).Text +
		" with a new one. What was changed since " +
		"stays, and what was revoked stays revoked."
	if _, more := subjectsOf(e.AuditEntry); e.Items > len(e.Changes) && e.Items > 1 {
		lead += " The first of " + page.Number(int64(len(e.Subjects))+more) + " records are shown."
	}
	return d.Render(w, r, status, templates.FormOf(templates.FormPage{
		Page: d.Page(r, "Undo"), Trail: []templates.Choice{{Text: "Audit", Address: d.Path("/audit")}},
		Heading: "Undo “" + Words(e) + "”",
		Lead:    []string{lead},
		Preview: &templates.Preview{Changes: back},
		Form: &templates.Form{
			Action: d.undoPath(e.Number),
			After:  []templates.FormField{form.ReasonField(reason)},
			Errors: form.CountErrors(reason), Error: problem, Warning: form.Warn(warnings),
			Submit: "Undo", Cancel: templates.Choice{Text: "Cancel", Address: d.Path("/audit")},
		},
	}))
}

// undo takes back the change in the path. The button of a toast sends no reason.
func (d *Pages) undo(w http.ResponseWriter, r *http.Request) error {
	if err := page.ParseForm(r); err != nil {
		return err
	}
	e, err := d.find(r)
	if err != nil {
		return err
	}
	reason := form.Typed(r.PostForm, "reason", form.MaxReasonInput)
	if form.Resumes(r) {
		return d.renderUndo(w, r, http.StatusOK, e, reason, nil, "")
	}
	if !r.PostForm.Has("reason") {
		reason = form.Input{Text: page.Clip("undo of “"+Words(e)+"”", policy.MaxReasonLen-1)}
	}
	reason.CheckReason()
	if form.CountErrors(reason) > 0 {
		return d.renderUndo(w, r, http.StatusUnprocessableEntity, e, reason, nil, "")
	}
	err = d.keys.Undo(r.Context(), e.AuditEntry, form.Accepts(r.PostForm),
		app.NewEdit(r.Context(), reason.Text))
	var invalid *policy.InvalidError
	var unconfirmed *app.UnconfirmedError
	switch {
	case errors.As(err, &unconfirmed):
		return d.renderUndo(w, r, http.StatusUnprocessableEntity, e, reason, unconfirmed.Warnings, "")
	case errors.As(err, &invalid):
		return d.renderUndo(w, r, http.StatusUnprocessableEntity, e, reason, nil,
			"Cannot undo: "+form.Invalid(nil, invalid.Fields))
	case errors.Is(err, registry.ErrNoUndo):
		return d.irreversible("Nothing of it can be taken back: it was changed since.")
	case errors.Is(err, policy.ErrConflict):
		return d.irreversible("A part of it was changed since. Edit the policies instead.")
	case err != nil:
		return page.Failed("undo", err)
	}
	subjects, _ := subjectsOf(e.AuditEntry)
	what, back, again := "Change", d.Path("/audit"), ""
	if e.Action == registry.KeyOverride || e.Action == registry.GroupOverride {
		what = "Override"
	}
	if len(subjects) == 1 {
		back = d.path(e, subjects[0])
		again = d.UndoOf(registry.KeyRevert, d.version(r, subjects[0].Record))
	}
	_, subject := sentence(e)
	d.Flash(r, what+" of "+subject+" undone.", again)
	return page.Leave(w, r, back)
}

// version returns the version of a record; 0 if it cannot be read.
func (d *Pages) version(r *http.Request, record string) int64 {
	if record == app.PolicyRecord {
		if set, err := d.keys.Set(r.Context()); err == nil {
			return set.Version
		}
		return 0
	}
	k, err := d.keys.Get(r.Context(), record)
	if err != nil {
		return 0
	}
	return k.Version
}
