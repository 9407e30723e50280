package route

import (
	"slices"
	"strings"
)

// maxUnusualPath bounds the bytes of a path that can be read in several ways: reading it
// in all of them takes time.
const maxUnusualPath = 1024

// plainPath reports whether all programs read the path alike: it has no empty segment but
// one at its end, no dot-segment, and no encoded or unusual character.
func plainPath(path string) bool {
	return plain(path) && !strings.Contains(path, "//")
}

// resolvable reports whether some program may resolve a dot-segment in a decoded path.
// Programs resolve before or after they decode, drop empty segments and cut off
// parameters, so nobody can list what they make of such a path.
func resolvable(decoded string) bool {
	slash := func(r rune) bool { return r == '/' || r == '\\' }
	for text := range strings.FieldsFuncSeq(toASCII.Replace(decoded), slash) {
		text, _, _ = strings.Cut(text, ";")
		if text = dotSegment(text); text == "." || text == ".." {
			return true
		}
	}
	return false
}

// unusual has the ways in which programs differ over a path without dot-segments. A
// reading picks one of each.
type unusual struct {
	// decode is 0 if segments are decoded once after the split, 1 if once before it, and 2
	// if until nothing is encoded.
	decode     int
	ascii      bool // full-width characters are slashes
	backslash  bool // a backslash is a slash
	parameters bool // ;parameters are cut off, as Java's servlets do
	empties    bool // empty segments are dropped
}

// readings returns the segments of a path in each way in which programs read it, each way
// once. The first is as it is written.
func readings(path string) []reading {
	all := DecodeAll(path)
	seen := map[string]bool{}
	var found []reading
	add := func(w unusual) {
		r := w.read(path)
		if key := strings.Join(r, "\x00"); !seen[key] {
			seen[key] = true
			found = append(found, r)
		}
	}
	encoded := strings.Contains(path, "%")
	for decode := range 3 {
		if decode > 0 && !encoded {
			break
		}
		for _, ascii := range ways(toASCII.Replace(all) != all) {
			for _, backslash := range ways(strings.Contains(toASCII.Replace(all), `\`)) {
				for _, parameters := range ways(strings.Contains(all, ";")) {
					for _, empties := range ways(true) {
						add(unusual{decode, ascii, backslash, parameters, empties})
					}
				}
			}
		}
	}
	return found
}

// ways are the values of a field of unusual: only the first if programs cannot differ.
func ways(differ bool) []bool {
	if differ {
		return []bool{false, true}
	}
	return []bool{false}
}

// read returns the segments in lower case.
func (w unusual) read(path string) reading {
	switch w.decode {
	case 1:
		path = decodeOnce(path)
	case 2:
		path = DecodeAll(path)
	}
	if w.ascii {
		path = toASCII.Replace(path)
	}
	if w.backslash {
		path = strings.ReplaceAll(path, `\`, "/")
	}
	var segments reading
	for text := range strings.SplitSeq(strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/"), "/") {
		if w.parameters {
			text, _, _ = strings.Cut(text, ";")
		}
		if w.decode == 0 {
			text = decodeOnce(text)
		}
		segments = append(segments, lower(text))
	}
	if w.empties || len(segments) == 1 {
		segments = slices.DeleteFunc(segments, func(text string) bool { return text == "" })
	}
	return segments
}
