package page

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// Number formats a count with a comma between thousands: 12,345.
func Number(n int64) string { return limits.Number(n) }

// AtLeast formats a count of which calls may be missing.
func AtLeast(n int64, incomplete bool) string {
	if incomplete {
		return "at least " + Number(n)
	}
	return Number(n)
}

// Span formats a waiting time, rounded up: "4 s", "2 min 5 s", "1 h 20 min", "3 d 4 h".
// A time of 0 or less is "0 s".
func Span(d time.Duration) string {
	switch {
	case d <= 0:
		return "0 s"
	case d <= time.Minute-time.Second:
		return fmt.Sprintf("%d s", (d+time.Second-1)/time.Second)
	case d <= time.Hour-time.Second:
		return pair(d, time.Minute, "min", time.Second, "s")
	case d <= 24*time.Hour-time.Minute:
		return pair(d, time.Hour, "h", time.Minute, "min")
	}
	return pair(d, 24*time.Hour, "d", time.Hour, "h")
}

// pair formats d in two units, rounded up to the smaller.
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

// Instant formats a time in UTC, to the second, as text and as RFC 3339.
func Instant(t time.Time) templates.Instant {
	t = t.UTC()
	return templates.Instant{Text: t.Format("2006-01-02 15:04:05") + " UTC", Machine: t.Format(time.RFC3339)}
}

// Offset formats the time since a start, to the microsecond: "0 s", "1.5 s", "2 min 0.06
// s", "3 d 4 h". A no-break space separates a number from its unit.
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

// MaxName bounds a name on a page, in characters.
const MaxName = 100

// Clip returns at most n characters of untrusted text, with an ellipsis if there are
// more. It replaces control characters and bidirectional controls, which could hide or
// move the text next to them.
func Clip(text string, n int) string {
	var b strings.Builder
	for _, c := range text {
		if n == 0 {
			b.WriteRune('…')
			break
		}
		if unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c) {
			c = utf8.RuneError
		}
		b.WriteRune(c)
		n--
	}
	return b.String()
}

// KeyChoices lists the keys that a typed name matches, each with its address. more says
// that others match too.
func KeyChoices(keys []policy.Key, more bool, address func(policy.Key) string) *templates.KeyChoices {
	c := &templates.KeyChoices{Lead: "Several keys match this name. Choose one:"}
	if more {
		c.Lead = "The first " + Number(int64(len(keys))) +
			" matching keys. Enter more of the name, or choose:"
	}
	for _, k := range keys {
		c.Keys = append(c.Keys,
			templates.KeyChoice{Name: Clip(k.Name, MaxName), ID: k.ID, Address: address(k)})
	}
	return c
}
