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

// Table finds the pattern of a call. It is safe for concurrent use.
type Table struct {
	patterns []compiled       // most specific first
	literal  map[string][]int // ranks of the patterns whose path begins with this literal, ascending
	other    []int            // ranks of the rest
}

// NewTable compiles patterns. It returns an error if one is not valid, or if two tie.
func NewTable(patterns []Pattern) (*Table, error) {
	all, err := compileValid(patterns)
	if err != nil {
		return nil, err
	}
	t := &Table{patterns: all, literal: map[string][]int{}}
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

// Find returns the index of the most specific pattern that matches the call, in the order
// given to NewTable; ok is false if none does. Its only error is ErrAmbiguous, for a call
// that must be refused. It does not allocate for a path in lower case without percent
// signs, semicolons and dot-segments.
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

// compare orders patterns, most specific first. Patterns that compare as equal tie, or
// have different literals and never match the same call.
func compare(a, b compiled) int {
	return cmp.Or(
		given(b.API)-given(a.API),
		slices.CompareFunc(b.path, a.path, func(x, y segment) int { return cmp.Compare(x.kind, y.kind) }),
		cmp.Compare(b.method, a.method),
		given(b.Stage)-given(a.Stage),
	)
}

func given(field string) int {
	if matchesAny(field) {
		return 0
	}
	return 1
}

// Ties returns the pairs of indices of patterns that match the same calls with equal
// specificity. Each is paired with the first such pattern. Invalid patterns never tie.
func Ties(patterns []Pattern) [][2]int {
	var ties [][2]int
	first := map[string]int{}
	for i, p := range patterns {
		if p.Validate() != nil {
			continue
		}
		if j, found := first[p.Canonical()]; found {
			ties = append(ties, [2]int{j, i})
		} else {
			first[p.Canonical()] = i
		}
	}
	return ties
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

// Order returns the indices of valid patterns, most specific first. Equally specific
// patterns keep their order.
func Order(patterns []Pattern) []int {
	all := make([]compiled, len(patterns))
	for i, p := range patterns {
		all[i] = compile(i, p)
	}
	slices.SortStableFunc(all, compare)
	order := make([]int, len(all))
	for rank, c := range all {
		order[rank] = c.index
	}
	return order
}

// Match is a pattern that matches a call.
type Match struct {
	Index  int // in the order given to NewTable
	Won    bool
	Reason string // in words: why it won, or which pattern won and why
}

// Explain lists the patterns that match the call, most specific first. If Find returns
// ErrAmbiguous, Explain lists the patterns of each reading, and none won.
func (t *Table) Explain(c Call) []Match {
	written, lenient := t.all(c, asWritten(c.Path, nil)), []int(nil)
	if !plain(c.Path) {
		lenient = t.all(c, asLenient(c.Path, nil))
	}
	if !plain(c.Path) && winner(written) != winner(lenient) {
		return append(t.ambiguous(written, "as written"),
			t.ambiguous(lenient, "with all encodings and dot-segments resolved")...)
	}
	var matches []Match
	for i, rank := range written {
		m := Match{Index: t.patterns[rank].index, Won: i == 0, Reason: "Applies: the only matching rule"}
		if i > 0 {
			m.Reason = fmt.Sprintf("Lost to %s, which %s", t.patterns[written[0]].Pattern,
				difference(t.patterns[written[0]], t.patterns[rank]))
		} else if len(written) > 1 {
			m.Reason = "Applies: it " + difference(t.patterns[rank], t.patterns[written[1]]) +
				fmt.Sprintf(", unlike %s", t.patterns[written[1]].Pattern)
		}
		if m.Won && t.patterns[rank].asGet(c.Method) {
			m.Reason += "; HEAD follows the rule for GET"
		}
		matches = append(matches, m)
	}
	return matches
}

func (t *Table) all(c Call, path reading) []int {
	var ranks []int
	for rank := range t.patterns {
		if t.patterns[rank].matches(c, path) {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

func winner(ranks []int) int {
	if len(ranks) == 0 {
		return -1
	}
	return ranks[0]
}

func (t *Table) ambiguous(ranks []int, how string) []Match {
	var matches []Match
	for _, rank := range ranks {
		matches = append(matches, Match{
			Index: t.patterns[rank].index,
			Reason: fmt.Sprintf("matches the path %s, but another reading of it matches a different "+
				"pattern: the call is refused", how),
		})
	}
	return matches
}

// difference describes what makes the winning pattern more specific.
func difference(won, lost compiled) string {
	switch {
	case given(won.API) > given(lost.API):
		return "names the API"
	case compare(compiled{path: won.path}, compiled{path: lost.path}) < 0:
		return pathDifference(won.path, lost.path)
	case won.method > lost.method:
		return "names the method " + strings.ToUpper(won.Method)
	}
	return "names the stage"
}

func pathDifference(won, lost []segment) string {
	for i, s := range won {
		if i < len(lost) && s.kind == lost[i].kind {
			continue
		}
		switch s.kind {
		case end:
			return "names the whole path"
		case literal:
			return fmt.Sprintf("has the literal %q as segment %d", s.text, i+1)
		case one:
			return fmt.Sprintf("has exactly one segment at position %d", i+1)
		default:
			return fmt.Sprintf("names the first %d segments", i)
		}
	}
	return "has a longer path"
}
