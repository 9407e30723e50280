package schema

import "time"

// After returns the instant that is d after now, or nil where there is nothing to wait
// for.
func After(now time.Time, d time.Duration) *time.Time {
	if d <= 0 {
		return nil
	}
	return Given(now.Add(d))
}

// Given returns a time, or nil for none.
func Given(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// TimeOf is the inverse of Given.
func TimeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
