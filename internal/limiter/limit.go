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

// ValidateAll reports what is wrong with a list of limits; nil means that Compile accepts
// it. Every error names the limit by its index.
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

// String returns the limit in words: "100 per 10 seconds", "1000 per calendar month".
func (l Limit) String() string {
	if l.Calendar != NoCalendar {
		return strconv.FormatInt(l.Requests, 10) + " per calendar " + l.Calendar.String()
	}
	return strconv.FormatInt(l.Requests, 10) + " per " + FormatWindow(l.Window)
}
