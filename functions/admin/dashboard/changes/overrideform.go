package changes

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// OverrideForm is an override as it was typed.
type OverrideForm struct {
	Version int64 // of the key that the edit is based on
	Limits  form.LimitList
	mode    form.Input
	until   form.Until
	Reason  form.Input
	problem string
}

// NewOverrideForm begins with what holds now.
func NewOverrideForm(k policy.Key, e policy.Effective) OverrideForm {
	f := OverrideForm{
		Version: k.Version, Limits: form.NewLimitList("limits", e.Limits),
		mode:  form.Input{Text: string(e.Mode)},
		until: form.NewUntil(time.Time{}),
	}
	if e.Source == "override" {
		f.until, f.Reason.Text = form.NewUntil(k.Override.Until), k.Override.Reason
	}
	return f
}

// ReadOverrideForm reads what a browser sent. It fails for a form that is not ours.
func ReadOverrideForm(values url.Values) (OverrideForm, error) {
	version, err := form.ReadVersion(values)
	if err != nil {
		return OverrideForm{}, err
	}
	f := OverrideForm{
		Version: version, mode: form.Typed(values, "mode", form.MaxInput),
		Reason: form.Typed(values, "reason", form.MaxReasonInput), until: form.ReadUntil(values),
	}
	f.Limits, err = form.ReadLimitList(values, "limits")
	return f, err
}

// Override returns what was typed. The form keeps what is wrong with it.
func (f *OverrideForm) Override(now time.Time) *policy.Override {
	o := &policy.Override{Mode: policy.Mode(f.mode.Text), Reason: strings.TrimSpace(f.Reason.Text)}
	f.mode.CheckOption(wording.ModeOptions())
	if o.Mode != policy.Off {
		o.Limits = f.Limits.Limits()
		if len(o.Limits) == 0 {
			f.Limits.Error = "Add at least one limit, or turn limits off."
		}
	}
	o.Until = f.until.Time(now)
	f.Reason.CheckReason()
	return o
}

// Errors counts the fields that are wrong.
func (f *OverrideForm) Errors() int {
	return f.Limits.ErrorCount() + f.until.ErrorCount() + form.CountErrors(f.mode, f.Reason)
}

// SetError notes what the store found wrong.
func (f *OverrideForm) SetError(invalid *policy.InvalidError) {
	for _, e := range invalid.Fields {
		switch {
		case f.Limits.SetError(e, "override.limits"):
		case e.Field == "override.reason":
			f.Reason.Error = form.Sentence(e.Message)
		case e.Field == "override.mode":
			f.mode.Error = form.Sentence(e.Message)
		case e.Field == "override.until":
			f.until.At.Error = form.Sentence(e.Message)
		default:
			f.problem = form.Sentence(e.Message)
		}
	}
}

// View is the form as it is shown.
func (f *OverrideForm) View() templates.Form {
	return templates.Form{
		Hidden: []templates.Hidden{{Name: "version", Value: strconv.FormatInt(f.Version, 10)}},
		Error:  f.problem, Errors: f.Errors(),
		Lists: []templates.LimitList{
			f.Limits.View("Limits", "A call is allowed when every limit admits it.")},
		Choices: form.LimitChoices(),
		After: append([]templates.FormField{form.ChoiceField("mode", "Mode", wording.ModeOptions(), f.mode)},
			append(form.UntilFields(f.until, "no end"),
				form.ReasonField(f.Reason))...),
		Preview: true, Submit: "Save",
	}
}
