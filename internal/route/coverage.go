package route

import "strings"

// Under reports whether what matches every path of a pattern matches this one: each
// reading of it has as many segments, and begins with the same ones.
func Under(path, pattern string) bool {
	if !plain(path) {
		path = DecodeAll(path)
	}
	fixed, _, open := strings.Cut(pattern, "{")
	fixed = strings.TrimSuffix(fixed, anything)
	rest := strings.HasSuffix(pattern, "+}") || strings.HasSuffix(pattern, anything)
	switch {
	case !plain(path) || !strings.HasPrefix(path, fixed):
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

// Coverage says how much of a route a List matches.
type Coverage int

// A List matches no path of a route, some or perhaps some, or every one.
const (
	None Coverage = iota
	Some
	Every
)

// Covers reports how much of what falls under a route a List matches. The route has a
// pattern of a path for its path, and OtherMethod stands for several. Several
// patterns that match all of it only together count as Some.
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
	case called.Method == OtherMethod && NameMethod(p.Method) == OtherMethod:
		return min(all, Some)
	}
	return None
}

// covers reports how much of one path, which ends a pattern, another matches.
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
