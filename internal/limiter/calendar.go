package limiter

import (
	"fmt"
	"time"

	"tidegate/internal/limiter/calendar"
)

// Calendar aligns a FixedWindow to periods of the calendar in a time zone. The zero value
// aligns to the epoch.
type Calendar = calendar.Period

// The calendar periods. Their names in text are "minute", "hour", "day", "week", "month"
// and "year"; NoCalendar's is "". Their numbers are stored.
const (
	NoCalendar = calendar.None
	Minute     = calendar.Minute
	Hour       = calendar.Hour
	Day        = calendar.Day
	Month      = calendar.Month
	Week       = calendar.Week // from Monday, as ISO 8601 has it
	Year       = calendar.Year
)

// Calendars lists every calendar period, the shortest first.
func Calendars() []Calendar { return calendar.Periods() }

// ParseCalendar is the inverse of Calendar's String.
func ParseCalendar(name string) (Calendar, error) { return calendar.Parse(name) }

const maxZoneName = 60

func zoneProblem(l Limit) string {
	if l.Zone == "" {
		return ""
	}
	if l.Calendar == NoCalendar {
		return fmt.Sprintf("is %.60q: only a calendar has a time zone", l.Zone)
	}
	if _, err := time.LoadLocation(l.Zone); err != nil || len(l.Zone) > maxZoneName || l.Zone == "Local" {
		return fmt.Sprintf("is %.60q: must be an IANA time zone such as Europe/Berlin", l.Zone)
	}
	return ""
}
