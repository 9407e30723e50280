// Package limits is the language of limits. A limit says how many, per what time, for
// whom, on which calls; it stands in a plan, in the policy or in an override. The package
// parses and prints limits in words and as JSON, finds the routes that a call falls under
// and what it costs, lists the limits that apply to a call with the counts that they read,
// and says what is wrong with a policy. It knows no Valkey and no clock.
//
// Every limit that matches a call applies; none wins over another. A route says what its
// calls cost, and where several routes match, each unit comes from the most specific route
// that names it.
package limits

import (
	"slices"
	"strings"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/limiter/calendar"
)

// Bounds of a Limit.
const (
	MaxRequests     = 1_000_000_000        // the most calls, or the greatest cost, of one window
	MinWindow       = time.Millisecond     // the shortest window
	MaxWindow       = 366 * 24 * time.Hour // the longest window
	MinNotifyWindow = time.Minute          // the shortest window of a limit with thresholds
	MaxNotify       = 5                    // the most thresholds of one limit
	MaxNameLen      = 100                  // bytes of the name of a route or of a unit
	MaxExcept       = 10                   // the most routes that one limit leaves out
)

// Units that every call has.
const (
	Cost  = ""      // of a limit without a unit: the call's cost
	Calls = "calls" // each call counts as 1, whatever it costs
)

// Bounds of a Limit of calls at once.
const (
	MaxAtOnce   = 1_000            // the most calls at once; to that number a log is exact
	DefaultUpTo = 30 * time.Second // how long a call counts that nobody ends
	MinUpTo     = time.Second
	MaxUpTo     = 24 * time.Hour
)

// Limit admits at most Requests of a unit in any Window. The zero value is not valid.
type Limit struct {
	Requests int64         // 1 to MaxRequests; 0 if Lifted
	Unit     string        // Cost, Calls, or a unit that the cost of a route names
	Window   time.Duration // MinWindow to MaxWindow, in whole milliseconds; 0 with a Calendar
	// AtOnce limits calls at the same time, MaxAtOnce at most. A settlement ends a call;
	// without one it counts for Window, MinUpTo to MaxUpTo. Its Unit is Calls.
	AtOnce    bool
	Calendar  calendar.Period   // aligns a fixed window to a period of the calendar
	Zone      string            // IANA name of the Calendar's time zone; empty means UTC
	Day       int               // of a billing month as it applies to a caller; else 0
	Algorithm limiter.Algorithm // the zero value is the exact log

	Who    Who      // for whom it counts apart
	Param  string   // name of the path parameter of EachParam and CallerParam, without braces
	On     string   // a route's name, or a pattern; empty for every call
	Except []string // names and patterns of calls that it leaves out, in ascending order

	CountDenied bool  // denied calls count too
	Notify      []int // percentages, ascending; a call that reaches one is reported
	Shadow      bool  // denies nothing; what it would deny is counted
	Lifted      bool  // "no limit": an override's word that a limit does not hold
}

// NamesPattern reports whether on or except is a pattern itself.
func (l Limit) NamesPattern() bool {
	return strings.Contains(l.On, "/") ||
		slices.ContainsFunc(l.Except, func(text string) bool { return strings.Contains(text, "/") })
}

// Step returns the limit as package limiter counts it.
func (l Limit) Step() limiter.Limit {
	return limiter.Limit{Requests: l.Requests, Window: l.Window, Algorithm: l.Algorithm, Calendar: l.Calendar,
		Zone: l.Zone, Day: l.Day, CountDenied: l.CountDenied, Shadow: l.Shadow}
}

// Span returns the length of the limit's window, or the greatest length of its calendar
// period.
func (l Limit) Span() time.Duration {
	if l.Calendar != calendar.None {
		return l.Calendar.Longest()
	}
	return l.Window
}

// Equal reports whether two limits are the same in every field.
func (l Limit) Equal(other Limit) bool { return l.String() == other.String() }

const maxZoneName = 60 // bytes
