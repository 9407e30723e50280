// Package form has what forms and filters share: typed text and its error, options, and
// the words for errors. Package command and the pages with filters import it. It must know
// no page, and it reads nothing from Valkey.
package form

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/web/templates"
)

// MaxInput exceeds the length of any number or time zone, in characters.
const MaxInput = 80

// maxShown bounds the text that a field shows again, in characters.
const maxShown = 4000

// UntilForm is the layout of an instant: the value of a datetime-local field, in UTC.
const UntilForm = "2006-01-02T15:04"

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

// TextField returns a field for a line of at most maxLen characters. sample is its
// placeholder.
func TextField(name, label, sample string, maxLen int, in Input) templates.FormField {
	return templates.FormField{
		ID: name, Label: label, Kind: templates.TextField, Sample: sample, Max: strconv.Itoa(maxLen),
		Field: templates.Field{Value: page.Clip(in.Text, maxShown), Error: in.Error},
	}
}

// Digest returns a short text that differs for other texts.
func Digest(texts []string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\n")))
	return hex.EncodeToString(sum[:16])
}
