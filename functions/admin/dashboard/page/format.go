package page

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/policydoc"
	"tidegate/web/templates"
)

// Number writes a count with separators: 12,345.
func Number(n int64) string { return policydoc.Number(n) }

// Span writes how long to wait, rounded up so that nobody comes too early: "3.2 s", "2
// min 5 s", "1 h 20 min", "3 d 4 h".
func Span(d time.Duration) string {
	switch {
	case d <= 0:
		return "0 s"
	case d <= time.Minute-100*time.Millisecond:
		tenths := (d + 100*time.Millisecond - 1) / (100 * time.Millisecond)
		return fmt.Sprintf("%d.%d s", tenths/10, tenths%10)
	case d <= time.Hour-time.Second:
		return pair(d, time.Minute, "min", time.Second, "s")
	case d <= 24*time.Hour-time.Minute:
		return pair(d, time.Hour, "h", time.Minute, "min")
	}
	return pair(d, 24*time.Hour, "d", time.Hour, "h")
}

func pair(d, big time.Duration, bigName string, small time.Duration, smallName string) string {
	if rest := d % small; rest > 0 {
		d += small - rest
	}
	text := fmt.Sprintf("%d %s", d/big, bigName)
	if rest := d % big / small; rest > 0 {
		text += fmt.Sprintf(" %d %s", rest, smallName)
	}
	return text
}

// Instant writes a time in UTC, for people and for programs.
func Instant(t time.Time) templates.Instant {
	t = t.UTC()
	return templates.Instant{Text: t.Format("2006-01-02 15:04:05") + " UTC", Machine: t.Format(time.RFC3339)}
}

// Offset writes an instant counted from a start, to the microsecond: "0 s", "1.5 s", "2
// min 0.06 s", "3 d 4 h". No line breaks between a number and its unit.
func Offset(d time.Duration) string {
	var parts []string
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}} {
		if n := d / unit.size; n > 0 {
			parts = append(parts, fmt.Sprintf("%d\u00a0%s", n, unit.name))
			d %= unit.size
		}
	}
	if d > 0 || len(parts) == 0 {
		parts = append(parts, strconv.FormatFloat(float64(d.Microseconds())/1e6, 'f', -1, 64)+"\u00a0s")
	}
	return strings.Join(parts, " ")
}

// ParseInstant reads a time of an address or of a field of a form: RFC 3339, or UTC
// without a zone and perhaps without seconds.
func ParseInstant(text string) (time.Time, error) {
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Parse(time.RFC3339, text)
}
