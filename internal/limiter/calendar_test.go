package limiter

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidegate/internal/testing/histories"
)

// zones are time zones of every kind: whole hours, halves and quarters, summer time of
// half an hour, in both hemispheres, at midnight, around Ramadan; and places that changed
// their day, their half hour or their mind.
var zones = []string{
	"UTC", "Europe/Berlin", "Europe/London", "Europe/Dublin", "Europe/Lisbon", "Europe/Moscow",
	"Europe/Istanbul", "Atlantic/Azores",
	"Atlantic/Reykjavik",
	"America/New_York", "America/Chicago", "America/Phoenix", "America/Los_Angeles", "America/Anchorage",
	"America/Adak", "America/St_Johns",
	"America/Havana", "America/Caracas", "America/Sao_Paulo", "America/Santiago", "America/Asuncion",
	"America/Scoresbysund", "Africa/Casablanca",
	"Africa/Cairo", "Africa/Monrovia", "Africa/Johannesburg", "Asia/Beirut", "Asia/Amman", "Asia/Gaza",
	"Asia/Tehran", "Asia/Kabul", "Asia/Kolkata",
	"Asia/Kathmandu", "Asia/Yangon", "Asia/Shanghai", "Asia/Pyongyang", "Asia/Tokyo", "Australia/Adelaide",
	"Australia/Eucla", "Australia/Lord_Howe",
	"Pacific/Auckland", "Pacific/Chatham", "Pacific/Apia", "Pacific/Kiritimati", "Pacific/Marquesas",
	"Antarctica/Troll",
}

var (
	firstInstant = time.Date(1971, 1, 1, 0, 0, 0, 0, time.UTC)
	lastInstant  = time.Date(2100, 12, 31, 0, 0, 0, 0, time.UTC)
)

// clockWork is an instant in a zone, and a calendar period there.
type clockWork struct {
	zone     string
	at       time.Time // in the zone
	calendar Calendar
	compiled time.Time // some years before
	shifts   []shift   // as they were known then
}

// drawClockWork draws an instant, half of the time within two days of a shift. It is
// uniform, where rapid prefers small numbers.
func drawClockWork(t *rapid.T) clockWork {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	c := clockWork{zone: zones[r.IntN(len(zones))], calendar: Calendars()[r.IntN(len(Calendars()))]}
	c.at = firstInstant.Add(time.Duration(r.Int64N(int64(lastInstant.Sub(firstInstant))))).Truncate(
		time.Microsecond).In(load(t, c.zone))
	if _, end := c.at.ZoneBounds(); !end.IsZero() && end.Before(lastInstant) && r.IntN(2) == 0 {
		c.at = end.Add(time.Duration(r.Int64N(int64(4*24*time.Hour))) - 2*24*time.Hour).Truncate(
			time.Microsecond)
	}
	c.compiled = c.at.Add(-time.Duration(r.Int64N(int64(shiftsAhead - 400*24*time.Hour))))
	c.shifts = c.calendar.shiftsOf(c.zone, c.compiled)
	return c
}

func load(t rapid.TB, zone string) *time.Location {
	t.Helper()
	location, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	return location
}

// window returns the period that holds an instant.
func (c clockWork) window(at time.Time) (start, end time.Time) {
	from, to := c.calendar.period(at.UnixMicro(), c.shifts)
	return time.UnixMicro(from).In(c.at.Location()), time.UnixMicro(to).In(c.at.Location())
}

// local returns the period by Go's calendar.
func (c clockWork) local() (start, end time.Time) {
	year, month, day := c.at.Date()
	date := func(month time.Month, day int) time.Time {
		return time.Date(year, month, day, 0, 0, 0, 0, c.at.Location())
	}
	switch c.calendar {
	case Minute:
		start = c.at.Add(-time.Duration(c.at.Second())*time.Second - time.Duration(c.at.Nanosecond()))
		return start, start.Add(time.Minute)
	case Hour:
		start = c.at.Add(-time.Duration(c.at.Minute())*time.Minute - time.Duration(
			c.at.Second())*time.Second - time.Duration(c.at.Nanosecond()))
		return start, start.Add(time.Hour)
	case Day:
		return date(month, day), date(month, day+1)
	case Week:
		monday := day - (int(c.at.Weekday())+6)%7
		return date(month, monday), date(month, monday+7)
	case Year:
		return date(1, 1), date(13, 1)
	default:
		return date(month, 1), date(month+1, 1)
	}
}

// shiftsWithin reports whether the zone's clocks are moved within some time of an
// instant.
func shiftsWithin(reach time.Duration, at time.Time) bool {
	_, before := at.Add(-reach).Zone()
	_, between := at.Zone()
	_, after := at.Add(reach).Zone()
	return before != between || between != after
}

// A calendar window is the local minute, hour, day, week, month or year, as Go's time
// package has them, unless the clocks are moved within hours of where it begins or ends
// (for a minute or an hour: within it).
func TestCalendarWindowIsTheLocalPeriod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawClockWork(t)
		wantStart, wantEnd := c.local()
		if shiftsWithin(25*time.Hour, wantStart) || shiftsWithin(25*time.Hour, wantEnd) {
			return
		}
		if start, end := c.window(c.at); !start.Equal(wantStart) || !end.Equal(wantEnd) {
			t.Fatalf("%s of %s in %s is %s to %s, want %s to %s", c.calendar, c.at, c.zone, start, end,
				wantStart, wantEnd)
		}
	})
}

// Weeks are those of ISO 8601 also where a year ends, and years have their leap day.
func TestWeeksAndYears(t *testing.T) {
	for _, c := range []struct {
		calendar             Calendar
		zone, at, start, end string // local
	}{
		{Week, "UTC", "2024-12-29 23:59", "2024-12-23 00:00", "2024-12-30 00:00"}, // W52 of 2024
		{Week, "UTC", "2025-01-01 12:00", "2024-12-30 00:00", "2025-01-06 00:00"}, // W01 of 2025
		{Week, "UTC", "2021-01-03 00:00", "2020-12-28 00:00", "2021-01-04 00:00"}, // W53 of 2020
		{Week, "UTC", "2026-11-23 00:00", "2026-11-23 00:00", "2026-11-30 00:00"}, // a Monday
		{Week, "Asia/Tokyo", "2026-11-22 23:59", "2026-11-16 00:00", "2026-11-23 00:00"},
		{Week, "Europe/Berlin", "2027-03-28 12:00", "2027-03-22 00:00", "2027-03-29 00:00"}, // 167 h
		{Week, "Europe/Berlin", "2027-10-31 12:00", "2027-10-25 00:00", "2027-11-01 00:00"}, // 169 h
		{Year, "UTC", "2028-02-29 12:00", "2028-01-01 00:00", "2029-01-01 00:00"},           // 366 days
		{Year, "UTC", "2000-12-31 23:59", "2000-01-01 00:00", "2001-01-01 00:00"},           // 366 days
		{Year, "UTC", "2100-02-28 23:59", "2100-01-01 00:00", "2101-01-01 00:00"},           // 365 days
		{Year, "UTC", "2027-01-01 00:00", "2027-01-01 00:00", "2028-01-01 00:00"},
		{Year, "Pacific/Auckland", "2027-12-31 23:59", "2027-01-01 00:00", "2028-01-01 00:00"},
	} {
		location := load(t, c.zone)
		in := func(text string) time.Time {
			at, err := time.ParseInLocation("2006-01-02 15:04", text, location)
			if err != nil {
				t.Fatal(err)
			}
			return at
		}
		at := in(c.at)
		w := clockWork{at: at, calendar: c.calendar, shifts: c.calendar.shiftsOf(c.zone, at)}
		if start, end := w.window(at); !start.Equal(in(c.start)) || !end.Equal(in(c.end)) {
			t.Errorf("%s of %s in %s is %s to %s", c.calendar, c.at, c.zone, start, end)
		}
		year, week := in(c.start).ISOWeek()
		y, last := in(c.end).Add(-time.Microsecond).ISOWeek()
		if c.calendar == Week && (y != year || last != week) {
			t.Errorf("the week from %s is two", c.start)
		}
	}
}

// Every instant lies within its calendar window, also on the days on which the clocks are
// moved; one that did not would have no limit.
func TestCalendarWindowHoldsItsInstant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawClockWork(t)
		if start, end := c.window(c.at); c.at.Before(start) || !c.at.Before(end) {
			t.Fatalf("%s of %s in %s is %s to %s", c.calendar, c.at, c.zone, start, end)
		}
	})
}

// Days, weeks, months and years follow each other without gap or overlap, also where the
// clocks are moved at midnight, and each begins at a local midnight or, where the clocks
// jump over it, at the jump. Minutes and hours do so too, except where the clocks are
// moved inside one.
func TestCalendarWindowsTileTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawClockWork(t)
		start, end := c.window(c.at)
		if c.calendar <= Hour && (shiftsWithin(time.Hour, start) || shiftsWithin(time.Hour, end)) {
			return
		}
		if next, _ := c.window(end); !next.Equal(end) {
			t.Fatalf("%s of %s in %s ends at %s, the next begins at %s", c.calendar, c.at, c.zone, end, next)
		}
		if _, last := c.window(start.Add(-time.Microsecond)); !last.Equal(start) {
			t.Fatalf("%s of %s in %s begins at %s, the one before ends at %s", c.calendar, c.at,
				c.zone, start, last)
		}
		if c.calendar >= Day && !beginsDay(start) {
			t.Fatalf("%s of %s in %s begins at %s, which is no midnight", c.calendar, c.at, c.zone, start)
		}
	})
}

// beginsDay reports whether it is midnight, or the clocks jump over midnight now.
func beginsDay(at time.Time) bool {
	const microsecond = time.Microsecond
	return at.Hour() == 0 && at.Minute() == 0 && at.Second() == 0 && at.Nanosecond() == 0 ||
		at.Add(-microsecond).Day() != at.Day()
}

// A program knows the offset of its zones for ten years.
func TestZonesAreKnownForTenYears(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawClockWork(t)
		_, want := c.at.Zone()
		if got := c.shifts[shiftAt(c.shifts, c.at.UnixMicro())].offset / 1_000_000; got != int64(want) {
			t.Fatalf("%s at %s: a program of %s knows offset %d s, want %d s", c.zone, c.at,
				c.compiled, got, want)
		}
	})
}

// No day in the years to come has an hour without a limit: wherever the clocks are moved,
// at most twice the limit passes within the two days around it that make three windows at
// most.
func TestNoCalendarDayIsUnlimited(t *testing.T) {
	const requests = 3
	for _, name := range zones[:histories.N(len(zones))] {
		limits := []Limit{{Requests: requests, Algorithm: FixedWindow, Calendar: Day, Zone: name}}
		for shift := range shiftsOfYears(load(t, name), 2026, 2029) {
			var m Model
			admitted := 0
			for at := shift.Add(-24 * time.Hour); at.Before(shift.Add(24 * time.Hour)); at =
				at.Add(7 * time.Minute) {
				d, err := m.Take(at, limits, 1)
				if err != nil {
					t.Fatal(err)
				}
				if d.Allowed {
					admitted++
				}
			}
			if admitted > 3*requests {
				t.Errorf("%s admits %d calls within 24 h of %s, of %d a day", name, admitted, shift, requests)
			}
		}
	}
}

// shiftsOfYears yields the shifts of a zone.
func shiftsOfYears(location *time.Location, first, last int) func(yield func(time.Time) bool) {
	return func(yield func(time.Time) bool) {
		for at := time.Date(first, 1, 1, 0, 0, 0, 0, location); at.Year() < last; {
			_, end := at.ZoneBounds()
			if end.IsZero() || !yield(end) {
				return
			}
			at = end
		}
	}
}

// The script finds the same calendar windows as the model, in all zones and at all times.
func TestScriptKnowsTheCalendar(t *testing.T) {
	clock := newClocked(t)
	rapid.Check(t, func(t *rapid.T) {
		c := drawClockWork(t)
		s := clock.subject(Limit{Requests: 2, Algorithm: FixedWindow, Calendar: c.calendar, Zone: c.zone})
		s.now = c.at.Add(-time.Duration(rapid.Int64Range(0, int64(c.calendar.longest())).Draw(t,
			"before")).Truncate(time.Microsecond))
		var model Model
		for range 3 {
			want, err := model.Take(s.now, s.limits, 1)
			if got := s.do(t, 1); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				s.fail(t, "model %+v, %v", want, err)
			}
			s.now = c.at
		}
	})
}

// Releases from before weeks and years find no section of such a limit's number, and
// refuse the program before they change a state.
func TestLaterPeriodsAreMarked(t *testing.T) {
	for _, calendar := range Calendars() {
		limits := []Limit{
			{Requests: 9, Window: time.Hour},
			{Requests: 5, Algorithm: FixedWindow, Calendar: calendar},
		}
		p, err := Compile(limits, firstInstant)
		if err != nil {
			t.Fatal(err)
		}
		number := &p[4+2*sectionLen+limitLen+4]
		if later := calendar == Week || calendar == Year; later != (*number > p[3]) {
			t.Errorf("%s: section %d of %d", calendar, *number, p[3])
		}
		if got, err := p.Limits(); err != nil || fmt.Sprint(got) != fmt.Sprint(limits) {
			t.Errorf("%s: %v, %v", calendar, got, err)
		}
		*number ^= laterMark
		if got, err := p.Limits(); err == nil {
			t.Errorf("%s with the wrong mark is read as %v", calendar, got)
		}
	}
}
