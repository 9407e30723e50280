package route

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
// pattern matches. A path with control characters or overlong UTF-8, which backends cut
// or decode in their own ways, matches nothing.
func (l *List) Matches(c Call) bool {
	var buffer [MaxSegments]string
	if plain(c.Path) {
		return l.matches(c, asWritten(c.Path, buffer[:0]))
	}
	return !misleading(DecodeAll(c.Path)) && l.matches(c, asWritten(c.Path, buffer[:0])) &&
		l.matches(c, asLenient(c.Path, buffer[:0]))
}

// misleading reports whether a decoded path has a control character, or a character in
// more bytes than UTF-8 allows (RFC 3629, section 3).
func misleading(path string) bool {
	for i := range len(path) {
		next := byte(0xff)
		if i+1 < len(path) {
			next = path[i+1]
		}
		switch b := path[i]; {
		case b < ' ', b == 0x7f, b == 0xc0, b == 0xc1, b == 0xe0 && next < 0xa0, b == 0xf0 && next < 0x90:
			return true
		}
	}
	return false
}

func (l *List) matches(c Call, path reading) bool {
	for i := range l.patterns {
		if l.patterns[i].matches(c, path) {
			return true
		}
	}
	return false
}
