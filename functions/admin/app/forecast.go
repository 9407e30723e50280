package app

import (
	"time"

	"tidegate/internal/enforce"
	"tidegate/internal/limiter/calendar"
)

// The data that a forecast needs: fewer calls, or a shorter part of the period, say little.
const (
	leastUsed   = 20 // cost
	leastPassed = 24 // the period, divided by this
)

// FullAt returns when a calendar quota of a day or longer is used up if its use goes on at
// the average since the period began. It returns false if the quota lasts until it resets,
// is used up already, or has too little data.
func FullAt(l enforce.LimitState, now time.Time) (time.Time, bool) {
	period := l.Calendar
	if period == calendar.None || period.Longest() < 24*time.Hour || l.Unread || l.Remaining <= 0 ||
		l.Used() < leastUsed {
		return time.Time{}, false
	}
	start, end := period.Around(now.UnixMicro(), period.Shifts(l.Zone, now), l.Day)
	passed := now.Sub(time.UnixMicro(start))
	wait := float64(passed) * float64(l.Remaining) / float64(l.Used())
	left := time.UnixMicro(end).Sub(now)
	if passed < period.Longest()/leastPassed || wait >= float64(left) {
		return time.Time{}, false
	}
	return now.Add(time.Duration(wait)), true
}
