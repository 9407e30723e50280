package policies

import (
	"context"
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
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/web/templates"
)

// MaxImport is the maximum size of an import form in bytes. Its encoding needs up to
// three bytes for a byte of the file.
const MaxImport = 4 << 20

func (d *pages) exportPolicies(w http.ResponseWriter, r *http.Request) error {
	set, err := d.keys.Set(r.Context())
	if err != nil {
		return page.Failed("read policy", err)
	}
	text, err := policydoc.Write(set)
	if err != nil {
		d.log.Error("export policy", "cause", err)
		return page.Problem{Status: http.StatusInternalServerError}
	}
	w.Header().Set("Content-Type", "application/yaml")
	w.Header().Set("Content-Disposition", `attachment; filename="tidegate-policies.yaml"`)
	_, _ = w.Write(text) // fails only after the client disconnected
	return nil
}

// policyImport is a policy document as the user typed it. It can be saved only after a
// page has shown its changes.
type policyImport struct {
	text    string
	reason  form.Input
	version int64  // version of the set that the document was compared with
	seen    string // hash of the text whose changes the page showed
	problem string
	preview *templates.Preview
	// warnings are to confirm before the save
	warnings []string
}

const savedFirst = "Someone else saved first. Nothing was saved. Review the changes again."

func (d *pages) showImport(w http.ResponseWriter, r *http.Request) error {
	return d.renderImport(w, r, http.StatusOK, policyImport{})
}

// importPolicies saves the file if its changes were shown, and shows them otherwise.
func (d *pages) importPolicies(w http.ResponseWriter, r *http.Request) error {
	if err := page.ParseForm(r); err != nil {
		return err
	}
	v := r.PostForm
	version, err := form.ReadVersion(v)
	if err != nil {
		return page.Problem{Status: http.StatusBadRequest}
	}
	set, err := d.keys.Set(r.Context())
	if err != nil {
		return page.Failed("read policy", err)
	}
	f := policyImport{
		text: v.Get("yaml"), reason: form.Typed(v, "reason", form.MaxReasonInput), version: set.Version,
		seen: v.Get("seen"),
	}
	next, status := f.read(set)
	if next != nil {
		if status, err = f.judge(r.Context(), d.keys, set, next); err != nil {
			return page.Failed("judge policy", err)
		}
	}
	button := v.Get("action")
	show := f.seen != f.hash() || button == changes.PreviewButton || button == page.Resume
	switch {
	case status != http.StatusOK || show:
	case version != set.Version:
		status, f.problem = http.StatusConflict, savedFirst
	case len(f.preview.Changes) > 0:
		if f.reason.CheckReason(); f.reason.Error == "" {
			return d.storeImport(w, r, set, next, f)
		}
		status = http.StatusUnprocessableEntity
	}
	if f.preview != nil {
		f.seen = f.hash()
	}
	return d.renderImport(w, r, status, f)
}

func (f *policyImport) hash() string {
	sum := sha256.Sum256([]byte(f.text))
	return hex.EncodeToString(sum[:])
}

// read applies the file to set and returns the result and an HTTP status. It stores the
// preview and the problem of the file in f.
func (f *policyImport) read(set *policy.Set) (*policy.Set, int) {
	var next *policy.Set
	file, err := policydoc.Read([]byte(f.text))
	if err == nil {
		next, err = file.Edit(set)
	}
	if err != nil {
		f.problem = page.Clip(form.Sentence(err.Error()), 1000)
		return nil, http.StatusUnprocessableEntity
	}
	f.preview = previewOf(set, next)
	if file.Version != 0 && file.Version != set.Version {
		f.problem = fmt.Sprintf("The file has version %d, the current version is %d. Nothing was saved. "+
			"Review the changes, then remove the version line to import anyway.", file.Version, set.Version)
		return nil, http.StatusConflict
	}
	return next, http.StatusOK
}

// judge stores the warnings of a save in f, or what the save would refuse.
func (f *policyImport) judge(ctx context.Context, keys *app.Registry, set, next *policy.Set) (int, error) {
	var err error
	f.warnings, err = keys.JudgePolicy(ctx, set, *next)
	if invalid, ok := errors.AsType[*policy.InvalidError](err); ok {
		f.problem = form.Invalid(next, invalid.Fields)
		return http.StatusUnprocessableEntity, nil
	}
	return http.StatusOK, err
}

// importedText returns the message after an import of changes.
func importedText(changes int) string {
	if changes == 1 {
		return "Imported 1 change."
	}
	return "Imported " + page.Number(int64(changes)) + " changes."
}

func (d *pages) storeImport(
	w http.ResponseWriter, r *http.Request, set, next *policy.Set, f policyImport,
) error {
	edit := app.NewEdit(r.Context(), f.reason.Text)
	saved, err := d.keys.SavePolicy(r.Context(), *next, set.Version, edit, form.Accepts(r.PostForm))
	var invalid *policy.InvalidError
	var unconfirmed *app.UnconfirmedError
	switch {
	case errors.As(err, &unconfirmed):
		f.warnings = unconfirmed.Warnings
		return d.renderImport(w, r, http.StatusUnprocessableEntity, f)
	case errors.Is(err, policy.ErrConflict):
		f.version, f.seen, f.problem = saved.Version, "", savedFirst
		f.preview = previewOf(saved, next)
		return d.renderImport(w, r, http.StatusConflict, f)
	case errors.As(err, &invalid):
		f.problem = form.Invalid(next, invalid.Fields)
		return d.renderImport(w, r, http.StatusUnprocessableEntity, f)
	case err != nil:
		return page.Failed("save policy", err)
	default:
		d.Flash(
			r, importedText(len(f.preview.Changes))+" Effective immediately.",
			d.UndoOf(registry.PolicySave, saved.Version),
		)
		return page.Redirect(w, r, d.Path("/policies"))
	}
}

func (d *pages) renderImport(w http.ResponseWriter, r *http.Request, status int, f policyImport) error {
	submit := "Preview changes"
	if f.seen != "" && f.seen == f.hash() && f.problem == "" && len(f.preview.Changes) > 0 {
		submit = "Import"
	}
	return d.Render(w, r, status, templates.FormOf(templates.FormPage{
		Page:    d.Page(r, "Import policies"),
		Trail:   []templates.Choice{{Text: "Policies", Address: d.Path("/policies")}},
		Heading: "Import policies",
		Lead: []string{"The file replaces all plans, routes and limits for all callers. Whatever it " +
			"omits is deleted. Start from an export. You see the changes before saving."},
		Preview: f.preview,
		Form: &templates.Form{
			Action: d.Path("/policies/import"), Error: f.problem, Errors: form.CountErrors(f.reason),
			Warning: form.Warn(f.warnings),
			Hidden: []templates.Hidden{{Name: "version", Value: strconv.FormatInt(f.version, 10)},
				{Name: "seen", Value: f.seen}},
			Fields: []templates.FormField{{
				ID: "yaml", Label: "Policy file (YAML)", Kind: templates.AreaField, Rows: "20",
				Max: strconv.Itoa(policydoc.MaxBytes), Field: templates.Field{Value: f.text},
			}},
			After: []templates.FormField{form.ReasonField(f.reason)}, Submit: submit,
			Cancel: templates.Choice{Text: "Cancel", Address: d.Path("/policies")},
		},
	}))
}
