package dashboard

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"tidegate/internal/limiter"
	"tidegate/web/templates"
)

// number writes 1000000 as 1,000,000.
func number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}

// limitWords writes a limit as "1,000 per 10 minutes", "5 per second" or "1,000 per calendar month (Europe/Berlin)".
func limitWords(l limiter.Limit) string {
	if l.Calendar == limiter.NoCalendar {
		return number(l.Requests) + " per " + strings.TrimPrefix(limiter.FormatWindow(l.Window), "1 ")
	}
	return number(l.Requests) + " per calendar " + l.Calendar.String() + " (" + cmp.Or(l.Zone, "UTC") + ")"
}

// limitMarks says what sets a limit apart from a plain log.
func limitMarks(l limiter.Limit) []string {
	var marks []string
	if l.Algorithm != limiter.Log {
		marks = append(marks, algorithmWord(l.Algorithm))
	}
	if l.CountDenied {
		marks = append(marks, "denied calls count")
	}
	if l.Slots != 0 {
		marks = append(marks, number(int64(l.Slots))+" slots")
	}
	return marks
}

// fullWords writes all of a limit: "100 per 10 seconds, denied calls count".
func fullWords(l limiter.Limit) string {
	return strings.Join(append([]string{limitWords(l)}, limitMarks(l)...), ", ")
}

func eachInWords(limits []limiter.Limit) []string {
	words := make([]string, len(limits))
	for i, l := range limits {
		words[i] = fullWords(l)
	}
	return words
}

func limitsWords(limits []limiter.Limit) string { return strings.Join(eachInWords(limits), "; ") }

func algorithmWord(a limiter.Algorithm) string {
	switch a {
	case limiter.Log:
		return "exact"
	case limiter.Counter:
		return "estimate"
	case limiter.TokenBucket:
		return "token bucket"
	case limiter.FixedWindow:
		return "fixed window"
	}
	return a.String()
}

// span writes how long to wait, rounded up so that nobody comes too early: "3.2 s", "2 min 5 s", "1 h 20 min", "3 d 4 h".
func span(d time.Duration) string {
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

func instant(t time.Time) templates.Instant {
	t = t.UTC()
	return templates.Instant{Text: t.Format("2006-01-02 15:04:05") + " UTC", Machine: t.Format(time.RFC3339)}
}

// clip returns at most n characters of text that anybody may have typed, fit to be shown: controls and marks that turn the direction of writing are
// replaced, so that a name can neither hide nor move what stands beside it.
func clip(text string, n int) string {
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
