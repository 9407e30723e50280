package app

import (
	"time"

	"tidegate/internal/limiter"
)

// The data that a forecast needs: fewer calls, or a shorter part of the period, say little.
const (
	leastUsed   = 20 // cost
	leastPassed = 24 // the period, divided by this
)

// FullAt returns when a calendar quota of a day or longer is used up if its use goes on at
// the average since the period began, or since the quota counts. It returns false if the
// quota lasts until it resets, is used up already, or has too little data.
func FullAt(u limiter.Usage, now time.Time) (time.Time, bool) {
	period := u.Limit.Calendar
	if period == limiter.NoCalendar || period.Longest() < 24*time.Hour || u.Remaining <= 0 ||
		u.Used() < leastUsed {
		return time.Time{}, false
	}
	start, end := period.Around(now.UnixMicro(), period.Shifts(u.Limit.Zone, now))
	begin := time.UnixMicro(start)
	if u.Since.After(begin) {
		begin = u.Since
	}
	passed := now.Sub(begin)
	wait := float64(passed) * float64(u.Remaining) / float64(u.Used())
	left := time.UnixMicro(end).Sub(now)
	if passed < period.Longest()/leastPassed || wait >= float64(left) {
		return time.Time{}, false
	}
	return now.Add(time.Duration(wait)), true
}
