package policy

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// joiners are invisible characters that scripts and emoji need: joiners, left-to-right
// and right-to-left marks, the word joiner, and the tags of an emoji flag. They change no
// other text, unlike embeddings, overrides and isolates.
var joiners = &unicode.RangeTable{
	R16: []unicode.Range16{{0x061c, 0x061c, 1}, {0x200c, 0x200f, 1}, {0x2060, 0x2060, 1}},
	R32: []unicode.Range32{{0xe0020, 0xe007f, 1}},
}

// IsText reports whether a text for people may have the character.
func IsText(r rune) bool { return unicode.IsPrint(r) || unicode.Is(joiners, r) }

// Looks returns a text without its invisible characters.
func Looks(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.In(r, joiners, unicode.Variation_Selector) {
			return -1
		}
		return r
	}, text)
}

// TextProblem returns the problem of a text for people, of up to longest characters;
// empty if it is valid.
func TextProblem(text string, longest int) string {
	switch {
	case len(text) > utf8.UTFMax*longest || utf8.RuneCountInString(text) > longest:
		return fmt.Sprintf("is longer than %d characters", longest)
	case strings.TrimSpace(Looks(text)) == "":
		return fmt.Sprintf("is empty: must be 1 to %d characters", longest)
	case !utf8.ValidString(text):
		return "is not UTF-8: save it in this encoding"
	}
	if at := strings.IndexFunc(text, func(r rune) bool { return !IsText(r) }); at >= 0 {
		r, _ := utf8.DecodeRuneInString(text[at:])
		return fmt.Sprintf("has the character %U, which cannot be printed: remove it", r)
	}
	return ""
}

// TagErrors returns the errors of tags, by their places in the field tags. A form types
// them in one line, so a tag has no comma and no space at an end.
func TagErrors(tags []string) []FieldError {
	var fields fieldErrors
	for i, tag := range tags {
		problem := TagProblem(tag)
		if problem == "" && slices.Contains(tags[:i], tag) {
			problem = "is there twice: remove one"
		}
		fields.add(fmt.Sprintf("tags[%d]", i), problem)
	}
	return fields
}

// TagProblem returns the problem of a tag; empty if it is valid.
func TagProblem(tag string) string {
	switch problem := TextProblem(tag, MaxTagLen); {
	case problem != "":
		return problem
	case strings.Contains(tag, ","):
		return "has a comma: give two tags"
	case strings.TrimSpace(tag) != tag:
		return "begins or ends with a space: remove it"
	}
	return ""
}

// nameProblem validates the name of a plan or a route, and adds what it looks like to
// seen. Names that look the same are taken for the same.
func nameProblem(name string, seen map[string]bool) string {
	looks := Looks(name)
	switch problem := TextProblem(name, MaxNameLen); {
	case problem != "":
		return problem
	case strings.TrimSpace(looks) != looks:
		return fmt.Sprintf("%q begins or ends with a space: remove it", name)
	case seen[looks]:
		return fmt.Sprintf("%q is taken: names must differ", name)
	}
	seen[looks] = true
	return ""
}
