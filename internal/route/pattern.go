// Package route matches API calls against patterns of API, stage, method and path, most
// specific first.
//
// # Patterns
//
// An empty field, or *, matches anything. A path has literal segments, {name} for exactly
// one segment, and at its end {name+} or * for one or more, as in API Gateway. So
// /orders/* matches /orders/7 and not /orders, as a resource /orders/{proxy+} does.
// Methods and literals are compared without regard to ASCII case, since many backends
// behind a {proxy+} resource do so too; APIs and stages are compared exactly.
//
// A pattern for GET also matches HEAD, because most backends run the handler of GET for
// HEAD. The method ANY matches every method, as it does in API Gateway.
//
// # Specificity
//
// The most specific pattern wins. Patterns are compared field by field, and the first
// difference decides: a given API before any; the path from its first segment on, literal
// before {name} before {name+} before any path; a given method before any; a given stage
// before any. Two patterns that match the same call are therefore either ordered, or
// equal except for the names of their parameters. Ties finds the equal ones.
//
// Among methods HEAD comes first, then the others, then ANY, then *. So a pattern for
// HEAD wins over one for GET with the same path. The path is compared first: GET /report
// wins over HEAD /* for a HEAD call of /report.
//
// # Spellings
//
// Programs read the same path in different ways, and a caller must not escape a rule by
// its spelling. Matching ignores empty segments and a slash at the end, and decodes each
// segment's percent-encoding once. Beyond that a path has two readings. As written, an
// encoded slash, a dot-segment or ;parameters are part of a segment. A lenient program
// decodes until nothing is encoded, takes a backslash for a slash, cuts off ;parameters
// and resolves dot-segments. Where the two readings match different patterns, Find fails
// with ErrAmbiguous, and the call should be refused. Clients resolve dot-segments before
// they send. So a legitimate call fails only with an encoded slash or semicolon where a
// rule counts segments; {name+} matches both.
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

// Parse reads what String writes: a method and a path, "GET /orders/{id}", or a path
// alone. An API and a stage may precede them: "abcdef1234/prod GET /orders/{id}".
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

// cutWord cuts off the first word unless it is a path.
func cutWord(text string) (word, after string, found bool) {
	if strings.HasPrefix(text, "/") {
		return "", text, false
	}
	word, after, found = strings.Cut(text, " ")
	return word, strings.TrimSpace(after), found
}

// String writes the pattern in the form that Parse reads.
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

// FieldError is a problem of one field of a Pattern: api, stage, method or path.
type FieldError struct {
	Field   string
	Message string // names the value, its bound and what to do
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
