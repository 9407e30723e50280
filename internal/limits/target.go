package limits

import (
	"fmt"
	"slices"
	"strings"

	"tidegate/internal/route"
)

// target is what on and except name: a route by its name, or calls by a pattern.
type target struct {
	name    string // of a route; empty for a pattern
	pattern route.Pattern
}

var targetPattern = pattern(`^[A-Za-z][A-Za-z0-9._-]*$`)

// methods are the words that begin a pattern, so no route and no unit has such a name.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "ANY"}

func isMethod(word string) bool {
	return slices.ContainsFunc(methods, func(m string) bool { return strings.EqualFold(m, word) })
}

// nameProblem returns the problem of the name of a route or a unit; empty for none.
func nameProblem(name string) string {
	switch {
	case name == "":
		return "is empty: must be letters, digits, . - and _, and begin with a letter"
	case len(name) > MaxNameLen:
		return fmt.Sprintf("has %d characters: must have at most %d", len(name), MaxNameLen)
	case !targetPattern().MatchString(name):
		return fmt.Sprintf("is %.40q: must be letters, digits, . - and _, and begin with a letter", name)
	case isMethod(name):
		return fmt.Sprintf("is %.40q, which is a method: choose another name", name)
	}
	return ""
}

// reserved are words that the text of a limit has around a unit.
var reserved = []string{"calls", "call", "requests", "request", "reqs", "req", "r", "cost", "per", "at", "a",
	"an", "every", "calendar", "no"}

// UnitProblem returns the problem of the name of a unit that a route's cost has.
func UnitProblem(unit string) string {
	if slices.Contains(reserved, strings.ToLower(unit)) {
		return fmt.Sprintf("is %.40q, which is a word of every limit: choose another name", unit)
	}
	return nameProblem(unit)
}

// parseTarget returns the target of a text that parseOn returned, or its problem.
func parseTarget(text string) (t target, problem string) {
	if !strings.Contains(text, "/") {
		return target{name: text}, nameProblem(text)
	}
	p, err := parsePattern(text)
	if err != nil {
		return target{}, fmt.Sprintf("is the pattern %.80q: %v", text, err)
	}
	return target{pattern: p}, ""
}

// parsePattern parses a pattern, in which a comma is encoded.
func parsePattern(text string) (route.Pattern, error) {
	return route.Parse(strings.ReplaceAll(text, ",", "%2C"))
}

// PatternText returns a pattern as a limit and a route's match name it: "GET /orders/{id}",
// "/status" for every method, "abcdef1234/prod GET /orders".
func PatternText(p route.Pattern) string {
	every := func(field string) bool { return field == "" || field == "*" }
	if every(p.API) && every(p.Stage) && every(p.Method) && strings.HasPrefix(p.Path, "/") {
		return strings.ReplaceAll(p.Path, ",", "%2C")
	}
	p.Method = strings.ToUpper(p.Method)
	return strings.ReplaceAll(p.String(), ",", "%2C")
}

// parseOn parses what follows on and except, and returns it as it is printed.
func parseOn(text string) (string, error) {
	text = strings.TrimSpace(text)
	if !strings.Contains(text, "/") {
		if problem := onNameProblem(text); problem != "" {
			return "", fmt.Errorf("on and except: %s", problem)
		}
		return text, nil
	}
	p, err := parsePattern(text)
	if err != nil {
		return "", fmt.Errorf("the pattern %.80q: %w", text, err)
	}
	return PatternText(p), nil
}

func onNameProblem(text string) string {
	first, rest, several := strings.Cut(text, " ")
	switch {
	case text == "":
		return "a route is missing: write its name, or a pattern such as GET /search"
	case isMethod(text) || text == "*":
		return fmt.Sprintf("%.40q is not a pattern: write %s /*", text, strings.ToUpper(text))
	case several && (hasPrefix(rest, "and ") || hasPrefix(rest, "or ")):
		_, other, _ := strings.Cut(rest, " ")
		return fmt.Sprintf("%.60q names several routes: one limit is on one route. Write on %s and on %s in "+
			"two limits, or except %s, except %s", text, first, other, first, other)
	case several:
		return fmt.Sprintf("%.60q is not a route's name or a pattern: is a comma missing after %s?",
			text, first)
	}
	if problem := nameProblem(text); problem != "" {
		return "the route's name " + problem
	}
	return ""
}
