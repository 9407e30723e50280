package calendar

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "tidegate/internal/testing/tier" // few under the race detector
	"tidegate/internal/testing/zones"
)

// zoned is an instant in a zone, and a calendar period there.
type zoned struct {
	at     time.Time // in the zone
	period Period
	day    int       // of a billing month
	listed time.Time // when shifts was made, some years before at
	shifts []Shift
}

func drawZoned(t *rapid.T) zoned {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	c := zoned{at: zones.Instant(r), period: Periods()[r.IntN(len(Periods()))], day: 1 + r.IntN(31)}
	c.listed = c.at.Add(-time.Duration(r.Int64N(int64(ahead - 400*24*time.Hour))))
	c.shifts = c.period.Shifts(c.at.Location().String(), c.listed)
	return c
}

func (c zoned) String() string {
	return fmt.Sprintf("%s of %s in %s, day %d", c.period, c.at, c.at.Location(), c.day)
}

// window returns the period that contains an instant.
func (c zoned) window(at time.Time) (start, end time.Time) {
	from, to := c.period.Around(at.UnixMicro(), c.shifts, c.day)
	return time.UnixMicro(from).In(c.at.Location()), time.UnixMicro(to).In(c.at.Location())
}

// local returns the period that contains c.at, computed with package time.
func (c zoned) local() (start, end time.Time) {
	year, month, day := c.at.Date()
	date := func(month time.Month, day int) time.Time {
		return time.Date(year, month, day, 0, 0, 0, 0, c.at.Location())
	}
	switch c.period {
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
	case BillingMonth:
		begins := func(month time.Month) time.Time {
			if last := date(month+1, 0).Day(); c.day > last {
				return date(month, last)
			}
			return date(month, c.day)
		}
		if c.at.Before(begins(month)) {
			month--
		}
		return begins(month), begins(month + 1)
	default:
		return date(month, 1), date(month+1, 1)
	}
}

// shiftsWithin reports whether the zone's offset changes within reach of an instant,
// before or after it.
func shiftsWithin(reach time.Duration, at time.Time) bool {
	_, before := at.Add(-reach).Zone()
	_, between := at.Zone()
	_, after := at.Add(reach).Zone()
	return before != between || between != after
}

// A calendar window is the local minute, hour, day, week, month, year or billing month that
// package time computes. Windows are left out if the zone's offset changes within 25 hours of their
// start or end.
func TestCalendarWindowIsTheLocalPeriod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawZoned(t)
		wantStart, wantEnd := c.local()
		if shiftsWithin(25*time.Hour, wantStart) || shiftsWithin(25*time.Hour, wantEnd) {
			return
		}
		if start, end := c.window(c.at); !start.Equal(wantStart) || !end.Equal(wantEnd) {
			t.Fatalf("%s: got %s to %s, want %s to %s", c, start, end, wantStart, wantEnd)
		}
	})
}

// Weeks are those of ISO 8601, also at the end of a year. Leap years have 366 days.
func TestWeeksAndYears(t *testing.T) {
	for _, c := range []struct {
		period               Period
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
		location, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		in := func(text string) time.Time {
			at, err := time.ParseInLocation("2006-01-02 15:04", text, location)
			if err != nil {
				t.Fatal(err)
			}
			return at
		}
		at := in(c.at)
		w := zoned{at: at, period: c.period, shifts: c.period.Shifts(c.zone, at)}
		if start, end := w.window(at); !start.Equal(in(c.start)) || !end.Equal(in(c.end)) {
			t.Errorf("%s: got %s to %s, want %s to %s", w, start, end, c.start, c.end)
		}
		year, week := in(c.start).ISOWeek()
		lastYear, lastWeek := in(c.end).Add(-time.Microsecond).ISOWeek()
		if c.period == Week && (lastYear != year || lastWeek != week) {
			t.Errorf("week from %s: ends in ISO week %d of %d, want %d of %d", c.start, lastWeek, lastYear,
				week, year)
		}
	}
}

// Every instant is within its calendar window, also on days when the zone's offset
// changes. Otherwise the calls of that time would have no limit.
func TestCalendarWindowContainsInstant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawZoned(t)
		if start, end := c.window(c.at); c.at.Before(start) || !c.at.Before(end) {
			t.Fatalf("%s: got %s to %s, want a window that contains the instant", c, start, end)
		}
	})
}

// Calendar windows follow each other without gaps or overlaps, also if the zone's offset
// changes at midnight. Days and longer periods begin at a local midnight, or at the
// change if the clocks skip midnight. Minutes and hours are left out near a change.
func TestCalendarWindowsTileTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawZoned(t)
		start, end := c.window(c.at)
		if c.period <= Hour && (shiftsWithin(time.Hour, start) || shiftsWithin(time.Hour, end)) {
			return
		}
		if next, _ := c.window(end); !next.Equal(end) {
			t.Fatalf("%s: next window begins at %s, want %s", c, next, end)
		}
		if _, last := c.window(start.Add(-time.Microsecond)); !last.Equal(start) {
			t.Fatalf("%s: previous window ends at %s, want %s", c, last, start)
		}
		if c.period >= Day && !beginsDay(start) {
			t.Fatalf("%s: begins at %s, want midnight", c, start)
		}
	})
}

// beginsDay reports whether a local day begins at an instant: at midnight, or where the
// clocks skip midnight.
func beginsDay(at time.Time) bool {
	const microsecond = time.Microsecond
	return at.Hour() == 0 && at.Minute() == 0 && at.Second() == 0 && at.Nanosecond() == 0 ||
		at.Add(-microsecond).Day() != at.Day()
}

// A list of shifts has the offsets of a zone for the next ten years.
func TestShiftsReachTenYears(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawZoned(t)
		_, want := c.at.Zone()
		if got := c.shifts[shiftAt(c.shifts, c.at.UnixMicro())].Offset / 1_000_000; got != int64(want) {
			t.Fatalf("%s, listed %s: got offset %d s, want %d s", c, c.listed, got, want)
		}
	})
}
