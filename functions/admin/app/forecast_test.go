package app_test

import (
	"testing"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/internal/enforce"
	"tidegate/internal/limiter/calendar"
	"tidegate/internal/limits"
)

// The date on which a quota is full, of known calls: used of the quota since the period
// began in its zone, also where the clock changed in between.
func TestForecastOfQuotas(t *testing.T) {
	const berlin, york = "Europe/Berlin", "America/New_York"
	for name, c := range map[string]struct {
		period      calendar.Period
		zone        string
		quota, used int64
		now         string // in the zone
		want        string // empty for none
	}{
		"half in a third of a month": {calendar.Month, "UTC", 1000, 500, "2026-11-11T00:00",
			"2026-11-21T00:00"},
		"on the last day": {calendar.Month, "UTC", 1000, 970,
			"2026-11-30T00:00", "2026-11-30T21:31"},
		"lasts to the last call": {calendar.Month, "UTC", 1000, 500, "2026-11-16T00:00", ""},
		"February": {calendar.Month, "UTC", 1000, 500,
			"2026-02-14T00:00", "2026-02-27T00:00"},
		"the zone's month": {calendar.Month, berlin, 1000, 400,
			"2026-12-05T00:00", "2026-12-11T00:00"},
		"autumn, a day of 25 hours": {calendar.Week, berlin, 1000, 900,
			"2026-10-25T00:00", "2026-10-25T15:00"},
		"spring, a day of 23 hours": {calendar.Day, york, 1000, 550, "2026-03-08T12:00",
			"2026-03-08T21:00"},
		"a year":    {calendar.Year, "UTC", 1000, 500, "2026-03-02T00:00", "2026-05-01T00:00"},
		"too early": {calendar.Month, "UTC", 1000, 500, "2026-11-02T06:59", ""},
		"early enough": {calendar.Month, "UTC", 1000, 500,
			"2026-11-02T07:05", "2026-11-03T14:10"},
		"too few calls": {calendar.Month, "UTC", 30, 19, "2026-11-03T00:00", ""},
		"enough calls": {calendar.Month, "UTC", 30, 20,
			"2026-11-03T00:00", "2026-11-04T00:00"},
		"used up":     {calendar.Month, "UTC", 1000, 1000, "2026-11-11T00:00", ""},
		"an hour":     {calendar.Hour, "UTC", 1000, 500, "2026-11-11T00:20", ""},
		"no calendar": {calendar.None, "UTC", 1000, 500, "2026-11-11T00:20", ""},
		"more than time": {calendar.Year, "UTC", limits.MaxRequests, 20,
			"2026-12-31T00:00", ""},
	} {
		t.Run(name, func(t *testing.T) {
			zone, err := time.LoadLocation(c.zone)
			if err != nil {
				t.Fatal(err)
			}
			at := func(text string) time.Time {
				when, err := time.ParseInLocation("2006-01-02T15:04", text, zone)
				if err != nil {
					t.Fatal(err)
				}
				return when
			}
			l := enforce.LimitState{Remaining: c.quota - c.used}
			l.Limit = limits.Limit{Requests: c.quota, Calendar: c.period, Zone: c.zone}
			got := ""
			if full, ok := app.FullAt(l, at(c.now)); ok {
				got = full.In(zone).Format("2006-01-02T15:04")
			}
			if got != c.want {
				t.Errorf("got full at %q, want %q", got, c.want)
			}
		})
	}
}
