package limiter

import "time"

// Moot is a limit of a list that never denies, since another one always denies before it.
// Both are indexes of the list.
type Moot struct{ Limit, By int }

// MootLimits returns the limits of a list that never deny, or in shadow mode would never
// deny, because of another one. A limit is left out where that is not certain.
func MootLimits(limits []Limit) []Moot {
	var all []Moot
	moot := make([]bool, len(limits))
	for i, l := range limits {
		for j, by := range limits {
			if i != j && !moot[j] && !by.Shadow && by.implies(l) {
				all, moot[i] = append(all, Moot{i, j}), true
				break
			}
		}
	}
	return all
}

// implies reports whether calls that l admits can never exceed other.
func (l Limit) implies(other Limit) bool {
	if l == other {
		return true
	}
	if other.CountDenied { // calls that l denies count too
		return false
	}
	span, admits := other.Span(), other.Requests
	switch other.Algorithm {
	case Counter: // it adds a share of the window before
		span *= 2
	case Log: // a slot that is left out of the window late withholds its calls
		if group := other.group(); group > 1 {
			admits -= group
		}
	case TokenBucket, FixedWindow:
	}
	most, known := l.most(span)
	return known && most <= admits
}

// most bounds the cost that the limit admits in any span. It is not known for a calendar
// limit, whose shortest period depends on its zone, and beyond MaxRequests.
func (l Limit) most(span time.Duration) (int64, bool) {
	if l.Calendar != NoCalendar || l.Window <= 0 || l.Requests < 1 {
		return 0, false
	}
	windows := int64((span + l.Window - 1) / l.Window)
	if l.Algorithm != Log { // a full window may lie on either side
		windows++
	}
	return windows * l.Requests, windows <= MaxRequests/l.Requests
}
