package auditlog

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// reversal is a change that reverts an entry, with its differences as text.
type reversal struct {
	app.Reversal
	changes []templates.Change
}

func (d *Pages) reversalOf(ctx context.Context, e audit.Entry) (reversal, error) {
	r, err := app.ReversalOf(ctx, d.keys, e)
	switch {
	case err != nil:
		return reversal{}, err
	case r.After != nil:
		return reversal{r, changes.OfPolicy(r.Before, r.After)}, nil
	}
	return reversal{r, changes.OfKey(r.Set, r.KeyBefore, r.KeyAfter)}, nil
}

// findReversal returns the reversal of the entry in the path, or answers the request and
// returns false.
func (d *Pages) findReversal(w http.ResponseWriter, r *http.Request) (reversal, bool) {
	e, found, err := d.keys.Audit().Get(r.Context(), r.PathValue("entry"))
	switch {
	case err != nil && !errors.Is(err, audit.ErrPosition):
		d.FailStore(w, r, "read audit", err)
		return reversal{}, false
	case err != nil || !found:
		d.Fail(w, r, page.Problem{
			Status: http.StatusNotFound, Heading: "No such entry", Advice: "The address may be mistyped.",
		})
		return reversal{}, false
	}
	rev, err := d.reversalOf(r.Context(), e)
	if reason, ok := errors.AsType[app.IrreversibleError](err); ok {
		d.failIrreversible(w, r, string(reason))
		return reversal{}, false
	}
	if err != nil {
		d.FailStore(w, r, "prepare revert", err)
		return reversal{}, false
	}
	return rev, true
}

func (d *Pages) failIrreversible(w http.ResponseWriter, r *http.Request, reason string) {
	d.Fail(w, r, page.Problem{
		Status: http.StatusConflict, Heading: "Cannot revert this change", Advice: reason,
		Action: templates.Choice{Text: "Go to audit log", Address: d.Path("/audit")},
	})
}

func (d *Pages) showRevert(w http.ResponseWriter, r *http.Request) {
	if rev, ok := d.findReversal(w, r); ok {
		d.renderRevert(w, r, http.StatusOK, rev, rev.Version, form.Input{}, "")
	}
}

func (d *Pages) renderRevert(
	w http.ResponseWriter, r *http.Request, status int, rev reversal, version int64, reason form.Input,
	problem string,
) {
	e := rev.Entry
	view := templates.FormPage{
		Page: d.Page(r, "Revert"), Trail: []templates.Choice{{Text: "Audit", Address: d.Path("/audit")}},
		Heading: "Revert “" + e.Action + "” of", Name: SubjectWords(e),
		Lead: []string{
			"Restores the state before " + page.Instant(e.Time).Text +
				" with a new change. Later changes are reverted too: review them below.",
		},
		Preview: &templates.Preview{Changes: rev.changes},
	}
	if len(rev.changes) > 0 {
		view.Form = &templates.Form{
			Action: d.Path("/audit/" + e.ID + "/revert"),
			Hidden: []templates.Hidden{{Name: "version", Value: strconv.FormatInt(version, 10)}},
			After:  []templates.FormField{form.ReasonField(reason)},
			Errors: form.CountErrors(reason), Error: problem, Warning: form.Warn(rev.Warnings),
			Submit: "Revert", Cancel: templates.Choice{Text: "Cancel", Address: d.Path("/audit")},
		}
	} else {
		view.Lead = []string{"Nothing to revert."}
	}
	d.Render(w, r, status, templates.FormOf(view))
}

func (d *Pages) revert(w http.ResponseWriter, r *http.Request) {
	if !d.ParseForm(w, r) {
		return
	}
	version, err := form.ReadVersion(r.PostForm)
	if err != nil {
		d.Fail(w, r, page.Problem{Status: http.StatusBadRequest})
		return
	}
	rev, ok := d.findReversal(w, r)
	if !ok {
		return
	}
	reason := form.Typed(r.PostForm, "reason", form.MaxReasonInput)
	if form.Resumes(r) {
		d.renderRevert(w, r, http.StatusOK, rev, version, reason, "")
		return
	}
	reason.CheckReason()
	if form.CountErrors(reason) > 0 {
		d.renderRevert(w, r, http.StatusUnprocessableEntity, rev, version, reason, "")
		return
	}
	d.applyReversal(w, r, rev, version, reason)
}

func (d *Pages) applyReversal(
	w http.ResponseWriter, r *http.Request, rev reversal, version int64, reason form.Input,
) {
	saved, err := rev.Apply(
		r.Context(), version, app.NewEdit(r.Context(), reason.Text), form.Accepts(r.PostForm))
	var invalid *policy.InvalidError
	var unconfirmed *app.UnconfirmedError
	switch {
	case errors.As(err, &unconfirmed):
		rev.Warnings = unconfirmed.Warnings
		d.renderRevert(w, r, http.StatusUnprocessableEntity, rev, version, reason, "")
	case errors.Is(err, policy.ErrConflict):
		if current, prepareErr := d.reversalOf(r.Context(), rev.Entry); prepareErr == nil {
			rev = current
		}
		d.renderRevert(w, r, http.StatusConflict, rev, rev.Version, reason,
			"Someone else saved first. Nothing was saved. Review the changes again.")
	case errors.As(err, &invalid):
		d.renderRevert(w, r, http.StatusUnprocessableEntity, rev, version, reason,
			"Cannot revert: "+wording.Invalid(invalid))
	case err != nil:
		d.FailStore(w, r, "revert", err)
	default:
		d.Flash(r, "Reverted: "+rev.Entry.Action+" of "+SubjectWords(rev.Entry)+".",
			d.UndoOf(r, rev.Entry.Subject, saved))
		http.Redirect(w, r, d.subjectPath(rev.Entry), http.StatusSeeOther)
	}
}

// undo reverts the change of an entry, unless its subject has changed since. The Undo
// button of a toast sends it.
func (d *Pages) undo(w http.ResponseWriter, r *http.Request) {
	rev, ok := d.findReversal(w, r)
	if !ok {
		return
	}
	if rev.Version != rev.Entry.Version {
		d.renderRevert(w, r, http.StatusConflict, rev, rev.Version, form.Input{},
			"Someone else saved since. Nothing was undone. Review the changes below.")
		return
	}
	d.applyReversal(w, r, rev, rev.Version, form.Input{Text: "undo of " + rev.Entry.Action})
}
