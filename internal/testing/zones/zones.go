// Package zones has time zones of every kind, and random instants in them, for tests of
// calendars.
package zones

import (
	"math/rand/v2"
	"time"
)

// Names has zones with offsets of whole, half and quarter hours. Some have summer time of
// half an hour, from midnight, or paused for Ramadan, in both hemispheres. Some skipped a
// day, moved by half an hour, or reversed a change.
var Names = []string{
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
	first = time.Date(1971, 1, 1, 0, 0, 0, 0, time.UTC)
	last  = time.Date(2100, 12, 31, 0, 0, 0, 0, time.UTC)
)

// Instant returns a random instant from 1971 to 2100 in one of the zones, half of the
// time within two days of a shift. It is uniform; package rapid would prefer small
// numbers.
func Instant(r *rand.Rand) time.Time {
	location, err := time.LoadLocation(Names[r.IntN(len(Names))])
	if err != nil {
		panic(err)
	}
	at := first.Add(time.Duration(r.Int64N(int64(last.Sub(first))))).In(location)
	if _, end := at.ZoneBounds(); !end.IsZero() && end.Before(last) && r.IntN(2) == 0 {
		at = end.Add(time.Duration(r.Int64N(int64(4*24*time.Hour))) - 2*24*time.Hour)
	}
	return at.Truncate(time.Microsecond)
}
