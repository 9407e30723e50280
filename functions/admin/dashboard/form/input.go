// Package form reads the inputs of the dashboard's forms, validates them, and returns the
// fields that show them again with their errors: limits, expiries, lists, numbers and
// reasons. Package dashboard and the packages below it import it. It must know no page,
// and it reads nothing from Valkey.
package form

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// Bounds of typed text, in characters.
const (
	// MaxInput exceeds the length of any number or time zone.
	MaxInput = 80
	// MaxReasonInput exceeds the longest reason, so that a longer one gets an error
	// instead of being cut.
	MaxReasonInput = policy.MaxReasonLen + 50
	// MaxTagsInput exceeds the length of the most and longest tags, as TagsField shows them.
	MaxTagsInput = 1000
	maxTagsText  = 600
	// maxShown bounds the text that a field shows again.
	maxShown = 4000
)

// Checked is the value of a checked box.
const Checked = "yes"

// ChooseFromList is the error of a value that is none of the options.
const ChooseFromList = "Choose one from the list."

// Input is the typed text of a field, and its error.
type Input struct{ Text, Error string }

// Typed returns the named field, shortened to at most maxLen characters.
func Typed(values url.Values, name string, maxLen int) Input {
	text := strings.ToValidUTF8(values.Get(name), "\u202e") // no field accepts this character
	if runes := []rune(text); len(runes) > maxLen {
		text = string(runes[:maxLen])
	}
	return Input{Text: text}
}

// CheckOption sets an error if the input is none of the options.
func (in *Input) CheckOption(options []templates.Option) {
	if !IsOption(options, in.Text) {
		in.Error = ChooseFromList
	}
}

// IsOption reports whether value is the value of an option.
func IsOption(options []templates.Option, value string) bool {
	return slices.ContainsFunc(options, func(o templates.Option) bool { return o.Value == value })
}

// OptionText returns the text of the option with a value; empty if there is none.
func OptionText(options []templates.Option, value string) string {
	for _, o := range options {
		if o.Value == value {
			return o.Text
		}
	}
	return ""
}

// Tags returns the typed tags, which commas separate, without blank ones.
func (in *Input) Tags() []string {
	var tags []string
	for tag := range strings.SplitSeq(in.Text, ",") {
		if tag = strings.TrimSpace(tag); tag != "" {
			tags = append(tags, tag)
		}
	}
	return tags
}

// CheckReason sets an error if the reason is missing or too long.
func (in *Input) CheckReason() {
	switch n := len([]rune(strings.TrimSpace(in.Text))); {
	case n == 0:
		in.Error = "Reason is required."
	case n > policy.MaxReasonLen:
		in.Error = "Use at most " + strconv.Itoa(policy.MaxReasonLen) + " characters."
	}
}

// AllowEmpty clears the error of an empty input, such as the reason of a preview.
func (in *Input) AllowEmpty() {
	if strings.TrimSpace(in.Text) == "" {
		in.Error = ""
	}
}

var (
	ungrouped = regexp.MustCompile(`^[0-9]+$`)
	grouped   = regexp.MustCompile(`^[0-9]{1,3}([,_ \x{a0}\x{2009}\x{202f}][0-9]{3})+$`)
)

// Whole returns the typed whole number, which may have separators between thousands. It
// sets an error unless the number is from least to most. missing is the error of empty
// text.
func (in *Input) Whole(missing string, least, most int64) int64 {
	text := strings.TrimSpace(in.Text)
	if text == "" {
		in.Error = missing
		return 0
	}
	if !ungrouped.MatchString(text) && !grouped.MatchString(text) {
		in.Error = "Enter a whole number, such as 100 or 1,000."
		return 0
	}
	digits := strings.Map(func(c rune) rune {
		if c < '0' || c > '9' {
			return -1
		}
		return c
	}, text)
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < least || n > most {
		in.Error = "Must be " + page.Number(least) + " to " + page.Number(most) + "."
	}
	return n
}

// CountErrors returns the number of inputs with an error.
func CountErrors(fields ...Input) int {
	n := 0
	for _, in := range fields {
		if in.Error != "" {
			n++
		}
	}
	return n
}

// Sentence turns an error message, such as "is too long", into a sentence.
func Sentence(message string) string {
	if message == "" {
		return "This value is invalid."
	}
	if strings.HasPrefix(message, "is ") {
		message = "it " + message
	}
	_, first := utf8.DecodeRuneInString(message)
	return strings.ToUpper(message[:first]) + strings.TrimSuffix(message[first:], ".") + "."
}

// Field returns a field with the typed text of an input and its error.
func Field(in Input) templates.Field { return templates.Field{Value: in.Text, Error: in.Error} }

// ChoiceField returns a field that offers options.
func ChoiceField(name, label string, options []templates.Option, in Input) templates.FormField {
	return templates.FormField{
		ID: name, Label: label, Kind: templates.ChoiceField, Options: options, Field: Field(in),
	}
}

// TextField returns a field for a line of at most maxLen characters. sample is its
// placeholder.
func TextField(name, label, sample string, maxLen int, in Input) templates.FormField {
	return templates.FormField{
		ID: name, Label: label, Kind: templates.TextField, Sample: sample, Max: strconv.Itoa(maxLen),
		Field: templates.Field{Value: page.Clip(in.Text, maxShown), Error: in.Error},
	}
}

// TagsField returns the field for tags.
func TagsField(in Input) templates.FormField {
	return TextField("tags", "Tags, separated by commas", "team-a, beta", maxTagsText, in)
}

// ReasonField returns the field for the reason of a change.
func ReasonField(in Input) templates.FormField {
	return TextField("reason", "Reason", "Why, with a link if possible", policy.MaxReasonLen, in)
}

// Resumes reports whether a request asks to show the form again as it was typed.
func Resumes(r *http.Request) bool { return r.PostForm.Get("action") == page.Resume }

// ErrForeign is the error of a form that this page did not produce.
var ErrForeign = errors.New("unknown form field")

// ReadVersion returns the version on which an edit is based, or ErrForeign.
func ReadVersion(values url.Values) (int64, error) {
	version, err := strconv.ParseInt(values.Get("version"), 10, 64)
	if err != nil || version < 0 {
		return 0, ErrForeign
	}
	return version, nil
}

// acceptedField is the field that confirms warnings. Its value is their digest, so that
// it confirms no others.
const acceptedField = "accepted"

// Warn returns warnings with the field that confirms them; nil for no warnings.
func Warn(texts []string) *templates.Warn {
	if len(texts) == 0 {
		return nil
	}
	return &templates.Warn{Texts: texts,
		Accepted: templates.Hidden{Name: acceptedField, Value: Digest(texts)}}
}

// Accepted reports whether a form confirms these warnings. No warnings need no
// confirmation.
func Accepted(values url.Values, texts []string) bool {
	return len(texts) == 0 || values.Get(acceptedField) == Digest(texts)
}

// Accepts returns a function that reports whether a form confirms warnings.
func Accepts(values url.Values) func(texts []string) bool {
	return func(texts []string) bool { return Accepted(values, texts) }
}

// Digest returns a short text that differs for other texts.
func Digest(texts []string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\n")))
	return hex.EncodeToString(sum[:16])
}

// Billing returns the billing day in the text.
func (in *Input) Billing() limits.Billing {
	b, err := limits.ParseBilling(in.Text)
	if err != nil {
		in.Error = page.Clip("The billing day "+err.Error(), page.MaxName) + "."
	}
	return b
}

// BillingField returns the field of a billing day.
func BillingField(in Input) templates.FormField {
	field := TextField("billing", "Billing day", "1 (UTC)", MaxInput, in)
	field.Hint = "Limits per billing month begin on it: a day of the month, such as 15 (Europe/Berlin)."
	return field
}
