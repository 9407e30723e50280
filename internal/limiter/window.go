package limiter

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

var windowUnits = []struct {
	name string
	size time.Duration
}{
	{"day", 24 * time.Hour},
	{"hour", time.Hour},
	{"minute", time.Minute},
	{"second", time.Second},
	{"millisecond", time.Millisecond},
}

// WindowUnits lists the units of a window, longest first: day, hour, minute, second,
// millisecond.
func WindowUnits() []string {
	names := make([]string, len(windowUnits))
	for i, u := range windowUnits {
		names[i] = u.name
	}
	return names
}

// SplitWindow returns the window as a count of the longest unit that divides it: 90 s is
// 90, "second".
func SplitWindow(w time.Duration) (count int64, unit string) {
	for _, u := range windowUnits {
		if w >= u.size && w%u.size == 0 {
			return int64(w / u.size), u.name
		}
	}
	return int64(w / time.Millisecond), "millisecond"
}

// JoinWindow is the inverse of SplitWindow; unit may be plural. It fails for an unknown
// unit or a window beyond the bounds of a Limit.
func JoinWindow(count int64, unit string) (time.Duration, error) {
	for _, u := range windowUnits {
		if unit != u.name && unit != u.name+"s" {
			continue
		}
		if count < 1 || count > int64(MaxWindow/u.size) {
			return 0, fmt.Errorf("window is %d %ss: must be 1 millisecond to 366 days", count, u.name)
		}
		return time.Duration(count) * u.size, nil
	}
	return 0, fmt.Errorf("unit %q is not one of %s", unit, strings.Join(WindowUnits(), ", "))
}

// FormatWindow returns a window in words: "10 seconds", "1 hour", or Go's own notation
// below a millisecond.
func FormatWindow(w time.Duration) string {
	if w < time.Millisecond || w%time.Millisecond != 0 {
		return w.String()
	}
	count, unit := SplitWindow(w)
	if count == 1 {
		return "1 " + unit
	}
	return strconv.FormatInt(count, 10) + " " + unit + "s"
}

// ShortWindow returns a window as ParseWindow reads it: "10s", "1h", "30d", "250ms".
func ShortWindow(w time.Duration) string {
	if w%time.Millisecond != 0 || w < time.Millisecond {
		return w.String()
	}
	count, unit := SplitWindow(w)
	if unit == "millisecond" {
		return strconv.FormatInt(count, 10) + "ms"
	}
	return strconv.FormatInt(count, 10) + unit[:1]
}

// ParseWindow reads a window: a whole number of d, or what time.ParseDuration takes
// ("10s", "1h30m").
func ParseWindow(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 32)
		if err != nil || n < 1 || n > int64(MaxWindow/(24*time.Hour)) {
			return 0, fmt.Errorf("window %.40q: days must be a whole number, 1d to 366d", text)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	w, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("window %.40q: must be a number and ms, s, m, h or d, such as 10s", text)
	}
	return w, nil
}
