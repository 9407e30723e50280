package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// irreversible says why an entry cannot be reverted; empty if it can.
func irreversible(e audit.Entry) string {
	switch {
	case len(e.Before) == 0:
		return "It created this; delete it instead."
	case len(e.After) == 0:
		return "A deleted key's secret and counts are gone."
	case e.Action == "key.rotate":
		return "The old secret cannot come back."
	case e.Action == "key.reset":
		return "The counts are gone."
	}
	return ""
}

// reversal is a change that puts back what was before an entry.
type reversal struct {
	entry   audit.Entry
	version int64 // of the subject as it is now
	changes []templates.Change
	apply   func(ctx context.Context, version int64, edit policy.Edit) (int64, error)
}

var errGone = errors.New("what the entry changed does not exist any more")

// reversalOf makes the change that puts back what was before the entry. Whatever was changed since in the same key or in the policy is put back too:
// the changes say so.
func (d *dashboard) reversalOf(ctx context.Context, e audit.Entry) (reversal, error) {
	set, err := d.Keys.Set(ctx)
	if err != nil {
		return reversal{}, err
	}
	if e.Subject == policy.SetID {
		return d.setReversal(e, set)
	}
	return d.keyReversal(ctx, e, set)
}

func (d *dashboard) setReversal(e audit.Entry, current *policy.Set) (reversal, error) {
	old := policy.Set{}
	if err := json.Unmarshal(e.Before, &old); err != nil {
		return reversal{}, fmt.Errorf("read entry: %w", err)
	}
	for i, p := range old.Plans {
		if _, kept := current.Numbered(p.Number); !kept {
			old.Plans[i].Number = 0 // it is made anew
		}
	}
	return reversal{
		entry: e, version: current.Version, changes: setChanges(current, &old),
		apply: func(ctx context.Context, version int64, edit policy.Edit) (int64, error) {
			old.Version = version
			saved, err := d.Keys.SaveSet(ctx, old, edit)
			if saved == nil {
				return 0, err
			}
			return saved.Version, err
		},
	}, nil
}

func (d *dashboard) keyReversal(ctx context.Context, e audit.Entry, set *policy.Set) (reversal, error) {
	var old policy.Key
	if err := json.Unmarshal(e.Before, &old); err != nil {
		return reversal{}, fmt.Errorf("read entry: %w", err)
	}
	current, err := d.Keys.Get(ctx, e.Subject)
	if errors.Is(err, policy.ErrNotFound) {
		return reversal{}, errGone
	}
	if err != nil {
		return reversal{}, err
	}
	restore := func(k *policy.Key) {
		k.Name, k.Tags, k.Plan, k.Status = old.Name, old.Tags, old.Plan, old.Status
		k.Override, k.Expires, k.Banned = old.Override, old.Expires, old.Banned
	}
	after := current
	restore(&after)
	return reversal{
		entry: e, version: current.Version, changes: keyChanges(set, current, after),
		apply: func(ctx context.Context, version int64, edit policy.Edit) (int64, error) {
			saved, err := d.Keys.Update(ctx, e.Subject, version, "key.revert", edit, restore)
			return saved.Version, err
		},
	}, nil
}

// reversible finds the entry that the request's path names and its reversal, or answers the request.
func (d *dashboard) reversible(w http.ResponseWriter, r *http.Request) (reversal, bool) {
	e, found, err := d.Keys.Audit().Get(r.Context(), r.PathValue("entry"))
	switch {
	case err != nil && !errors.Is(err, audit.ErrPosition):
		d.failStore(w, r, "read audit", err)
		return reversal{}, false
	case err != nil || !found:
		d.fail(w, r, problem{status: http.StatusNotFound, heading: "No such entry", advice: "The address may be mistyped."})
		return reversal{}, false
	}
	if why := irreversible(e); why != "" {
		d.fail(w, r, problem{status: http.StatusConflict, heading: "This change cannot be reverted", advice: why, action: d.toAudit()})
		return reversal{}, false
	}
	rev, err := d.reversalOf(r.Context(), e)
	if errors.Is(err, errGone) {
		d.fail(w, r, problem{status: http.StatusConflict, heading: "This change cannot be reverted", advice: "The key was deleted since.",
			action: d.toAudit()})
		return reversal{}, false
	}
	if err != nil {
		d.failStore(w, r, "prepare revert", err)
		return reversal{}, false
	}
	return rev, true
}

func (d *dashboard) toAudit() templates.Choice {
	return templates.Choice{Text: "Go to the audit", Address: d.path("/audit")}
}

func (d *dashboard) showRevert(w http.ResponseWriter, r *http.Request) {
	if rev, ok := d.reversible(w, r); ok {
		d.renderRevert(w, r, http.StatusOK, rev, rev.version, input{}, "")
	}
}

func (d *dashboard) renderRevert(w http.ResponseWriter, r *http.Request, status int, rev reversal, version int64, reason input, wrong string) {
	e := rev.entry
	page := templates.FormPage{
		Page: d.page(r, "Revert"), Trail: []templates.Choice{{Text: "Audit", Address: d.path("/audit")}},
		Heading: "Revert “" + e.Action + "” of", Name: subjectWords(e),
		Lead: []string{
			"What was before " + instant(e.Time).Text + " is put back by a new change. Whatever changed since then is put back too: see below.",
		},
		Preview: &templates.Preview{Changes: rev.changes},
	}
	if len(rev.changes) > 0 {
		page.Form = &templates.Form{
			Action: d.path("/audit/" + e.ID + "/revert"),
			Hidden: []templates.Hidden{{Name: "version", Value: strconv.FormatInt(version, 10)}},
			After:  []templates.FormField{reasonField(reason)}, Errors: wrongs(reason), Error: wrong,
			Submit: "Revert", Cancel: templates.Choice{Text: "Cancel", Address: d.path("/audit")},
		}
	} else {
		page.Lead = []string{"There is nothing to revert: it is as it was before."}
	}
	d.render(w, r, status, templates.FormOf(page))
}

func (d *dashboard) revert(w http.ResponseWriter, r *http.Request) {
	if !d.parseForm(w, r) {
		return
	}
	version, err := readVersion(r.PostForm)
	if err != nil {
		d.fail(w, r, problem{status: http.StatusBadRequest})
		return
	}
	rev, ok := d.reversible(w, r)
	if !ok {
		return
	}
	reason := typed(r.PostForm, "reason", maxReasonInput)
	reason.reason()
	if wrongs(reason) > 0 {
		d.renderRevert(w, r, http.StatusUnprocessableEntity, rev, version, reason, "")
		return
	}
	d.applyReversal(w, r, rev, version, reason)
}

func (d *dashboard) applyReversal(w http.ResponseWriter, r *http.Request, rev reversal, version int64, reason input) {
	saved, err := rev.apply(r.Context(), version, d.edit(r, reason.text))
	var invalid *policy.InvalidError
	switch {
	case errors.Is(err, policy.ErrConflict):
		if again, prepareErr := d.reversalOf(r.Context(), rev.entry); prepareErr == nil {
			rev = again
		}
		d.renderRevert(w, r, http.StatusConflict, rev, rev.version, reason, "Something changed meanwhile; nothing was written. Look at the changes again.")
	case errors.As(err, &invalid):
		d.renderRevert(w, r, http.StatusUnprocessableEntity, rev, version, reason, "It cannot be put back: "+invalidWords(invalid))
	case err != nil:
		d.failStore(w, r, "revert", err)
	default:
		d.flash(r, "Reverted: "+rev.entry.Action+" of "+subjectWords(rev.entry)+".", d.undoOf(r, rev.entry.Subject, saved))
		http.Redirect(w, r, d.subjectPath(rev.entry), http.StatusSeeOther)
	}
}

func invalidWords(invalid *policy.InvalidError) string {
	words := ""
	for i, f := range invalid.Fields {
		if i == 3 {
			return words + "…"
		}
		words += f.Field + " " + f.Message + ". "
	}
	return clip(words, maxChange)
}

// undo takes back the change that the entry tells of, unless something changed since. It is what the button in a toast sends.
func (d *dashboard) undo(w http.ResponseWriter, r *http.Request) {
	rev, ok := d.reversible(w, r)
	if !ok {
		return
	}
	if rev.version != rev.entry.Version {
		d.renderRevert(w, r, http.StatusConflict, rev, rev.version, input{},
			"Something changed since; nothing was undone. Look at the changes, and revert if you like.")
		return
	}
	d.applyReversal(w, r, rev, rev.version, input{text: "undo of " + rev.entry.Action})
}

// undoOf is the address that undoes the change that made this version of a subject; empty if there is none.
func (d *dashboard) undoOf(r *http.Request, subject string, version int64) string {
	page, err := d.Keys.Audit().List(r.Context(), audit.Query{Subject: subject, Count: 5})
	if err != nil {
		return ""
	}
	for _, e := range page.Entries {
		if e.Version == version && irreversible(e) == "" {
			return d.path("/audit/" + e.ID + "/undo")
		}
	}
	return ""
}

// lastActor names who made the newest change of a subject; empty if nobody knows.
func (d *dashboard) lastActor(r *http.Request, subject string) string {
	page, err := d.Keys.Audit().List(r.Context(), audit.Query{Subject: subject, Count: 1})
	if err != nil || len(page.Entries) == 0 {
		return ""
	}
	return clip(page.Entries[0].By.Name, maxName)
}

func subjectWords(e audit.Entry) string {
	if e.Subject == policy.SetID {
		return "the policies"
	}
	if e.Name != "" {
		return clip(e.Name, maxName)
	}
	return e.Subject
}

func (d *dashboard) subjectPath(e audit.Entry) string {
	if e.Subject == policy.SetID {
		return d.path("/policies")
	}
	return d.path("/keys/" + e.Subject)
}
