package dashboard

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// overrideForm is an override as it was typed.
type overrideForm struct {
	version int64 // of the key that the edit is based on
	limits  limitList
	mode    input
	until   untilInput
	reason  input
	wrong   string
}

// newOverrideForm begins with what holds now.
func newOverrideForm(k policy.Key, e policy.Effective) overrideForm {
	f := overrideForm{version: k.Version, limits: newLimitList("limits", e.Limits), mode: input{text: string(e.Mode)}, until: newUntil(time.Time{})}
	if e.Source == "override" {
		f.until, f.reason.text = newUntil(k.Override.Until), k.Override.Reason
	}
	return f
}

// readVersion reads the version that a form is based on. It fails for a form that is not
// ours.
func readVersion(values url.Values) (int64, error) {
	version, err := strconv.ParseInt(values.Get("version"), 10, 64)
	if err != nil || version < 0 {
		return 0, errForeignForm
	}
	return version, nil
}

// readOverrideForm reads what a browser sent. It fails for a form that is not ours.
func readOverrideForm(values url.Values) (overrideForm, error) {
	version, err := readVersion(values)
	if err != nil {
		return overrideForm{}, err
	}
	f := overrideForm{version: version, mode: typed(values, "mode", maxInput), reason: typed(values, "reason", maxReasonInput), until: readUntil(values)}
	f.limits, err = readLimitList(values, "limits")
	return f, err
}

// maxReasonInput is above what a reason may have, so that one that is too long is refused
// and not cut.
const maxReasonInput = policy.MaxReasonLen + 50

// typed is a field as it was typed, bounded.
func typed(values url.Values, name string, most int) input {
	text := strings.ToValidUTF8(values.Get(name), "\u202e") // which every field refuses
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most])
	}
	return input{text: text}
}

func readUntil(values url.Values) untilInput {
	return untilInput{choice: typed(values, "lasts", maxInput), at: typed(values, "until", maxInput)}
}

// override returns what was typed. The form keeps what is wrong with it.
func (f *overrideForm) override(now time.Time) *policy.Override {
	o := &policy.Override{Mode: policy.Mode(f.mode.text), Reason: strings.TrimSpace(f.reason.text)}
	f.mode.oneOf(modeOptions())
	if o.Mode != policy.Off {
		o.Limits = f.limits.limits()
		if len(o.Limits) == 0 {
			f.limits.wrong = "A key needs at least one limit, unless nothing is counted."
		}
	}
	o.Until = f.until.time(now)
	f.reason.reason()
	return o
}

// oneOf notes a choice that was not offered.
func (in *input) oneOf(options []templates.Option) {
	for _, o := range options {
		if o.Value == in.text {
			return
		}
	}
	in.wrong = chooseFromList
}

// reason notes a reason that is missing or too long.
func (in *input) reason() {
	switch n := len([]rune(strings.TrimSpace(in.text))); {
	case n == 0:
		in.wrong = "Say why, for those who find this later."
	case n > policy.MaxReasonLen:
		in.wrong = "Use at most " + strconv.Itoa(policy.MaxReasonLen) + " characters."
	}
}

// allowEmpty forgives a reason that is missing in a preview, which writes nothing.
func (in *input) allowEmpty() {
	if strings.TrimSpace(in.text) == "" {
		in.wrong = ""
	}
}

func (f *overrideForm) errors() int {
	return f.limits.errors() + f.until.errors() + wrongs(f.mode, f.reason)
}

// wrongs counts the fields that are wrong.
func wrongs(fields ...input) int {
	n := 0
	for _, in := range fields {
		if in.wrong != "" {
			n++
		}
	}
	return n
}

// setError notes what the store found wrong.
func (f *overrideForm) setError(invalid *policy.InvalidError) {
	for _, e := range invalid.Fields {
		switch {
		case f.limits.setError(e, "override.limits"):
		case e.Field == "override.reason":
			f.reason.wrong = sentence(e.Message)
		case e.Field == "override.mode":
			f.mode.wrong = sentence(e.Message)
		case e.Field == "override.until":
			f.until.at.wrong = sentence(e.Message)
		default:
			f.wrong = sentence(e.Message)
		}
	}
}

func modeOptions() []templates.Option {
	return []templates.Option{
		{Value: string(policy.Enforce), Text: "enforce: calls over a limit are denied"},
		{Value: string(policy.Shadow), Text: "shadow: count and record, deny nothing"},
		{Value: string(policy.Off), Text: "off: count nothing, let every call pass"},
	}
}

func (f *overrideForm) view() templates.Form {
	return templates.Form{
		Hidden: []templates.Hidden{{Name: "version", Value: strconv.FormatInt(f.version, 10)}},
		Error:  f.wrong, Errors: f.errors(),
		Lists:   []templates.LimitList{f.limits.view("Limits", "A call is allowed when every limit admits it.")},
		Choices: limitChoices(),
		After: append([]templates.FormField{choice("mode", "Mode", modeOptions(), f.mode)}, append(untilFields(f.until, "until somebody ends it"),
			reasonField(f.reason))...),
		Preview: true, Submit: "Save",
	}
}

func choice(name, label string, options []templates.Option, in input) templates.FormField {
	return templates.FormField{ID: name, Label: label, Kind: templates.ChoiceField, Options: options, Field: field(in)}
}

func text(name, label, sample string, most int, in input) templates.FormField {
	return templates.FormField{ID: name, Label: label, Kind: templates.TextField, Sample: sample, Max: strconv.Itoa(most), Field: clipped(in)}
}

// clipped is a field whose text may hold what must not be shown as it is.
func clipped(in input) templates.Field {
	return templates.Field{Value: clip(in.text, maxChange*10), Error: in.wrong}
}

func untilFields(u untilInput, never string) []templates.FormField {
	at := text("until", "Time, UTC", "2026-12-31 18:00", maxInput, u.at)
	return []templates.FormField{choice("lasts", "Lasts", untilOptions(never), u.choice), at}
}

func reasonField(in input) templates.FormField {
	return text("reason", "Reason", "why, and where to read more", policy.MaxReasonLen, in)
}

// overrideWords says all of an override but its reason.
func overrideWords(o *policy.Override) string {
	if o == nil {
		return "the plan's"
	}
	words := limitsWords(o.Limits)
	switch o.Mode {
	case policy.Shadow:
		words += ", in shadow"
	case policy.Off:
		words = "no limits"
	case policy.Enforce:
	}
	if !o.Until.IsZero() {
		words += ", until " + instant(o.Until).Text
	}
	return words
}
