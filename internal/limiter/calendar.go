package limiter

import (
	"fmt"
	"strconv"
	"time"
)

// Calendar aligns a FixedWindow to periods of the calendar in a time zone. The zero value
// aligns to the epoch.
type Calendar uint8

// The calendar periods. Their names in text are "minute", "hour", "day", "week", "month"
// and "year"; NoCalendar's is "". Their numbers are stored.
const (
	NoCalendar Calendar = iota
	Minute
	Hour
	Day
	Month
	Week // from Monday, as ISO 8601 has it
	Year
)

var calendarNames = [...]string{NoCalendar: "", Minute: "minute", Hour: "hour", Day: "day", Month: "month",
	Week: "week", Year: "year"}

// Calendars lists every calendar period, the shortest first.
func Calendars() []Calendar { return []Calendar{Minute, Hour, Day, Week, Month, Year} }

// String returns the period's name.
func (c Calendar) String() string {
	if int(c) < len(calendarNames) {
		return calendarNames[c]
	}
	return "calendar(" + strconv.Itoa(int(c)) + ")"
}

// ParseCalendar is the inverse of String.
func ParseCalendar(name string) (Calendar, error) {
	for c, n := range calendarNames {
		if n == name {
			return Calendar(c), nil
		}
	}
	return 0, fmt.Errorf("calendar %q is not one of minute, hour, day, week, month, year", name)
}

// longest returns the length of the period; of a day and what is longer with the hour
// that the end of summer time adds, of a month with 31 days, of a year with 366.
func (c Calendar) longest() time.Duration {
	switch c {
	case Minute:
		return time.Minute
	case Hour:
		return time.Hour
	case Day:
		return 25 * time.Hour
	case Month:
		return 31*24*time.Hour + time.Hour
	case Week:
		return 7*24*time.Hour + time.Hour
	case Year:
		return 366*24*time.Hour + time.Hour
	default:
		return 0
	}
}

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

// shift is a change of a zone's offset from UTC.
type shift struct {
	from   int64 // microseconds since 1970
	offset int64 // microseconds east of UTC
}

const (
	// how far ahead a Program knows its zones; later, the last offset stays
	shiftsAhead = 10 * 366 * 24 * time.Hour
	maxShifts   = 64
)

// shiftsOf lists the offsets of a zone from two periods before now on, but two months at
// least, the first one from the beginning of time.
func (c Calendar) shiftsOf(zone string, now time.Time) []shift {
	location, err := time.LoadLocation(zone)
	if err != nil {
		location = time.UTC
	}
	t := now.Add(-2 * max(c.longest(), Month.longest())).In(location)
	_, offset := t.Zone()
	shifts := []shift{{0, int64(offset) * 1e6}}
	for end := now.Add(shiftsAhead); t.Before(end) && len(shifts) < maxShifts; {
		// ZoneBounds stands still at the end of some years after 2037, and ends zones at
		// the end of others
		next := t.Add(24 * time.Hour)
		if _, bound := t.ZoneBounds(); bound.IsZero() {
			break
		} else if bound.After(t) {
			next = bound
		}
		if _, changed := next.Zone(); changed != offset {
			offset = changed
			start, _ := next.ZoneBounds()
			shifts = append(shifts, shift{start.UnixMicro(), int64(offset) * 1e6})
		}
		t = next
	}
	return shifts
}

// shiftAt returns the index of the shift that holds at an instant.
func shiftAt(shifts []shift, us int64) int {
	i := len(shifts) - 1
	for i > 0 && us < shifts[i].from {
		i--
	}
	return i
}

// reached returns the first instant, from the shift with an index on, at which the zone's
// clocks show at least a local time. Where clocks skip that time it is the instant of the
// skip.
func reached(shifts []shift, from int, local int64) int64 {
	for i := from; ; i++ {
		us := local - shifts[i].offset
		if i > 0 {
			us = max(us, shifts[i].from)
		}
		if i == len(shifts)-1 || us < shifts[i+1].from {
			return us
		}
	}
}

const dayMicros = 24 * 3600 * 1_000_000

// period returns the calendar period that holds now: [start, end).
func (c Calendar) period(now int64, shifts []shift) (start, end int64) {
	current := shiftAt(shifts, now)
	local := now + shifts[current].offset
	switch c {
	case Minute, Hour:
		unit := c.longest().Microseconds()
		start = local - local%unit - shifts[current].offset
		return start, start + unit
	case Day:
		start = local - local%dayMicros
		end = start + dayMicros
	case Week:
		day := local / dayMicros
		start = (day - (day+3)%7) * dayMicros // 1970 began on a Thursday
		end = start + 7*dayMicros
	case Year:
		first, next := yearAround(local / dayMicros)
		start, end = first*dayMicros, next*dayMicros
	default:
		first, next := monthAround(local / dayMicros)
		start, end = first*dayMicros, next*dayMicros
	}
	return reached(shifts, 0, start), reached(shifts, current, end)
}

// fromMarch returns the year of a day since 1970 within its 400 years, and the day of
// that year, both from 0. Years begin in March, so that the day of a leap year is the
// last. The arithmetic is Howard Hinnant's civil_from_days.
func fromMarch(day int64) (year, of int64) {
	doe := (day + 719468) % 146097
	year = (doe - doe/1460 + doe/36524 - doe/146096) / 365
	return year, doe - (365*year + year/4 - year/100)
}

// daysOf returns the days of a year, counted as fromMarch counts.
func daysOf(year int64) int64 {
	if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		return 366
	}
	return 365
}

// monthAround returns the days since 1970 of the first of the month that holds a day, and
// of the first of the next month.
func monthAround(day int64) (first, next int64) {
	year, of := fromMarch(day)
	month := (5*of + 2) / 153 // 0 is March
	begins := (153*month + 2) / 5
	length := (153*(month+1)+2)/5 - begins
	if month == 11 { // February ends where the next year begins
		length = daysOf(year+1) - 337
	}
	return day - of + begins, day - of + begins + length
}

// yearAround returns the days since 1970 of the first of January of the year that holds a
// day, and of the next.
func yearAround(day int64) (first, next int64) {
	const january = 306 // day of a year that begins in March
	year, of := fromMarch(day)
	if of >= january {
		first = day - of + january
		return first, first + daysOf(year+1)
	}
	next = day - of + january
	return next - daysOf(year), next
}
