package route

import (
	"errors"
	"fmt"
	"slices"
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

// Table finds the pattern of a call. It is safe for concurrent use.
type Table struct {
	patterns []compiled       // most specific first
	literal  map[string][]int // ranks of the patterns whose path begins with this literal, ascending
	other    []int            // ranks of the rest
}

// NewTable compiles patterns. It fails if one is not valid, or if two tie.
func NewTable(patterns []Pattern) (*Table, error) {
	t := &Table{literal: map[string][]int{}}
	for i, p := range patterns {
		if err := p.Validate(); err != nil {
			return nil, fmt.Errorf("pattern %d, %s: %w", i+1, p, err)
		}
		t.patterns = append(t.patterns, compile(i, p))
	}
	if ties := Ties(patterns); len(ties) > 0 {
		a, b := ties[0][0], ties[0][1]
		return nil, fmt.Errorf("patterns %d and %d tie: %s and %s match the same calls; remove or change one",
			a+1, b+1, patterns[a], patterns[b])
	}
	slices.SortStableFunc(t.patterns, compare)
	for rank, p := range t.patterns {
		if p.path[0].kind == literal {
			t.literal[p.path[0].text] = append(t.literal[p.path[0].text], rank)
		} else {
			t.other = append(t.other, rank)
		}
	}
	return t, nil
}

func compile(index int, p Pattern) compiled {
	path, _ := parsePath(p.Path)
	return compiled{Pattern: p, index: index, method: rankMethod(p.Method), path: path}
}

// Find returns the index of the most specific pattern that matches the call, in the order
// given to NewTable; ok is false if none does. It fails with ErrAmbiguous only; the
// caller must refuse such a call. It does not allocate for a path in lower case without
// percent signs, semicolons and dot-segments.
func (t *Table) Find(c Call) (index int, ok bool, err error) {
	if len(t.patterns) == 0 {
		return 0, false, nil
	}
	var buffer [MaxSegments]string
	rank := t.find(c, asWritten(c.Path, buffer[:0]))
	if !plain(c.Path) && t.find(c, asLenient(c.Path, buffer[:0])) != rank {
		return 0, false, ErrAmbiguous
	}
	if rank < 0 {
		return 0, false, nil
	}
	return t.patterns[rank].index, true, nil
}

// find returns the rank of the first pattern that matches, or -1.
func (t *Table) find(c Call, path reading) int {
	found := -1
	if len(path) > 0 {
		found = t.first(c, path, t.literal[path[0]])
	}
	if other := t.first(c, path, t.other); other >= 0 && (found < 0 || other < found) {
		return other
	}
	return found
}

// first returns the first of the ranks whose pattern matches, or -1.
func (t *Table) first(c Call, path reading, ranks []int) int {
	for _, rank := range ranks {
		if t.patterns[rank].matches(c, path) {
			return rank
		}
	}
	return -1
}

func (p *compiled) matches(c Call, path reading) bool {
	return p.matchesStage(c) && p.matchesMethod(c.Method) && p.matchesPath(path)
}

func (p *compiled) matchesStage(c Call) bool {
	return (matchesAny(p.API) || p.API == c.API) && (matchesAny(p.Stage) || p.Stage == c.Stage)
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
