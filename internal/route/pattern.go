// Package route matches API calls against patterns of API, stage, method and path, most
// specific first.
//
// # Patterns
//
// An empty field, or *, stands for anything. A path is literal segments, {name} for
// exactly one segment, and at its end {name+} or * for one or more: API Gateway's own
// syntax. So /orders/* covers /orders/7 and not /orders, as a resource /orders/{proxy+}
// does. Methods and literals are compared without regard to ASCII case, since many
// backends behind a {proxy+} resource do so too; APIs and stages are compared exactly.
//
// A pattern for GET also matches HEAD, because most backends run the handler of GET for
// HEAD. The method ANY matches every method, as it does in API Gateway.
//
// # Specificity
//
// The most specific pattern wins. Patterns are compared field by field, and the first
// difference decides: a given API before any; the path from its first segment on, literal
// before {name} before {name+} before any path; a given method before any; a given stage
// before any. Two patterns that match the same call are therefore either ordered or equal
// but for the names of their parameters: a tie, which Ties finds.
//
// Among methods HEAD comes before the others, they come before ANY, and ANY before *. So
// a HEAD call falls under a pattern for HEAD before one for GET with the same path. The
// path is compared first: GET /report takes a HEAD call from HEAD /*.
//
// # Spellings
//
// Programs read the same path in different ways, and a caller must not dodge a rule by
// choosing the spelling. What all of them read alike is folded: empty segments and a
// slash at the end are dropped, and each segment's percent-encoding is undone once.
// Beyond that a path has two readings: as written, where an encoded slash, a dot-segment
// or ;parameters are part of a segment like any text, and as a lenient program would have
// it, where percent-encoding is undone until none is left, a backslash is a slash,
// ;parameters are cut off and dot-segments are resolved. Where the two readings find
// different patterns, the call has none of them: Find fails with ErrAmbiguous, and the
// call should be refused. Clients resolve dot-segments before they send, so honest calls
// meet this only with an encoded slash or semicolon where a rule counts segments: {name+}
// covers both.
package route

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a Pattern, in bytes.
const (
	MaxAPILen    = 64  // an API's id has 10 characters
	MaxStageLen  = 128 // AWS's bound
	MaxMethodLen = 16
	MaxPathLen   = 512
	MaxSegments  = 32
)

const anything = "*"

// Pattern says which calls a rule is for. The zero value matches every call.
type Pattern struct {
	API    string `json:"api,omitempty"` // an API's id
	Stage  string `json:"stage,omitempty"`
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"` // begins with a slash; see the package comment
}

// Parse reads what String writes, the form in which people know routes: a method and a
// path, "GET /orders/{id}", or a path alone, with an API and a stage in front where they
// are given: "abcdef1234/prod GET /orders/{id}".
func Parse(text string) (Pattern, error) {
	var p Pattern
	text = strings.TrimSpace(text)
	if text == "" {
		return p, FieldError{"path", "is empty: write * for every path"}
	}
	if front, after, found := cutWord(text); found && strings.Contains(front, "/") {
		p.API, p.Stage, _ = strings.Cut(front, "/")
		text = after
	}
	p.Path = text
	if front, after, found := cutWord(text); found {
		p.Method, p.Path = front, after
	}
	return p, p.Validate()
}

// cutWord cuts off a word that is no path.
func cutWord(text string) (word, after string, found bool) {
	if strings.HasPrefix(text, "/") {
		return "", text, false
	}
	word, after, found = strings.Cut(text, " ")
	return word, strings.TrimSpace(after), found
}

// String writes the pattern as people know routes; Parse reads it.
func (p Pattern) String() string {
	text := orAny(p.Method) + " " + orAny(p.Path)
	if !matchesAny(p.API) || !matchesAny(p.Stage) {
		text = orAny(p.API) + "/" + orAny(p.Stage) + " " + text
	}
	return text
}

func matchesAny(field string) bool { return field == "" || field == anything }

func orAny(field string) string {
	if field == "" {
		return anything
	}
	return field
}

// FieldError is what is wrong with one field of a Pattern: api, stage, method or path.
type FieldError struct {
	Field   string
	Message string // names the value, its bound and a way out
}

func (e FieldError) Error() string { return e.Field + " " + e.Message }

// Validate returns every FieldError, joined; nil when the pattern is valid.
func (p Pattern) Validate() error {
	var errs []error
	for _, e := range p.Errors() {
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}

// Errors returns what is wrong with each field; nil when the pattern is valid.
func (p Pattern) Errors() []FieldError {
	var errs []FieldError
	add := func(field, problem string) {
		if problem != "" {
			errs = append(errs, FieldError{field, problem})
		}
	}
	add("api", wordProblem(p.API, MaxAPILen, isWord, "letters and digits, or * for every API"))
	add("stage", wordProblem(p.Stage, MaxStageLen, isStage,
		"letters, digits, - and _, $default, or * for every stage"))
	add("method", wordProblem(p.Method, MaxMethodLen, isMethod, "letters such as GET, or * for every method"))
	_, problem := parsePath(p.Path)
	add("path", problem)
	return errs
}

func isWord(r rune) bool   { return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) }
func isStage(r rune) bool  { return isWord(r) || r == '-' || r == '_' || r == '$' }
func isMethod(r rune) bool { return isWord(r) || r == '-' || r == '$' } // $connect is a WebSocket's method

// wordProblem says what is wrong with a field that is one word, or "".
func wordProblem(value string, maxLen int, allowed func(rune) bool, must string) string {
	switch {
	case matchesAny(value):
		return ""
	case len(value) > maxLen:
		return fmt.Sprintf("has %d characters: must have at most %d", len(value), maxLen)
	case strings.ContainsFunc(value, func(r rune) bool { return !allowed(r) }):
		return fmt.Sprintf("is %q: must be %s", value, must)
	}
	return ""
}
