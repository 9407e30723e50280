package route

import (
	"slices"
	"strings"
)

// Index finds all patterns that match a call. It is safe for concurrent use.
type Index struct {
	patterns []compiled       // most specific first
	literal  map[string][]int // ranks of the patterns whose path begins with this literal, ascending
	other    []int            // ranks of the rest, ascending
	byPath   bool             // some pattern has a path
}

// NewIndex compiles patterns. It returns an error if one is not valid. Several may match
// the same call, with equal specificity too.
func NewIndex(patterns []Pattern) (*Index, error) {
	all, err := compileValid(patterns)
	if err != nil {
		return nil, err
	}
	x := &Index{patterns: all, literal: map[string][]int{}}
	slices.SortStableFunc(x.patterns, compare)
	for rank, p := range x.patterns {
		x.byPath = x.byPath || p.path[0].kind != anyPath
		if p.path[0].kind == literal {
			x.literal[p.path[0].text] = append(x.literal[p.path[0].text], rank)
		} else {
			x.other = append(x.other, rank)
		}
	}
	return x, nil
}

// Matched is a pattern that matches a call.
type Matched struct {
	Index  int      // of the pattern, in the order given to NewIndex
	Values []string // of its parameters of one segment, in the order of Names
}

// Names returns the names of a pattern's parameters of one segment, in their order.
func (p Pattern) Names() []string {
	var names []string
	for text := range strings.SplitSeq(p.Path, "/") {
		if len(text) > 2 && text[0] == '{' && text[len(text)-1] == '}' && text[len(text)-2] != '+' {
			names = append(names, text[1:len(text)-1])
		}
	}
	return names
}

// Find returns all patterns that match the call, the most specific first. Its only error
// is ErrAmbiguous, for a call that must be refused: programs read its path in different
// ways, under which different patterns match or a parameter has different values. A path
// with a dot-segment, at any depth of decoding, is always such a path: clients resolve
// them before they send. Without a pattern that has a path nothing is refused.
func (x *Index) Find(c Call) ([]Matched, error) {
	if len(x.patterns) == 0 {
		return nil, nil
	}
	var buffer [MaxSegments]string
	if !x.byPath || plainPath(c.Path) {
		return x.find(c, asWritten(c.Path, buffer[:0])), nil
	}
	decoded := DecodeAll(c.Path)
	if len(c.Path) > maxUnusualPath || misleading(decoded) || resolvable(decoded) {
		return nil, ErrAmbiguous
	}
	var found []Matched
	for i, path := range readings(c.Path) {
		of := x.find(c, path)
		if i > 0 && !slices.EqualFunc(found, of, func(a, b Matched) bool {
			return a.Index == b.Index && slices.Equal(a.Values, b.Values)
		}) {
			return nil, ErrAmbiguous
		}
		found = of
	}
	return found, nil
}

// find returns the patterns that match one reading of a path.
func (x *Index) find(c Call, path reading) []Matched {
	var first []int
	if len(path) > 0 {
		first = x.literal[path[0]]
	}
	other := x.other
	var found []Matched
	for len(first) > 0 || len(other) > 0 {
		from := &first
		if len(first) == 0 || len(other) > 0 && other[0] < first[0] {
			from = &other
		}
		p := &x.patterns[(*from)[0]]
		*from = (*from)[1:]
		if p.matches(c, path) {
			found = append(found, Matched{p.index, p.values(path)})
		}
	}
	return found
}

// values returns the values of the parameters of one segment. Values are compared with
// letters folded and all encodings decoded, so that a caller has one count for a value.
func (p *compiled) values(path reading) []string {
	var values []string
	for i, s := range p.path {
		if s.kind == one && i < len(path) {
			values = append(values, strings.ToLower(DecodeAll(path[i])))
		}
	}
	return values
}

// Overlap reports whether some call may match both patterns.
func Overlap(a, b Pattern) bool {
	one, other := compile(0, a), compile(0, b)
	same := func(x, y string) bool { return matchesAny(x) || matchesAny(y) || x == y }
	if !same(a.API, b.API) || !same(a.Stage, b.Stage) {
		return false
	}
	if !one.matchesMethod(b.Method) && !other.matchesMethod(a.Method) {
		return false
	}
	for i := 0; i < len(one.path) && i < len(other.path); i++ {
		x, y := one.path[i], other.path[i]
		switch {
		case x.kind == anyPath || y.kind == anyPath:
			return true
		case x.kind == end || y.kind == end:
			return x.kind == y.kind
		case x.kind == rest || y.kind == rest:
			return true
		case x.kind == literal && y.kind == literal && x.text != y.text:
			return false
		}
	}
	return true
}
