package enforce

import (
	"time"
)

// lapse is a Lapse made ready for checks.
type lapse struct {
	until time.Time
	counting
}

// sooner is how long something lasts that takes so long in a window as it is counted now,
// when the window gets shorter at the lapse's end.
func (l *lapse) sooner(lasts, shorter time.Duration, now time.Time) time.Duration {
	left := l.until.Sub(now)
	if left <= 0 {
		return lasts
	}
	return min(lasts, max(left, lasts-shorter))
}
