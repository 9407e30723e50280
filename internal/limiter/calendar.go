package limiter

import (
	"fmt"
	"strconv"
	"time"
)

// Calendar aligns a FixedWindow to periods of the calendar in a time zone. The zero value aligns to the epoch.
type Calendar uint8

// The calendar periods. Their names in text are "minute", "hour", "day" and "month"; NoCalendar's is "".
const (
	NoCalendar Calendar = iota
	Minute
	Hour
	Day
	Month
)

var calendarNames = [...]string{NoCalendar: "", Minute: "minute", Hour: "hour", Day: "day", Month: "month"}

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
	return 0, fmt.Errorf("calendar %q is not one of minute, hour, day, month", name)
}

// longest returns the length of the period; of a day with the hour that the end of summer time adds, of a month with 31 such days.
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
	shiftsAhead = 10 * 366 * 24 * time.Hour // how far ahead a Program knows its zones; later, the last offset stays
	maxShifts   = 40
)

// shiftsOf lists the offsets of a zone from the longest period before now on, the first one at the beginning of time.
func shiftsOf(zone string, now time.Time) []shift {
	location, err := time.LoadLocation(zone)
	if err != nil {
		location = time.UTC
	}
	t := now.Add(-2 * Month.longest()).In(location)
	var shifts []shift
	for len(shifts) < maxShifts {
		start, end := t.ZoneBounds()
		from := int64(0)
		if len(shifts) > 0 {
			from = start.UnixMicro()
		}
		_, offset := t.Zone()
		shifts = append(shifts, shift{from, int64(offset) * 1e6})
		if end.IsZero() || end.After(now.Add(shiftsAhead)) {
			break
		}
		t = end
	}
	return shifts
}

func offsetAt(shifts []shift, us int64) int64 {
	offset := shifts[0].offset
	for _, s := range shifts[1:] {
		if us >= s.from {
			offset = s.offset
		}
	}
	return offset
}

const dayMicros = 24 * 3600 * 1_000_000

// period returns the calendar period that holds now: [start, end).
func (c Calendar) period(now int64, shifts []shift) (start, end int64) {
	offset := offsetAt(shifts, now)
	local := now + offset
	switch c {
	case Minute, Hour:
		unit := c.longest().Microseconds()
		start = local - local%unit - offset
		return start, start + unit
	case Day:
		start = local - local%dayMicros
		end = start + dayMicros
	default:
		first, next := monthAround(local / dayMicros)
		start, end = first*dayMicros, next*dayMicros
	}
	return start - offsetAt(shifts, start-offset), end - offsetAt(shifts, end-offset)
}

// monthAround returns the days since 1970 of the first of the month that holds a day, and of the first of the next month. The arithmetic is Howard
// Hinnant's days_from_civil and civil_from_days, whose years begin in March.
func monthAround(day int64) (first, next int64) {
	z := day + 719468
	doe := z % 146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	month := (5*doy + 2) / 153 // 0 is March
	first = day - doy + (153*month+2)/5
	length := (153*(month+1)+2)/5 - (153*month+2)/5
	if month == 11 { // February ends where the next year begins
		year := yoe + 1
		length = 28
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			length = 29
		}
	}
	return first, first + length
}
