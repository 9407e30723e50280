package route

import "fmt"

// List is a list of patterns. A call must match one. It is safe for concurrent use.
type List struct{ patterns []compiled }

// NewList compiles patterns. It fails if one is not valid. Several may match the same
// call.
func NewList(patterns []Pattern) (*List, error) {
	l := &List{}
	for i, p := range patterns {
		if err := p.Validate(); err != nil {
			return nil, fmt.Errorf("pattern %d, %s: %w", i+1, p, err)
		}
		l.patterns = append(l.patterns, compile(i, p))
	}
	return l, nil
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
