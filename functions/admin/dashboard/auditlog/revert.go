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

// findReversal returns the reversal of the entry in the path.
func (d *Pages) findReversal(r *http.Request) (reversal, error) {
	e, found, err := d.keys.Audit().Get(r.Context(), r.PathValue("entry"))
	switch {
	case err != nil && !errors.Is(err, audit.ErrPosition):
		return reversal{}, page.Failed("read audit", err)
	case err != nil || !found:
		return reversal{}, page.Problem{
			Status: http.StatusNotFound, Heading: "No such entry", Advice: "The address may be mistyped.",
		}
	}
	rev, err := d.reversalOf(r.Context(), e)
	if reason, ok := errors.AsType[app.IrreversibleError](err); ok {
		return reversal{}, d.irreversible(string(reason))
	}
	if err != nil {
		return reversal{}, page.Failed("prepare revert", err)
	}
	return rev, nil
}

func (d *Pages) irreversible(reason string) error {
	return page.Problem{
		Status: http.StatusConflict, Heading: "Cannot revert this change", Advice: reason,
		Action: templates.Choice{Text: "Go to audit log", Address: d.Path("/audit")},
	}
}

func (d *Pages) showRevert(w http.ResponseWriter, r *http.Request) error {
	rev, err := d.findReversal(r)
	if err != nil {
		return err
	}
	return d.renderRevert(w, r, http.StatusOK, rev, rev.Version, form.Input{}, "")
}

func (d *Pages) renderRevert(
	w http.ResponseWriter, r *http.Request, status int, rev reversal, version int64, reason form.Input,
	problem string,
) error {
	e := rev.Entry
	view := templates.FormPage{
		Page: d.Page(r, "Revert"), Trail: []templates.Choice{{Text: "Audit", Address: d.Path("/audit")}},
		Heading: "Revert “" + Words(e, d.ChangesOf(e)) + "”",
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
	return d.Render(w, r, status, templates.FormOf(view))
}

func (d *Pages) revert(w http.ResponseWriter, r *http.Request) error {
	if err := page.ParseForm(r); err != nil {
		return err
	}
	version, err := form.ReadVersion(r.PostForm)
	if err != nil {
		return page.Problem{Status: http.StatusBadRequest}
	}
	rev, err := d.findReversal(r)
	if err != nil {
		return err
	}
	reason := form.Typed(r.PostForm, "reason", form.MaxReasonInput)
	if form.Resumes(r) {
		return d.renderRevert(w, r, http.StatusOK, rev, version, reason, "")
	}
	reason.CheckReason()
	if form.CountErrors(reason) > 0 {
		return d.renderRevert(w, r, http.StatusUnprocessableEntity, rev, version, reason, "")
	}
	return d.applyReversal(w, r, rev, version, reason)
}

func (d *Pages) applyReversal(
	w http.ResponseWriter, r *http.Request, rev reversal, version int64, reason form.Input,
) error {
	saved, err := rev.Apply(
		r.Context(), version, app.NewEdit(r.Context(), reason.Text), form.Accepts(r.PostForm))
	var invalid *policy.InvalidError
	var unconfirmed *app.UnconfirmedError
	switch {
	case errors.As(err, &unconfirmed):
		rev.Warnings = unconfirmed.Warnings
		return d.renderRevert(w, r, http.StatusUnprocessableEntity, rev, version, reason, "")
	case errors.Is(err, policy.ErrConflict):
		if current, prepareErr := d.reversalOf(r.Context(), rev.Entry); prepareErr == nil {
			rev = current
		}
		return d.renderRevert(w, r, http.StatusConflict, rev, rev.Version, reason,
			"Someone else saved first. Nothing was saved. Review the changes again.")
	case errors.As(err, &invalid):
		return d.renderRevert(w, r, http.StatusUnprocessableEntity, rev, version, reason,
			"Cannot revert: "+form.Invalid(nil, invalid.Fields))
	case err != nil:
		return page.Failed("revert", err)
	default:
		what := "Change"
		if rev.Entry.Action == audit.KeyOverride || rev.Entry.Action == audit.GroupOverride {
			what = "Override"
		}
		d.Flash(r, what+" of "+subjectWords(rev.Entry)+" undone.",
			d.UndoOf(r, rev.Entry.Subject, saved))
		return page.Redirect(w, r, d.subjectPath(rev.Entry))
	}
}

// undo reverts the change of an entry, unless its subject has changed since. The Undo
// button of a toast sends it.
func (d *Pages) undo(w http.ResponseWriter, r *http.Request) error {
	rev, err := d.findReversal(r)
	if err != nil {
		return err
	}
	if rev.Version != rev.Entry.Version {
		return d.renderRevert(w, r, http.StatusConflict, rev, rev.Version, form.Input{},
			"Someone else saved since. Nothing was undone. Review the changes below.")
	}
	undone := Words(rev.Entry, d.ChangesOf(rev.Entry))
	reason := form.Input{Text: page.Clip("undo of “"+undone+"”", policy.MaxReasonLen-1)}
	return d.applyReversal(w, r, rev, rev.Version, reason)
}
