package route

import (
	"slices"
	"strings"
)

// List is a list of patterns. A call must match one. It is safe for concurrent use.
type List struct{ patterns []compiled }

// NewList compiles patterns. It returns an error if one is not valid. Several may match
// the same call.
func NewList(patterns []Pattern) (*List, error) {
	all, err := compileValid(patterns)
	if err != nil {
		return nil, err
	}
	return &List{all}, nil
}

// Matches reports whether a pattern matches the call in each reading of its path: as
// written, and as a lenient program reads it. So no spelling reaches a path that no
// pattern matches.
func (l *List) Matches(c Call) bool {
	var buffer [MaxSegments]string
	return l.matches(c, asWritten(c.Path, buffer[:0])) &&
		(plain(c.Path) || l.matches(c, asLenient(c.Path, buffer[:0])))
}

func (l *List) matches(c Call, path reading) bool {
	for i := range l.patterns {
		if l.patterns[i].matches(c, path) {
			return true
		}
	}
	return false
}

// Under reports whether a path falls under a pattern of API Gateway, so that a rule for
// all paths of the pattern matches it too. That requires that each reading of the path
// has the pattern's number of segments and its literals at the beginning.
func Under(path, pattern string) bool {
	if !plain(path) {
		path = DecodeAll(path)
		if resolvable(path) || !slices.Equal(asWritten(path, nil), asLenient(path, nil)) {
			return false
		}
	}
	fixed, _, open := strings.Cut(pattern, "{")
	fixed = strings.TrimSuffix(fixed, anything)
	rest := strings.HasSuffix(pattern, "+}") || strings.HasSuffix(pattern, anything)
	switch {
	case !strings.HasPrefix(path, fixed):
		return false
	case strings.Contains(path, "//") || pattern != "/" && strings.HasSuffix(path, "/"):
		return false // an empty segment is none
	case rest:
		return strings.Count(path, "/") >= strings.Count(pattern, "/")
	case !open:
		return path == fixed
	}
	return strings.Count(path, "/") == strings.Count(pattern, "/")
}

// Coverage is how many of a route's calls a List matches.
type Coverage int

// The coverages.
const (
	None  Coverage = iota
	Some           // some calls, or perhaps some
	Every          // all calls
)

// Covers returns how many of a route's calls a List matches. The path of the route is a
// pattern, and its method otherMethod stands for several methods. Patterns that match all
// calls only together count as Some.
func (l *List) Covers(called Call) Coverage {
	path, problem := parsePath(called.Path)
	if problem != "" {
		path = []segment{{kind: anyPath}}
	}
	most := None
	for i := range l.patterns {
		most = max(most, l.patterns[i].covers(called, path))
	}
	return most
}

func (p *compiled) covers(called Call, path []segment) Coverage {
	all := covers(p.path, path)
	switch {
	case !p.matchesStage(called):
		return None
	case p.matchesMethod(called.Method):
		return all
	case called.Method == otherMethod && NameMethod(p.Method) == otherMethod:
		return min(all, Some)
	}
	return None
}

// covers returns how many calls of one path's pattern another path's pattern matches.
func covers(pattern, path []segment) Coverage {
	all := Every
	for i := 0; ; i++ {
		p, s := pattern[i], path[i]
		switch {
		case p.kind == anyPath:
			return all
		case s.kind == anyPath:
			return Some
		case p.kind == rest && s.kind != end:
			return all
		case s.kind == rest && p.kind != end:
			return Some
		case p.kind == end || s.kind == end || s.kind == rest:
			if p.kind != s.kind {
				return None
			}
			return all
		case p.kind == literal && s.kind == one:
			all = Some
		case p.kind == literal && p.text != s.text:
			return None
		}
	}
}
