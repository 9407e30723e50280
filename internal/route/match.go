package route

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrAmbiguous means that programs read a call's path in different ways that match
// different patterns.
var ErrAmbiguous = errors.New("path can be read in two ways that different routes match")

// Call is a request to API Gateway.
type Call struct {
	API, Stage, Method, Path string
}

// compiled is a pattern ready for matching.
type compiled struct {
	Pattern
	index  int // in the order given
	method methodRank
	path   []segment
}

// compileValid compiles patterns. It returns an error if one is not valid.
func compileValid(patterns []Pattern) ([]compiled, error) {
	all := make([]compiled, len(patterns))
	for i, p := range patterns {
		if err := p.Validate(); err != nil {
			return nil, fmt.Errorf("pattern %d, %s: %w", i+1, p, err)
		}
		all[i] = compile(i, p)
	}
	return all, nil
}

func compile(index int, p Pattern) compiled {
	path, _ := parsePath(p.Path)
	return compiled{Pattern: p, index: index, method: rankMethod(p.Method), path: path}
}

func (p *compiled) matches(c Call, path reading) bool {
	return p.matchesStage(c) && p.matchesMethod(c.Method) && p.matchesPath(path)
}

// TestStage is the stage of the calls by which AWS's console and test-invoke-authorizer test
// an authorizer. It counts as any stage of its API: nothing is behind it.
const TestStage = "ESTestInvoke-stage"

func (p *compiled) matchesStage(c Call) bool {
	return (matchesAny(p.API) || p.API == c.API) &&
		(matchesAny(p.Stage) || p.Stage == c.Stage || c.Stage == TestStage)
}

func (p *compiled) matchesPath(path reading) bool {
	for i, s := range p.path {
		switch {
		case s.kind == anyPath:
			return true
		case s.kind == end:
			return i == len(path)
		case i == len(path):
			return false
		case s.kind == rest:
			return true
		case s.kind == literal && s.text != path[i]:
			return false
		}
	}
	return false
}

// compare orders patterns, most specific first. Patterns that compare as equal tie, or
// have different literals and never match the same call.
func compare(a, b compiled) int {
	return cmp.Or(given(b.API)-given(a.API),
		slices.CompareFunc(b.path, a.path, func(x, y segment) int { return cmp.Compare(x.kind, y.kind) }),
		cmp.Compare(b.method, a.method), given(b.Stage)-given(a.Stage))
}

func given(field string) int {
	if matchesAny(field) {
		return 0
	}
	return 1
}

// Canonical returns the same text for patterns that match the same calls. Spaces and
// slashes separate its parts, which contain neither.
func (p Pattern) Canonical() string {
	text := orAny(p.API) + " " + orAny(p.Stage) + " " + lower(orAny(p.Method)) + " "
	path, _ := parsePath(p.Path)
	for _, s := range path {
		text += "/" + [...]string{anyPath: "**", rest: "*", one: "{}", literal: "=" + s.text, end: ""}[s.kind]
	}
	return strings.TrimSpace(text)
}
