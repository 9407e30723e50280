package changes

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// OverrideForm is an override as the user typed it.
type OverrideForm struct {
	Version int64 // of the key when the form was shown
	Limits  form.LimitList
	until   form.Until
	Reason  form.Input
	problem string
}

// NewOverrideForm returns a form with the effective limits e of a key.
func NewOverrideForm(k policy.Key, e policy.Effective) OverrideForm {
	limits := slices.Clone(e.Limits)
	for i := range limits {
		limits[i].Shadow = limits[i].Shadow || e.Mode == policy.Shadow
	}
	f := OverrideForm{Version: k.Version, Limits: form.NewLimitList("limits", limits),
		until: form.NewUntil(time.Time{})}
	if e.Source == "override" {
		f.until, f.Reason.Text = form.NewUntil(k.Override.Until), k.Override.Reason
	}
	return f
}

// table returns the fields but the limits and the expiry.
func (f *OverrideForm) table() form.Table {
	return form.Table{{Name: "reason", Input: &f.Reason, Max: form.MaxReasonInput}}
}

// ReadOverrideForm reads the form that a browser sent. It returns form.ErrForeign for a
// form of another page.
func ReadOverrideForm(values url.Values) (OverrideForm, error) {
	version, err := form.ReadVersion(values)
	if err != nil {
		return OverrideForm{}, err
	}
	f := OverrideForm{Version: version, until: form.ReadUntil(values)}
	f.table().Read(values)
	f.Limits, err = form.ReadLimitList(values, "limits")
	return f, err
}

// Override returns the typed override. The form keeps the errors of its fields.
func (f *OverrideForm) Override(now time.Time) *policy.Override {
	o := &policy.Override{Limits: f.Limits.Limits(), Until: f.until.End(now),
		Reason: strings.TrimSpace(f.Reason.Text)}
	f.Reason.CheckReason()
	return o
}

// Errors returns the number of fields with an error.
func (f *OverrideForm) Errors() int {
	return f.Limits.ErrorCount() + f.until.ErrorCount() + f.table().ErrorCount()
}

// SetError sets the errors of a validation at their fields.
func (f *OverrideForm) SetError(invalid *policy.InvalidError) {
	table := append(f.table(), f.until.Table("until")...)
	for _, e := range invalid.Fields {
		if !f.Limits.SetError(e, "override.limits") && !table.SetError(e, "override.") {
			f.problem = form.Sentence(e.Message)
		}
	}
}

// View returns the form for a page.
func (f *OverrideForm) View() templates.Form {
	return templates.Form{
		Hidden: []templates.Hidden{{Name: "version", Value: strconv.FormatInt(f.Version, 10)}},
		Error:  f.problem, Errors: f.Errors(),
		Lists: []templates.LimitList{
			f.Limits.View("Limits", "A call passes only if all of these have room. Blank: no limits.")},
		Samples: form.LimitSamples(),
		After:   append(form.UntilFields(f.until, "never"), form.ReasonField(f.Reason)),
		Preview: true, Submit: "Save",
	}
}
