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
