package form

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// Resumes reports whether a form comes back as it was typed, only to be shown.
func Resumes(r *http.Request) bool { return r.PostForm.Get("action") == page.Resume }

// Input is a field's text and what is wrong with it.
type Input struct{ Text, Error string }

// ChooseFromList is what is wrong with a choice that was not offered.
const ChooseFromList = "Choose one from the list."

// Sentence makes a message of another package fit for a page.
func Sentence(message string) string {
	if message == "" {
		return "This is not valid."
	}
	if strings.HasPrefix(message, "is ") {
		message = "it " + message
	}
	return strings.ToUpper(message[:1]) + strings.TrimSuffix(message[1:], ".") + "."
}

// ErrForeign says that a request holds no form of this dashboard.
var ErrForeign = errors.New("unknown form field")

// ReadVersion reads the version that a form is based on. It fails for a form that is not
// ours.
func ReadVersion(values url.Values) (int64, error) {
	version, err := strconv.ParseInt(values.Get("version"), 10, 64)
	if err != nil || version < 0 {
		return 0, ErrForeign
	}
	return version, nil
}

// MaxReasonInput is above what a reason may have, so that one that is too long is refused
// and not cut.
const MaxReasonInput = policy.MaxReasonLen + 50

// Typed is a field as it was typed, bounded.
func Typed(values url.Values, name string, most int) Input {
	text := strings.ToValidUTF8(values.Get(name), "\u202e") // which every field refuses
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most])
	}
	return Input{Text: text}
}

// CheckOption notes a choice that was not offered.
func (in *Input) CheckOption(options []templates.Option) {
	if !IsOption(options, in.Text) {
		in.Error = ChooseFromList
	}
}

// CheckReason notes a reason that is missing or too long.
func (in *Input) CheckReason() {
	switch n := len([]rune(strings.TrimSpace(in.Text))); {
	case n == 0:
		in.Error = "Reason is required."
	case n > policy.MaxReasonLen:
		in.Error = "Use at most " + strconv.Itoa(policy.MaxReasonLen) + " characters."
	}
}

// AllowEmpty forgives a reason that is missing in a preview, which writes nothing.
func (in *Input) AllowEmpty() {
	if strings.TrimSpace(in.Text) == "" {
		in.Error = ""
	}
}

// CountErrors counts the fields that are wrong.
func CountErrors(fields ...Input) int {
	n := 0
	for _, in := range fields {
		if in.Error != "" {
			n++
		}
	}
	return n
}

// IsOption reports whether a choice was offered.
func IsOption(options []templates.Option, value string) bool {
	return slices.ContainsFunc(options, func(o templates.Option) bool { return o.Value == value })
}

// SetErrors shows the store's validation errors at the fields with their names. An error
// of a list's item belongs to the field of the list. SetErrors returns the last error that
// belongs to no field, or an empty string.
func SetErrors(fields map[string]*Input, invalid *policy.InvalidError) string {
	problem := ""
	for _, e := range invalid.Fields {
		name, _, _ := strings.Cut(e.Field, "[")
		if in := fields[name]; in != nil {
			in.Error = Sentence(e.Message)
		} else {
			problem = e.Field + ": " + Sentence(e.Message)
		}
	}
	return problem
}
