package limiter

import (
	"strconv"
	"time"

	"tidegate/internal/limiter/calendar"
)

// MaxRequests is the largest number of a limit, and the largest cost.
const MaxRequests = 1_000_000_000

// Limit admits at most Requests calls, or calls of that total cost, in any Window. Package
// limits has the language of limits and its bounds; this is what a step needs of one.
type Limit struct {
	Requests  int64         // 1 to MaxRequests
	Window    time.Duration // 1 millisecond to 366 days, whole milliseconds; 0 with a Calendar
	Algorithm Algorithm

	// Calendar aligns a FixedWindow to calendar periods in Zone, in place of Window. Zone is
	// an IANA name; empty means UTC.
	Calendar Calendar
	Zone     string
	Day      int // on which a billing month begins, 1 to 31

	CountDenied bool // denied calls count too; with Log only
	Shadow      bool // denies nothing
}

// Span returns the length of the limit's window, or the greatest length of its calendar
// period.
func (l Limit) Span() time.Duration {
	if l.Calendar != NoCalendar {
		return l.Calendar.Longest()
	}
	return l.Window
}

// Algorithm names a way of counting calls in a window. The zero value is Log.
type Algorithm uint8

// The algorithms. Their names in text (String) are "log", "counter",
// "token-bucket" and "fixed-window".
const (
	// Log is the exact sliding window: it stores the times of admitted calls, merged only
	// so that no rolling window ever has more than the limit.
	Log Algorithm = iota
	// Counter estimates the sliding window from two adjacent fixed windows, weighting the
	// previous one by its overlap.
	Counter
	// TokenBucket admits a burst of Requests at once and refills evenly over the Window.
	// It is the generic cell rate algorithm (GCRA, ITU-T I.371), also known as the leaky
	// bucket as a meter.
	TokenBucket
	// FixedWindow counts from zero in each window, aligned to the epoch or to the
	// calendar. It can admit twice the limit around a boundary.
	FixedWindow
)

var algorithmNames = [...]string{Log: "log", Counter: "counter", TokenBucket: "token-bucket",
	FixedWindow: "fixed-window"}

// Algorithms lists the algorithms, in the order in which forms offer them.
func Algorithms() []Algorithm { return []Algorithm{Log, Counter, TokenBucket, FixedWindow} }

// String returns the algorithm's name in configuration and forms.
func (a Algorithm) String() string {
	if int(a) < len(algorithmNames) {
		return algorithmNames[a]
	}
	return "algorithm(" + strconv.Itoa(int(a)) + ")"
}

// Calendar aligns a FixedWindow to periods of the calendar in a time zone. The zero value
// aligns to the epoch.
type Calendar = calendar.Period

// The calendar periods. Their names in text are "minute", "hour", "day", "week", "month",
// "year" and "billing month"; NoCalendar's is "".
const (
	NoCalendar   = calendar.None
	Minute       = calendar.Minute
	Hour         = calendar.Hour
	Day          = calendar.Day
	Month        = calendar.Month
	Week         = calendar.Week // from Monday (ISO 8601)
	Year         = calendar.Year
	BillingMonth = calendar.BillingMonth
)
