package changes

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// OverrideForm is an override as the user typed it.
type OverrideForm struct {
	Version int64 // of the key when the form was shown
	limits  form.Limits
	until   form.Until
	Reason  form.Input
	problem string
}

// NewOverrideForm returns a form with the override o; nil begins with the limits that it
// would replace. version is that of the record that has the override.
func NewOverrideForm(version int64, o *policy.Override, replaces []limits.Limit) OverrideForm {
	f := OverrideForm{Version: version, until: form.NewUntil(time.Time{}),
		limits: form.Limits{Most: limits.MaxPlanLimits}}
	if o != nil {
		f.until, f.Reason.Text, replaces = form.NewUntil(o.Until), o.Reason, o.Limits
	}
	f.limits.Set(replaces)
	return f
}

// Replaceable returns the limits of e that an override replaces: those of the caller that
// are not in shadow.
func Replaceable(e policy.Effective) []limits.Limit {
	return slices.DeleteFunc(slices.Clone(e.Limits), func(l limits.Limit) bool {
		return l.Shadow || !l.Who.OfCaller()
	})
}

// table returns the fields but the expiry.
func (f *OverrideForm) table() form.Table {
	return form.Table{{Name: "limits", Limits: &f.limits},
		{Name: "reason", Input: &f.Reason, Max: form.MaxReasonInput}}
}

// ReadOverrideForm reads the form that a browser sent. It returns form.ErrForeign for a
// form of another page.
func ReadOverrideForm(values url.Values) (OverrideForm, error) {
	version, err := form.ReadVersion(values)
	if err != nil {
		return OverrideForm{}, err
	}
	f := NewOverrideForm(version, nil, nil)
	f.until = form.ReadUntil(values)
	f.table().Read(values)
	return f, nil
}

// Override returns the typed override. The form keeps the errors of its fields.
func (f *OverrideForm) Override(now time.Time) *policy.Override {
	o := &policy.Override{Limits: f.limits.List(), Until: f.until.End(now),
		Reason: strings.TrimSpace(f.Reason.Text)}
	f.Reason.CheckReason()
	return o
}

// Errors returns the number of fields with an error.
func (f *OverrideForm) Errors() int {
	return f.until.ErrorCount() + f.table().ErrorCount()
}

// SetError sets the errors of a validation at their fields.
func (f *OverrideForm) SetError(invalid *policy.InvalidError) {
	table := append(f.table(), f.until.Table("until")...)
	for _, e := range invalid.Fields {
		if !table.SetError(e, "override.") && !table.SetError(e, "") {
			f.problem = form.Sentence(e.Message)
		}
	}
}

// View returns the form for a page.
func (f *OverrideForm) View() templates.Form {
	return templates.Form{
		Hidden: []templates.Hidden{{Name: "version", Value: strconv.FormatInt(f.Version, 10)}},
		Error:  f.problem, Errors: f.Errors(),
		Fields: []templates.FormField{form.LimitsField("Each takes the place of the caller's limits with "+
			"the same on, except and unit; “no limit” lifts them. Blank: lifts all of the plan's.",
			f.limits)},
		After:   append(form.UntilFields(f.until, "never"), form.ReasonField(f.Reason)),
		Preview: true, Submit: "Save",
	}
}
