package dashboard

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// overrideForm is an override as it was typed.
type overrideForm struct {
	version int64 // of the key that the edit is based on
	limits  form.LimitList
	mode    form.Input
	until   form.Until
	reason  form.Input
	wrong   string
}

// newOverrideForm begins with what holds now.
func newOverrideForm(k policy.Key, e policy.Effective) overrideForm {
	f := overrideForm{
		version: k.Version, limits: form.NewLimitList("limits", e.Limits),
		mode:  form.Input{Text: string(e.Mode)},
		until: form.NewUntil(time.Time{}),
	}
	if e.Source == "override" {
		f.until, f.reason.Text = form.NewUntil(k.Override.Until), k.Override.Reason
	}
	return f
}

// readOverrideForm reads what a browser sent. It fails for a form that is not ours.
func readOverrideForm(values url.Values) (overrideForm, error) {
	version, err := form.ReadVersion(values)
	if err != nil {
		return overrideForm{}, err
	}
	f := overrideForm{
		version: version, mode: form.Typed(values, "mode", form.MaxInput),
		reason: form.Typed(values, "reason", form.MaxReasonInput), until: form.ReadUntil(values),
	}
	f.limits, err = form.ReadLimitList(values, "limits")
	return f, err
}

// override returns what was typed. The form keeps what is wrong with it.
func (f *overrideForm) override(now time.Time) *policy.Override {
	o := &policy.Override{Mode: policy.Mode(f.mode.Text), Reason: strings.TrimSpace(f.reason.Text)}
	f.mode.CheckOption(changes.ModeOptions())
	if o.Mode != policy.Off {
		o.Limits = f.limits.Limits()
		if len(o.Limits) == 0 {
			f.limits.Error = "Add at least one limit, or turn limits off."
		}
	}
	o.Until = f.until.Time(now)
	f.reason.CheckReason()
	return o
}

func (f *overrideForm) errors() int {
	return f.limits.ErrorCount() + f.until.ErrorCount() + form.CountErrors(f.mode, f.reason)
}

// setError notes what the store found wrong.
func (f *overrideForm) setError(invalid *policy.InvalidError) {
	for _, e := range invalid.Fields {
		switch {
		case f.limits.SetError(e, "override.limits"):
		case e.Field == "override.reason":
			f.reason.Error = form.Sentence(e.Message)
		case e.Field == "override.mode":
			f.mode.Error = form.Sentence(e.Message)
		case e.Field == "override.until":
			f.until.At.Error = form.Sentence(e.Message)
		default:
			f.wrong = form.Sentence(e.Message)
		}
	}
}

func (f *overrideForm) view() templates.Form {
	return templates.Form{
		Hidden: []templates.Hidden{{Name: "version", Value: strconv.FormatInt(f.version, 10)}},
		Error:  f.wrong, Errors: f.errors(),
		Lists: []templates.LimitList{
			f.limits.View("Limits", "A call is allowed when every limit admits it.")},
		Choices: form.LimitChoices(),
		After: append([]templates.FormField{form.ChoiceField("mode", "Mode", changes.ModeOptions(), f.mode)},
			append(form.UntilFields(f.until, "no end"),
				form.ReasonField(f.reason))...),
		Preview: true, Submit: "Save",
	}
}
