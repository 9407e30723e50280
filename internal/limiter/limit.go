package limiter

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/limiter/calendar"
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

// Limit admits at most Requests calls, or calls of that total cost, in any Window. The
// zero value is not valid; see Validate for the bounds.
type Limit struct {
	Requests  int64         // 1 to MaxRequests
	Window    time.Duration // MinWindow to MaxWindow, in whole milliseconds; 0 with a Calendar
	Algorithm Algorithm

	// CountDenied makes denied calls count too, so that a caller who keeps calling stays
	// denied. It is valid only with Log. Every call then writes to Valkey.
	CountDenied bool
	// Calls makes the limit count calls, whatever they cost.
	Calls bool
	// Slots bounds the memory of a Log, MinSlots to MaxSlots; 0 means DefaultSlots. With
	// more Requests than Slots, each slot stands for Requests/Slots calls (rounded up)
	// and has the time of the latest. So never more than Requests are admitted, and less
	// than one slot's calls are withheld.
	Slots int

	// Calendar aligns a FixedWindow to calendar periods in Zone, in place of Window.
	Calendar Calendar
	// Zone is the IANA name of the Calendar's time zone; empty means UTC.
	Zone string

	// Notify has the thresholds of usage that are reported when a call crosses them. They
	// change no decision.
	Notify Thresholds

	// Shadow makes the limit deny no call. It counts calls that it and the list's
	// enforced limits admit. A call that exceeds it takes nothing from it; the limit's
	// Usage then has a RetryAfter.
	Shadow bool
}

// Charge returns what a call of this cost takes from the limit.
func (l Limit) Charge(cost int64) int64 {
	if l.Calls {
		return min(cost, 1)
	}
	return cost
}

// group returns how many calls a slot of a Log stands for.
func (l Limit) group() int64 {
	slots := int64(l.Slots)
	if slots == 0 {
		slots = DefaultSlots
	}
	return (l.Requests + slots - 1) / slots
}

// Span returns the length of the limit's window, or the greatest length of its calendar
// period.
func (l Limit) Span() time.Duration {
	if l.Calendar != NoCalendar {
		return l.Calendar.Longest()
	}
	return l.Window
}

// FieldError is a problem of one field of a Limit.
type FieldError struct {
	Field   string // requests, window, algorithm, countDenied, slots, calendar, zone, notify or mode
	Message string // names the value, its bound and, if there is one, a remedy
}

func (e FieldError) Error() string { return e.Field + " " + e.Message }

// Errors returns an error for each invalid field; nil if the limit is valid.
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
	if problem := l.zoneProblem(); problem != "" {
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

// Validate returns the Errors as one error; nil if the limit is valid.
func (l Limit) Validate() error {
	var errs []error
	for _, e := range l.Errors() {
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}

// ValidateAll returns the errors of a list of limits, with their indexes; nil means that
// Compile accepts the list.
func ValidateAll(limits []Limit) error {
	if len(limits) < 1 || len(limits) > MaxLimits {
		return fmt.Errorf("limits: %d given, must be 1 to %d", len(limits), MaxLimits)
	}
	var errs []error
	for i, l := range limits {
		if err := l.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("limits[%d]: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

// String returns the limit in words: "100 per 10 seconds", "1000 per calendar month",
// "500 calls per 1 minute".
func (l Limit) String() string {
	most := strconv.FormatInt(l.Requests, 10)
	if l.Calls {
		most += " calls"
	}
	if l.Calendar != NoCalendar {
		return most + " per calendar " + l.Calendar.String()
	}
	return most + " per " + FormatWindow(l.Window)
}

// Algorithm names a way of counting calls in a window. The zero value is Log.
type Algorithm uint8

// The algorithms. Their names in text (String, ParseAlgorithm) are "log", "counter",
// "token-bucket" and "fixed-window".
const (
	// Log is the exact sliding window: it stores the time of every admitted call, so no
	// rolling window ever has more than the limit.
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

// ParseAlgorithm is the inverse of String.
func ParseAlgorithm(name string) (Algorithm, error) {
	if a := slices.Index(algorithmNames[:], name); a >= 0 {
		return Algorithm(a), nil
	}
	return 0, fmt.Errorf("algorithm %q is not one of %s", name, strings.Join(algorithmNames[:], ", "))
}

// Calendar aligns a FixedWindow to periods of the calendar in a time zone. The zero value
// aligns to the epoch.
type Calendar = calendar.Period

// The calendar periods. Their names in text are "minute", "hour", "day", "week", "month"
// and "year"; NoCalendar's is "". Their numbers are stored.
const (
	NoCalendar = calendar.None
	Minute     = calendar.Minute
	Hour       = calendar.Hour
	Day        = calendar.Day
	Month      = calendar.Month
	Week       = calendar.Week // from Monday (ISO 8601)
	Year       = calendar.Year
)

// Calendars lists the calendar periods, shortest first.
func Calendars() []Calendar { return calendar.Periods() }

// ParseCalendar is the inverse of Calendar's String.
func ParseCalendar(name string) (Calendar, error) { return calendar.Parse(name) }

const maxZoneName = 60 // bytes

func (l Limit) zoneProblem() string {
	if l.Zone == "" {
		return ""
	}
	if l.Calendar == NoCalendar {
		return fmt.Sprintf("is %.60q: only a calendar has a time zone", l.Zone)
	}
	if _, err := time.LoadLocation(l.Zone); err != nil || len(l.Zone) > maxZoneName || l.Zone == "Local" {
		return fmt.Sprintf("is %.60q: must be an IANA time zone such as Europe/Berlin", l.Zone)
	}
	return ""
}

// Redundant is a limit that never decides: every call that it denies, the limit By of the
// same list denies too. Both are indexes of the list.
type Redundant struct{ Limit, By int }

// RedundantLimits returns the limits of a list that are certainly redundant. A limit in
// shadow mode is redundant if By denies every call that it would deny. By is always an
// enforced limit.
func RedundantLimits(limits []Limit) []Redundant {
	var all []Redundant
	redundant := make([]bool, len(limits))
	for i, l := range limits {
		for j, by := range limits {
			if i != j && !redundant[j] && !by.Shadow && by.implies(l) {
				all = append(all, Redundant{i, j})
				redundant[i] = true
				break
			}
		}
	}
	return all
}

// implies reports whether the calls that l admits can never exceed other.
func (l Limit) implies(other Limit) bool {
	if l == other {
		return true
	}
	if other.CountDenied || l.Calls && !other.Calls { // counts what l does not
		return false
	}
	span, admits := other.Span(), other.Requests
	switch other.Algorithm {
	case Counter: // counts a part of the previous window too
		span *= 2
	case Log: // withholds up to one slot's calls
		if group := other.group(); group > 1 {
			admits -= group
		}
	case TokenBucket, FixedWindow:
	}
	most, known := l.maxCost(span)
	return known && most <= admits
}

// maxCost returns an upper bound of the cost that the limit admits in any span. The bound
// is unknown above MaxRequests and for a calendar limit, whose shortest period depends on
// its zone.
func (l Limit) maxCost(span time.Duration) (bound int64, known bool) {
	if l.Calendar != NoCalendar || l.Window <= 0 || l.Requests < 1 {
		return 0, false
	}
	windows := int64((span + l.Window - 1) / l.Window)
	if l.Algorithm != Log { // the span may reach into one more window
		windows++
	}
	return windows * l.Requests, windows <= MaxRequests/l.Requests
}
