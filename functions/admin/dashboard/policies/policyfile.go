package policies

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/web/templates"
)

// MaxImport bounds the form of a file: every character that means something in a form
// takes three.
const MaxImport = 4 << 20

func (d *pages) exportPolicies(w http.ResponseWriter, r *http.Request) {
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		d.FailStore(w, r, "read policy", err)
		return
	}
	text, err := policydoc.Write(set)
	if err != nil {
		d.Log.Error("export policy", "cause", err)
		d.Fail(w, r, page.Problem{Status: http.StatusInternalServerError})
		return
	}
	w.Header().Set("Content-Type", "application/yaml")
	w.Header().Set("Content-Disposition", `attachment; filename="tidegate-policies.yaml"`)
	_, _ = w.Write(text) // fails only when nobody listens any more
}

// policyImport is a file as it was typed. It is saved once its changes were seen: seen is
// the hash of what they were shown of.
type policyImport struct {
	text    string
	reason  form.Input
	version int64 // of the Set that the changes were shown against
	seen    string
	problem string
	preview *templates.Preview
}

func (d *pages) showImport(w http.ResponseWriter, r *http.Request) {
	d.renderImport(w, r, http.StatusOK, policyImport{})
}

// importPolicies shows what the file changes, and when that was seen, saves it.
func (d *pages) importPolicies(w http.ResponseWriter, r *http.Request) {
	if !d.ParseForm(w, r) {
		return
	}
	v := r.PostForm
	version, err := form.ReadVersion(v)
	if err != nil {
		d.Fail(w, r, page.Problem{Status: http.StatusBadRequest})
		return
	}
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		d.FailStore(w, r, "read policy", err)
		return
	}
	f := policyImport{
		text: v.Get("yaml"), reason: form.Typed(v, "reason", form.MaxReasonInput), version: set.Version,
		seen: v.Get("seen"),
	}
	next, status := f.read(set)
	button := v.Get("action")
	again := f.seen != f.hash() || button == changes.PreviewButton || button == page.Resume
	switch {
	case status != http.StatusOK || again:
	case version != set.Version:
		status, f.problem = http.StatusConflict,
			"Someone else saved first. Nothing was saved. Review the changes again."
	case len(f.preview.Changes) > 0:
		if f.reason.CheckReason(); f.reason.Error == "" {
			d.putImport(w, r, set, next, f)
			return
		}
		status = http.StatusUnprocessableEntity
	}
	if f.preview != nil {
		f.seen = f.hash()
	}
	d.renderImport(w, r, status, f)
}

func (f *policyImport) hash() string {
	sum := sha256.Sum256([]byte(f.text))
	return hex.EncodeToString(sum[:])
}

// read reads the file as an edit of the Set, notes what is wrong with it, and what it
// changes.
func (f *policyImport) read(set *policy.Set) (*policy.Set, int) {
	file, err := policydoc.Read([]byte(f.text))
	if err != nil {
		f.problem = page.Clip(form.Sentence(err.Error()), 1000)
		return nil, http.StatusUnprocessableEntity
	}
	next, err := file.Edit(set)
	if err != nil {
		f.problem = page.Clip(form.Sentence(err.Error()), 1000)
		return nil, http.StatusUnprocessableEntity
	}
	f.preview = &templates.Preview{Changes: changes.OfPolicy(set, next)}
	if file.Version != 0 && file.Version != set.Version {
		f.problem = fmt.Sprintf("The file has version %d, the current version is %d. Nothing was saved. "+
			"Review the changes, then remove the version line to import anyway.", file.Version, set.Version)
		return nil, http.StatusConflict
	}
	return next, http.StatusOK
}

// imported says how many changes an import made.
func imported(changes int) string {
	if changes == 1 {
		return "Imported 1 change."
	}
	return "Imported " + page.Number(int64(changes)) + " changes."
}

func (d *pages) putImport(w http.ResponseWriter, r *http.Request, set, next *policy.Set, f policyImport) {
	saved, err := d.Keys.SavePolicy(r.Context(), *next, set.Version, app.NewEdit(r.Context(), f.reason.Text))
	var invalid *policy.InvalidError
	switch {
	case errors.Is(err, policy.ErrConflict):
		f.version, f.seen, f.problem = saved.Version, "",
			"Someone else saved first. Nothing was saved. Review the changes again."
		f.preview = &templates.Preview{Changes: changes.OfPolicy(saved, next)}
		d.renderImport(w, r, http.StatusConflict, f)
	case errors.As(err, &invalid):
		f.problem = wording.Invalid(invalid)
		d.renderImport(w, r, http.StatusUnprocessableEntity, f)
	case errors.Is(err, policy.ErrUnfinished):
		d.failUnfinished(w, r, err)
	case err != nil:
		d.FailStore(w, r, "save policy", err)
	default:
		d.Flash(
			r, imported(len(changes.OfPolicy(set, next)))+" Effective immediately.",
			d.UndoOf(r, policyset.SetID, saved.Version),
		)
		http.Redirect(w, r, d.Path("/policies"), http.StatusSeeOther)
	}
}

func (d *pages) renderImport(w http.ResponseWriter, r *http.Request, status int, f policyImport) {
	submit := "Preview changes"
	if f.seen != "" && f.seen == f.hash() && f.problem == "" && len(f.preview.Changes) > 0 {
		submit = "Import"
	}
	d.Render(w, r, status, templates.FormOf(templates.FormPage{
		Page:    d.Page(r, "Import policies"),
		Trail:   []templates.Choice{{Text: "Policies", Address: d.Path("/policies")}},
		Heading: "Import policies",
		Lead: []string{"The file replaces plans, route rules and limits for all callers. What it leaves " +
			"out is removed. " +
			"Start from an export. You see the changes before saving."},
		Preview: f.preview,
		Form: &templates.Form{
			Action: d.Path("/policies/import"), Error: f.problem, Errors: form.CountErrors(f.reason),
			Hidden: []templates.Hidden{{Name: "version", Value: strconv.FormatInt(f.version, 10)},
				{Name: "seen", Value: f.seen}},
			Fields: []templates.FormField{{
				ID: "yaml", Label: "File, YAML", Kind: templates.AreaField, Rows: "20",
				Max:   strconv.Itoa(policydoc.MaxBytes),
				Field: templates.Field{Value: f.text},
			}},
			After: []templates.FormField{form.ReasonField(f.reason)}, Submit: submit,
			Cancel: templates.Choice{Text: "Cancel", Address: d.Path("/policies")},
		},
	}))
}
