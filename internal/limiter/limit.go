package limiter

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Bounds of a Limit.
const (
	MaxRequests  = 1_000_000_000        // the most calls one window may admit
	MinWindow    = time.Millisecond     // the shortest window
	MaxWindow    = 366 * 24 * time.Hour // the longest window
	MaxLimits    = 8                    // the most limits on one subject
	DefaultSlots = 10_000               // the slots of a Log whose Slots is 0
	MinSlots     = 64                   // the fewest slots of a Log
	MaxSlots     = 100_000              // the most slots of a Log
)

// Algorithm names a way of counting calls in a window. The zero value is Log.
type Algorithm uint8

// The algorithms. Their names in text (String, ParseAlgorithm) are "log", "counter",
// "token-bucket" and "fixed-window".
const (
	// Log is the exact sliding window: the time of every admitted call is kept, so no
	// rolling window ever holds more than the limit.
	Log Algorithm = iota
	// Counter estimates the sliding window from two adjacent fixed windows, weighting the
	// previous one by its overlap.
	Counter
	// TokenBucket admits a burst of Requests at once and refills evenly over the Window:
	// the generic cell rate algorithm (GCRA, ITU-T I.371), which is also the leaky bucket
	// as a meter.
	TokenBucket
	// FixedWindow counts from zero in each window, aligned to the epoch or to the
	// calendar. Twice the limit can pass around a boundary.
	FixedWindow
)

var algorithmNames = [...]string{Log: "log", Counter: "counter", TokenBucket: "token-bucket",
	FixedWindow: "fixed-window"}

// Algorithms lists every algorithm, in the order in which forms should offer them.
func Algorithms() []Algorithm { return []Algorithm{Log, Counter, TokenBucket, FixedWindow} }

// String returns the algorithm's name in configuration and forms.
func (a Algorithm) String() string {
	if int(a) < len(algorithmNames) {
		return algorithmNames[a]
	}
	return "algorithm(" + strconv.Itoa(int(a)) + ")"
}

// ParseAlgorithm is the inverse of String.
func ParseAlgorithm(name string) (Algorithm, error) {
	for a, n := range algorithmNames {
		if n == name {
			return Algorithm(a), nil
		}
	}
	return 0, fmt.Errorf("algorithm %q is not one of %s", name, strings.Join(algorithmNames[:], ", "))
}

// Limit is at most Requests calls (or that much cost) in any Window.
// The zero value is not a valid Limit; see Validate for the bounds.
type Limit struct {
	Requests  int64         // 1 to MaxRequests
	Window    time.Duration // MinWindow to MaxWindow, in whole milliseconds; 0 with a Calendar
	Algorithm Algorithm

	// CountDenied makes denied calls count as well, so that a caller who goes on stays
	// out. Log only. Every call is written then.
	CountDenied bool
	// Slots bounds the memory of a Log: with more Requests than Slots, each slot stands
	// for Requests/Slots calls (rounded up) and carries the time of the latest, so that
	// never more than Requests are admitted, and at most 1/Slots of them withheld.
	// MinSlots to MaxSlots; 0 means DefaultSlots.
	Slots int

	// Calendar aligns a FixedWindow to calendar periods in Zone, in place of Window.
	Calendar Calendar
	// Zone is the IANA name of the Calendar's time zone; empty means UTC.
	Zone string

	// Notify lists the parts of the limit to report when a call reaches them. It changes
	// no decision.
	Notify Thresholds

	// Shadow makes the limit deny no call. It counts, by itself, the calls that it would
	// admit and that the list's other limits admit; what exceeds it has a RetryAfter and
	// takes nothing from it.
	Shadow bool
}

// group returns how many calls a slot of a Log stands for.
func (l Limit) group() int64 {
	slots := int64(l.Slots)
	if slots == 0 {
		slots = DefaultSlots
	}
	return (l.Requests + slots - 1) / slots
}

// Span returns the length of the limit's window; of a calendar period the longest one
// that there is.
func (l Limit) Span() time.Duration {
	if l.Calendar != NoCalendar {
		return l.Calendar.Longest()
	}
	return l.Window
}

// FieldError is what is wrong with one field of a Limit: requests, window, algorithm,
// countDenied, slots, calendar, zone, notify or mode.
type FieldError struct {
	Field   string
	Message string // names the value, its bound and, where there is one, a way out
}

func (e FieldError) Error() string { return e.Field + " " + e.Message }

// Errors returns every bound that the limit breaks; nil when it is valid.
func (l Limit) Errors() []FieldError {
	var errs []FieldError
	add := func(field, format string, args ...any) {
		errs = append(errs, FieldError{field, fmt.Sprintf(format, args...)})
	}
	if l.Requests < 1 || l.Requests > MaxRequests {
		add("requests", "is %d: must be 1 to %d", l.Requests, MaxRequests)
	}
	if problem := l.windowProblem(); problem != "" {
		add("window", "%s", problem)
	}
	if int(l.Algorithm) >= len(algorithmNames) {
		add("algorithm", "is %d: must be one of %s", l.Algorithm, strings.Join(algorithmNames[:], ", "))
	}
	if l.CountDenied && l.Algorithm != Log {
		add("countDenied", "is set: only algorithm log can count denied calls")
	}
	if l.Slots != 0 && (l.Algorithm != Log || l.Slots < MinSlots || l.Slots > MaxSlots) {
		add("slots", "is %d: must be %d to %d, with algorithm log only", l.Slots, MinSlots, MaxSlots)
	}
	if l.Calendar != NoCalendar && (l.Algorithm != FixedWindow || l.Calendar > Year) {
		add("calendar",
			"is %s: must be minute, hour, day, week, month or year, with algorithm fixed-window only",
			l.Calendar)
	}
	if problem := zoneProblem(l); problem != "" {
		add("zone", "%s", problem)
	}
	if problem := l.notifyProblem(); problem != "" {
		add("notify", "%s", problem)
	}
	return errs
}

func (l Limit) windowProblem() string {
	switch {
	case l.Calendar != NoCalendar && l.Window != 0:
		return "is " + FormatWindow(l.Window) + ": must be left out with a calendar"
	case l.Calendar != NoCalendar:
		return ""
	case l.Window < MinWindow || l.Window > MaxWindow:
		return "is " + FormatWindow(l.Window) + ": must be 1 millisecond to 366 days"
	case l.Window%time.Millisecond != 0:
		return "is " + l.Window.String() + ": must be whole milliseconds"
	}
	return ""
}

// Validate returns what Errors returns as one error.
func (l Limit) Validate() error {
	var errs []error
	for _, e := range l.Errors() {
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}

// String returns the limit in words: "100 per 10 seconds", "1000 per calendar month".
func (l Limit) String() string {
	if l.Calendar != NoCalendar {
		return strconv.FormatInt(l.Requests, 10) + " per calendar " + l.Calendar.String()
	}
	return strconv.FormatInt(l.Requests, 10) + " per " + FormatWindow(l.Window)
}

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
