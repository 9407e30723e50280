// Package route matches API calls against patterns of API, stage, method and path, most
// specific first. Packages that validate, apply and show route rules import it. It does
// no I/O and knows no limits.
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
// spelling a path differently. Matching ignores empty segments and a slash at the end,
// and decodes each segment's percent-encoding once. Beyond that, a path has two readings.
// As written, an encoded slash, a dot-segment or ;parameters are part of a segment. A
// lenient program decodes until nothing is encoded, takes a backslash for a slash, cuts
// off ;parameters and resolves dot-segments, also those with blanks, control characters,
// overlong UTF-8 or full-width characters. If the two readings match different patterns,
// Find returns ErrAmbiguous, and the call should be refused. Clients resolve dot-segments
// before they send. So a legitimate call fails only with an encoded slash or semicolon
// where a rule counts segments; {name+} matches both.
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

// Pattern matches calls. The zero value matches every call.
type Pattern struct {
	API    string `json:"api,omitempty"` // an API's id
	Stage  string `json:"stage,omitempty"`
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"` // begins with a slash; see the package comment
}

// Parse parses what String returns: a method and a path, "GET /orders/{id}", or a path
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

// String returns the pattern in the form that Parse parses.
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

// Validate returns the Errors as one error; nil if the pattern is valid.
func (p Pattern) Validate() error {
	var errs []error
	for _, e := range p.Errors() {
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}

// Errors returns an error for each invalid field; nil if the pattern is valid.
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

// wordProblem returns the problem of a field that is one word; empty for none.
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

// kind orders segments by how specific they are.
type kind uint8

const (
	anyPath kind = iota // no path given
	rest                // {name+} or *
	one                 // {name}
	literal
	end // of a path without {name+} or *
)

// segment of a pattern's path. The last is anyPath, rest or end.
type segment struct {
	kind kind
	text string // of a literal, decoded and in lower case
}

// parsePath returns a path's segments, or its problem.
func parsePath(path string) (segments []segment, problem string) {
	switch {
	case matchesAny(path):
		return []segment{{kind: anyPath}}, ""
	case len(path) > MaxPathLen:
		return nil, fmt.Sprintf("has %d bytes: must have at most %d", len(path), MaxPathLen)
	case path[0] != '/':
		return nil, fmt.Sprintf("is %q: must begin with /, or be * for every path", path)
	}
	path = strings.TrimSuffix(path[1:], "/")
	if path == "" {
		return []segment{{kind: end}}, ""
	}
	texts := strings.Split(path, "/")
	if len(texts) > MaxSegments {
		return nil, fmt.Sprintf("has %d segments: must have at most %d; end it with * to match deeper paths",
			len(texts), MaxSegments)
	}
	names := map[string]bool{}
	for i, text := range texts {
		s, problem := parseSegment(text)
		switch {
		case problem != "":
			return nil, fmt.Sprintf("has %q as segment %d: %s", text, i+1, problem)
		case s.kind == rest && i < len(texts)-1:
			return nil, fmt.Sprintf("has %q before its end: only {name} can be there", text)
		case s.kind < literal && text != anything && names[text]:
			return nil, fmt.Sprintf("has the parameter %s twice: names must differ", text)
		}
		names[text] = true
		segments = append(segments, s)
	}
	if segments[len(segments)-1].kind != rest {
		segments = append(segments, segment{kind: end})
	}
	return segments, ""
}

// parseSegment returns one segment, or its problem.
func parseSegment(text string) (s segment, problem string) {
	switch {
	case text == "":
		return s, "is empty; leave out the second slash"
	case text == anything:
		return segment{kind: rest}, ""
	case text[0] == '{' && text[len(text)-1] == '}':
		return parseParameter(text[1 : len(text)-1])
	}
	decoded := decodeOnce(text)
	switch {
	case strings.ContainsAny(text, "{}*"):
		return s, "a segment cannot contain a brace or *; a parameter is a whole segment, {name}"
	case decoded == "." || decoded == "..":
		return s, "calls with a dot-segment are refused; write the path without it"
	case strings.ContainsAny(decoded, `/\;`) || DecodeAll(decoded) != decoded:
		return s, `only {name} or {name+} can match a segment with /, \, ; or an encoded %`
	case !utf8.ValidString(decoded) || strings.ContainsFunc(decoded, func(r rune) bool {
		return !unicode.IsPrint(r)
	}):
		return s, "it has characters that cannot be printed"
	}
	return segment{kind: literal, text: lower(decoded)}, ""
}

func parseParameter(name string) (s segment, problem string) {
	s.kind = one
	if trimmed, found := strings.CutSuffix(name, "+"); found {
		s.kind, name = rest, trimmed
	}
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !isStage(r) && r != '.' }) {
		return s, "a parameter's name must be letters, digits, . - _ and $"
	}
	return s, ""
}

const (
	anyMethod  = "ANY" // API Gateway's name for every method
	getMethod  = "GET"
	headMethod = "HEAD"
)

// otherMethod is the name in records for all methods that NameMethod does not know, since
// callers can make up any.
const otherMethod = "other"

var namedMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "$connect"}

// NameMethod returns the name of a method in records.
func NameMethod(method string) string {
	for _, name := range namedMethods {
		if strings.EqualFold(name, method) {
			return name
		}
	}
	return otherMethod
}

// methodRank orders patterns by their method. A higher rank is more specific.
type methodRank uint8

const (
	everyMethod methodRank = iota // empty or *
	namedAny                      // ANY
	namedMethod                   // any method but HEAD
	namedHead                     // HEAD, before GET for a HEAD call
)

func rankMethod(method string) methodRank {
	switch {
	case matchesAny(method):
		return everyMethod
	case strings.EqualFold(method, anyMethod):
		return namedAny
	case strings.EqualFold(method, headMethod):
		return namedHead
	}
	return namedMethod
}

// matchesMethod reports whether calls with this method fall under the pattern.
func (p *compiled) matchesMethod(method string) bool {
	return p.method <= namedAny || strings.EqualFold(p.Method, method) || p.asGet(method)
}

// asGet reports whether a HEAD call falls under the pattern because the pattern is for
// GET.
func (p *compiled) asGet(method string) bool {
	return strings.EqualFold(p.Method, getMethod) && strings.EqualFold(method, headMethod)
}
