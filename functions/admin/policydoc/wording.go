package policydoc

import (
	"cmp"
	"strconv"
	"strings"

	"tidegate/internal/limiter"
)

// Number writes 1000000 as 1,000,000.
func Number(n int64) string {
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

// Rate writes the numbers of a limit: "1,000 per 10 minutes", "5 per second" or "1,000
// per calendar month (Europe/Berlin)".
func Rate(l limiter.Limit) string {
	if l.Calendar == limiter.NoCalendar {
		return Number(l.Requests) + " per " + strings.TrimPrefix(limiter.FormatWindow(l.Window), "1 ")
	}
	return Number(l.Requests) + " per calendar " + l.Calendar.String() + " (" + cmp.Or(l.Zone, utc) + ")"
}

const (
	utc         = "UTC"
	denialsMark = "denied calls count"
	slotsMark   = " slots"
	notifyMark  = "notify at "
	shadowMark  = "shadow"
	// estimateMark is the former name of the counter, still read.
	estimateMark = "estimate"
)

// Marks says what sets a limit apart from a plain log.
func Marks(l limiter.Limit) []string {
	var marks []string
	if l.Algorithm != limiter.Log {
		marks = append(marks, Algorithm(l.Algorithm))
	}
	if l.CountDenied {
		marks = append(marks, denialsMark)
	}
	if l.Slots != 0 {
		marks = append(marks, Number(int64(l.Slots))+slotsMark)
	}
	if text := l.Notify.String(); text != "" {
		marks = append(marks, notifyMark+text)
	}
	if l.Shadow {
		marks = append(marks, shadowMark)
	}
	return marks
}

// Algorithm names an algorithm for people.
func Algorithm(a limiter.Algorithm) string {
	switch a {
	case limiter.Log:
		return "exact"
	case limiter.TokenBucket:
		return "token bucket"
	case limiter.FixedWindow:
		return "fixed window"
	case limiter.Counter:
	}
	return a.String()
}

// LimitText writes all of a limit: "100 per 10 seconds, denied calls count".
func LimitText(l limiter.Limit) string {
	return strings.Join(append([]string{Rate(l)}, Marks(l)...), ", ")
}

// Each writes every limit of a list.
func Each(limits []limiter.Limit) []string {
	words := make([]string, len(limits))
	for i, l := range limits {
		words[i] = LimitText(l)
	}
	return words
}

// LimitsText writes a list of limits.
func LimitsText(limits []limiter.Limit) string { return strings.Join(Each(limits), "; ") }
