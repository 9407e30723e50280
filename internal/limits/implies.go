package limits

import (
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/limiter/calendar"
)

// counts reports whether a limit counts every call that l counts, together with no fewer
// others.
func (by where) counts(l Limit) bool {
	wider := by.Who == Together || max(by.Who, EachCaller) == max(l.Who, EachCaller) && by.Param == l.Param ||
		by.Who <= EachCaller && (l.Who == CallerParam || l.Who == CallerPattern) ||
		by.Who == EachGroup && l.Who <= EachCaller
	return wider && by.Unit == l.Unit && by.AtOnce == l.AtOnce && (by.On == "" || by.On == l.On) &&
		subset(by.Except, l.Except)
}

// implies reports whether the calls that l admits can never exceed other.
func (l Limit) implies(other Limit) bool {
	if l.AtOnce {
		return l.Requests <= other.Requests && l.Window >= other.Window
	}
	if other.CountDenied || l.CountDenied {
		return l.CountDenied == other.CountDenied && l.Window == other.Window && l.Requests <= other.Requests
	}
	if l.Calendar != calendar.None && l.Calendar == other.Calendar && l.Zone == other.Zone {
		return l.Requests <= other.Requests
	}
	span, admits := other.Span(), other.Requests
	switch other.Algorithm {
	case limiter.Counter: // counts a part of the previous window too
		span *= 2
	case limiter.Log: // may withhold a 500th
		if admits > 1000 {
			admits -= admits/500 + 1
		}
	case limiter.TokenBucket, limiter.FixedWindow:
	}
	most, known := l.mostIn(span)
	return known && most <= admits
}

// mostIn returns an upper bound of what the limit admits in any span. The bound is unknown
// above MaxRequests and for a calendar limit, whose shortest period depends on its zone.
func (l Limit) mostIn(span time.Duration) (bound int64, known bool) {
	if l.Calendar != calendar.None || l.Window <= 0 || l.Requests < 1 {
		return 0, false
	}
	windows := int64((span + l.Window - 1) / l.Window)
	if l.Algorithm != limiter.Log { // the span may reach into one more window
		windows++
	}
	return windows * l.Requests, windows <= MaxRequests/l.Requests
}
