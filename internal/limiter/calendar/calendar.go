// Package calendar computes when the minutes, hours, days, weeks, months and years of a
// time zone begin and end, in whole microseconds since 1970. Package limiter imports it.
// It has no state and reads no clock.
//
// It uses a list of the zone's offsets from UTC, which a limiter.Program carries. Valkey
// has no time zones, so the scripts compute the periods from the same list.
package calendar

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Period is a period of the calendar. Its name is "minute", "hour", "day", "week",
// "month", "year" or "billing month"; the name of None is "". Its number is stored, so it
// never changes.
type Period uint8

// The periods.
const (
	None Period = iota
	Minute
	Hour
	Day
	Month
	Week // from Monday (ISO 8601)
	Year
	BillingMonth // from a day of the month that a caller has
)

var names = [...]string{None: "", Minute: "minute", Hour: "hour", Day: "day", Month: "month",
	Week: "week", Year: "year", BillingMonth: "billing month"}

// Periods lists every period, the shortest first.
func Periods() []Period { return []Period{Minute, Hour, Day, Week, Month, BillingMonth, Year} }

// String returns the period's name.
func (p Period) String() string {
	if int(p) < len(names) {
		return names[p]
	}
	return "calendar(" + strconv.Itoa(int(p)) + ")"
}

// Parse is the inverse of String.
func Parse(name string) (Period, error) {
	if p := slices.Index(names[:], name); p >= 0 {
		return Period(p), nil
	}
	return 0, fmt.Errorf("calendar %q is not one of minute, hour, day, week, month, year, billing month",
		name)
}

// Longest returns the greatest length of the period: a month has 31 days, a year 366, and
// the end of summer time adds an hour to a day and to longer periods.
func (p Period) Longest() time.Duration {
	switch p {
	case Minute:
		return time.Minute
	case Hour:
		return time.Hour
	case Day:
		return 25 * time.Hour
	case Month, BillingMonth:
		return 31*24*time.Hour + time.Hour
	case Week:
		return 7*24*time.Hour + time.Hour
	case Year:
		return 366*24*time.Hour + time.Hour
	default:
		return 0
	}
}

// Shift is a change of a zone's offset from UTC.
type Shift struct {
	From   int64 // microseconds since 1970
	Offset int64 // microseconds east of UTC
}

const (
	// ahead is how far into the future a list of shifts reaches. After that, the last
	// offset applies.
	ahead     = 10 * 366 * 24 * time.Hour
	maxShifts = 64 // maximum length of a list of shifts
)

// Shifts lists the offsets of a zone, from two periods before now (at least two months)
// to ten years after. The first offset applies to all earlier times. An unknown zone
// counts as UTC.
func (p Period) Shifts(zone string, now time.Time) []Shift {
	location, err := time.LoadLocation(zone)
	if err != nil {
		location = time.UTC
	}
	t := now.Add(-2 * max(p.Longest(), Month.Longest())).In(location)
	_, offset := t.Zone()
	shifts := []Shift{{0, int64(offset) * 1e6}}
	for end := now.Add(ahead); t.Before(end) && len(shifts) < maxShifts; {
		// After 2037, ZoneBounds may return t itself at the end of a year, or an end at
		// which the offset does not change.
		next := t.Add(24 * time.Hour)
		if _, bound := t.ZoneBounds(); bound.IsZero() {
			break
		} else if bound.After(t) {
			next = bound
		}
		if _, changed := next.Zone(); changed != offset {
			offset = changed
			start, _ := next.ZoneBounds()
			shifts = append(shifts, Shift{start.UnixMicro(), int64(offset) * 1e6})
		}
		t = next
	}
	return shifts
}

// shiftAt returns the index of the shift that applies at a time.
func shiftAt(shifts []Shift, us int64) int {
	i := len(shifts) - 1
	for i > 0 && us < shifts[i].From {
		i--
	}
	return i
}

// reached returns the first time, from shifts[from] on, at which the zone's clocks show
// at least the local time (microseconds). If the clocks skip the local time, that is the
// time of the skip.
func reached(shifts []Shift, from int, local int64) int64 {
	for i := from; ; i++ {
		us := local - shifts[i].Offset
		if i > 0 {
			us = max(us, shifts[i].From)
		}
		if i == len(shifts)-1 || us < shifts[i+1].From {
			return us
		}
	}
}

const dayMicros = 24 * 3600 * 1_000_000

// Around returns the period [start, end) that contains now, in a zone with these shifts. A
// billing month begins on the given day, 1 to 31, or on the last day of a shorter month.
// Other periods ignore the day.
func (p Period) Around(now int64, shifts []Shift, day int) (start, end int64) {
	current := shiftAt(shifts, now)
	local := now + shifts[current].Offset
	switch p {
	case Minute, Hour:
		unit := p.Longest().Microseconds()
		start = local - local%unit - shifts[current].Offset
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
	case BillingMonth:
		first, next := billingMonthAround(local/dayMicros, int64(day))
		start, end = first*dayMicros, next*dayMicros
	default:
		first, next := monthAround(local / dayMicros)
		start, end = first*dayMicros, next*dayMicros
	}
	return reached(shifts, 0, start), reached(shifts, current, end)
}

// fromMarch returns the year of a day since 1970 within its era of 400 years, and the day
// of that year, both counted from 0. Years begin in March, so that a leap day is the last
// day. The arithmetic is Howard Hinnant's civil_from_days.
func fromMarch(day int64) (year, dayOfYear int64) {
	doe := (day + 719468) % 146097
	year = (doe - doe/1460 + doe/36524 - doe/146096) / 365
	return year, doe - (365*year + year/4 - year/100)
}

// daysOf returns the number of days of a year that begins in March, by its number from
// fromMarch.
func daysOf(year int64) int64 {
	if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		return 366
	}
	return 365
}

// monthAround returns the first day of the month that contains a day, and the first day
// of the next month, in days since 1970.
func monthAround(day int64) (first, next int64) {
	year, dayOfYear := fromMarch(day)
	month := (5*dayOfYear + 2) / 153 // 0 is March
	begins := (153*month + 2) / 5
	length := (153*(month+1)+2)/5 - begins
	if month == 11 { // February ends where the next year begins
		length = daysOf(year+1) - 337
	}
	return day - dayOfYear + begins, day - dayOfYear + begins + length
}

// billingMonthAround returns the first day of the billing month that contains a day, and
// of the next one, in days since 1970.
func billingMonthAround(day, begins int64) (first, next int64) {
	month, nextMonth := monthAround(day)
	dayIn := func(first, next int64) int64 { return min(first+begins, next) - 1 }
	if here := dayIn(month, nextMonth); day < here {
		return dayIn(monthAround(month - 1)), here
	}
	return dayIn(month, nextMonth), dayIn(monthAround(nextMonth))
}

// yearAround returns January 1 of the year that contains a day, and of the next year, in
// days since 1970.
func yearAround(day int64) (first, next int64) {
	const january = 306 // day of a year that begins in March
	year, dayOfYear := fromMarch(day)
	if dayOfYear >= january {
		first = day - dayOfYear + january
		return first, first + daysOf(year+1)
	}
	next = day - dayOfYear + january
	return next - daysOf(year), next
}
