package limits

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// windowUnits are the units of a window, longest first.
var windowUnits = []struct {
	name, short string
	size        time.Duration
}{
	{"day", "d", 24 * time.Hour}, {"hour", "h", time.Hour}, {"minute", "m", time.Minute},
	{"second", "s", time.Second}, {"millisecond", "ms", time.Millisecond},
}

// otherUnits has abbreviations that people write.
var otherUnits = map[string]string{"sec": "second", "secs": "second", "min": "minute", "mins": "minute",
	"hr": "hour", "hrs": "hour"}

// longUnits has the days of periods that only a calendar has exactly.
var longUnits = map[string]int64{"week": 7, "month": 30, "year": 365}

// joinWindow returns a window of count units.
func joinWindow(count int64, unit string) (time.Duration, error) {
	long := strings.TrimSuffix(unit, "s")
	days, found := longUnits[long]
	switch {
	case found && count == 1:
		return 0, fmt.Errorf(`"per %s" has two meanings: write "per calendar %s" or "per %d days"`,
			long, long, days)
	case found:
		return 0, fmt.Errorf(`unit %q is only for calendars: write days, such as "per %d days"`,
			long, min(count, 52)*days)
	}
	if name, known := otherUnits[unit]; known {
		unit = name
	}
	for _, u := range windowUnits {
		if unit != u.name && unit != u.name+"s" && unit != u.short {
			continue
		}
		if count < 1 || count > int64(MaxWindow/u.size) {
			return 0, fmt.Errorf("window is %d %ss: must be 1 millisecond to 366 days", count, u.name)
		}
		return time.Duration(count) * u.size, nil
	}
	return 0, fmt.Errorf("%.40q is not a time: write seconds, minutes, hours or days", unit)
}

// FormatWindow returns a window in words: "10 seconds", "1 hour".
func FormatWindow(w time.Duration) string {
	for _, u := range windowUnits {
		switch {
		case w == u.size:
			return "1 " + u.name
		case w > u.size && w%u.size == 0:
			return Number(int64(w/u.size)) + " " + u.name + "s"
		}
	}
	return w.String()
}

// ShortWindow formats a window as ParseWindow parses it: "10s", "1h", "30d".
func ShortWindow(w time.Duration) string {
	for _, u := range windowUnits {
		if w >= u.size && w%u.size == 0 {
			return strconv.FormatInt(int64(w/u.size), 10) + u.short
		}
	}
	return w.String()
}

// ParseWindow parses a whole number of days ("30d"), or any text that time.ParseDuration
// accepts ("10s", "1h30m").
func ParseWindow(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok && !strings.ContainsFunc(days, func(r rune) bool {
		return !unicode.IsDigit(r)
	}) {
		n, err := strconv.ParseInt(days, 10, 32)
		if err != nil || n < 1 || n > int64(MaxWindow/(24*time.Hour)) {
			return 0, fmt.Errorf("is %.40q: days must be a whole number, 1d to 366d", text)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	w, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("is %.40q: must be a number and ms, s, m, h or d, such as 10s", text)
	}
	return w, nil
}
