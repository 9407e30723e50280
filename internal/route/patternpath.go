package route

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

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

// parsePath returns a path's segments, or what is wrong with it.
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
		return nil, fmt.Sprintf("has %d segments: must have at most %d; end it in * for what is deeper",
			len(texts), MaxSegments)
	}
	names := map[string]bool{}
	for i, text := range texts {
		s, problem := parseSegment(text)
		switch {
		case problem != "":
			return nil, fmt.Sprintf("has %q as segment %d: %s", text, i+1, problem)
		case s.kind == rest && i < len(texts)-1:
			return nil, fmt.Sprintf("has %q before its end: only {name} can stand there", text)
		case s.kind < literal && text != anything && names[text]:
			return nil, fmt.Sprintf("has the parameter %s twice: give each a name of its own", text)
		}
		names[text] = true
		segments = append(segments, s)
	}
	if segments[len(segments)-1].kind != rest {
		segments = append(segments, segment{kind: end})
	}
	return segments, ""
}

// parseSegment returns one segment, or what is wrong with it.
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
		return s, "a brace or * cannot stand within a segment; a parameter is a whole segment, {name}"
	case decoded == "." || decoded == "..":
		return s, "calls that have it are refused; write the path that is meant"
	case strings.ContainsAny(decoded, `/\;`) || DecodeAll(decoded) != decoded:
		return s,
			`calls that have a /, \ or ; or an encoded % in a segment are matched by {name} or {name+} only`
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
