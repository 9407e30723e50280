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
	"cmp"
	"fmt"
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

// Who says for whom a limit counts apart.
type Who uint8

// The values of Who.
const (
	// Unsaid is each caller in a plan and in an override. The policy must say it.
	Unsaid Who = iota
	EachCaller
	EachGroup // of keys; keys in no group are not limited
	EachAddress
	EachParam     // each value of a path parameter, of all callers together
	CallerParam   // each caller and value of a path parameter
	CallerPattern // each caller and pattern of the route
	Together      // all callers: of the plan in a plan, of the policy in the policy
	lastWho       = Together
)

// OfCaller reports whether what the limit counts belongs to one caller. Such limits are
// one atomic step in the caller's slot.
func (w Who) OfCaller() bool {
	return w <= EachCaller || w == CallerParam || w == CallerPattern
}

// NamesPattern reports whether on or except is a pattern itself.
func (l Limit) NamesPattern() bool {
	return strings.Contains(l.On, "/") ||
		slices.ContainsFunc(l.Except, func(text string) bool { return strings.Contains(text, "/") })
}

// For returns for whom the limit counts apart, in words; empty for Unsaid.
func (l Limit) For() string {
	switch l.Who {
	case EachCaller:
		return "each caller"
	case EachGroup:
		return "each group"
	case EachAddress:
		return "each address"
	case EachParam:
		return "each {" + l.Param + "}"
	case CallerParam:
		return "each caller and {" + l.Param + "}"
	case CallerPattern:
		return "each caller and pattern"
	case Together:
		return "together"
	case Unsaid:
	}
	return ""
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

// FieldError is a problem of one field of a limit, a route or a policy.
type FieldError struct {
	Field   string // as in JSON: "window", "limits[1].on"
	Message string // names the value, its bound and what to do
}

func (e FieldError) Error() string { return strings.TrimSpace(e.Field + " " + e.Message) }

// Errors returns what is wrong with a limit by itself, a FieldError a field. What its place
// and the routes ask of it is checked by Policy.Errors.
func (l Limit) Errors() []FieldError {
	var errs []FieldError
	add := func(field, format string, args ...any) {
		errs = append(errs, FieldError{field, fmt.Sprintf(format, args...)})
	}
	switch {
	case l.Lifted:
		bare := Limit{Lifted: true, AtOnce: l.AtOnce, Unit: l.Unit, Who: l.Who, Param: l.Param, On: l.On,
			Except: l.Except}
		if !l.Equal(bare) {
			add("noLimit", "has only a unit, on, except and each beside it: leave out the rest")
		}
	case l.AtOnce:
		errs = append(errs, l.atOnceErrors()...)
	default:
		if l.Requests < 1 || l.Requests > MaxRequests {
			add("requests", "is %d: must be 1 to %s", l.Requests, Number(MaxRequests))
		}
		if problem := l.windowProblem(); problem != "" {
			add("window", "%s", problem)
		}
	}
	if int(l.Algorithm) >= len(limiter.Algorithms()) {
		add("algorithm", "is %d: must be one of %s", l.Algorithm, algorithmWords())
	}
	if l.Unit != Cost && l.Unit != Calls {
		if problem := UnitProblem(l.Unit); problem != "" {
			add("unit", "%s", problem)
		}
	}
	if l.Calendar != calendar.None && l.Algorithm != limiter.FixedWindow {
		add("algorithm", "is %s: a calendar period is a fixed window, so leave it out",
			Algorithm(l.Algorithm))
	}
	if problem := l.zoneProblem(); problem != "" {
		add("zone", "%s", problem)
	}
	if l.CountDenied && l.Algorithm != limiter.Log {
		add("countDenied", "is set with %s: only the exact algorithm counts denied calls",
			Algorithm(l.Algorithm))
	}
	if l.CountDenied && l.Who > EachCaller {
		add("countDenied", "is set on a limit that is not for each caller: leave it out")
	}
	if problem := l.notifyProblem(); problem != "" {
		add("notify", "%s", problem)
	}
	return append(errs, l.callErrors()...)
}

// atOnceErrors returns what is wrong with a limit of calls at once.
func (l Limit) atOnceErrors() []FieldError {
	var errs []FieldError
	add := func(field, format string, args ...any) {
		errs = append(errs, FieldError{field, fmt.Sprintf(format, args...)})
	}
	if l.Requests < 1 || l.Requests > MaxAtOnce {
		add("atOnce", "is %d: must be 1 to %s", l.Requests, Number(MaxAtOnce))
	}
	if l.Window < MinUpTo || l.Window > MaxUpTo || l.Window%time.Millisecond != 0 {
		add("upTo", "is %s: must be 1 second to 24 hours", FormatWindow(l.Window))
	}
	if l.Unit != Calls {
		add("unit", "is set, but calls at once are counted as calls: leave it out")
	}
	if l.Algorithm != limiter.Log || l.Calendar != calendar.None {
		add("algorithm", "is set, but calls at once have none: leave it out")
	}
	if len(l.Notify) > 0 {
		add("notify", "is set, but calls at once have no thresholds: leave it out")
	}
	if l.CountDenied {
		add("countDenied", "is set, but denied calls do not last: leave it out")
	}
	if !l.Who.OfCaller() && l.Who != EachGroup {
		add("each", "is %s: calls at once are of each caller or each group", l.For())
	}
	return errs
}

// callErrors returns what is wrong with for whom and on which calls the limit counts.
func (l Limit) callErrors() []FieldError {
	var errs []FieldError
	add := func(field, format string, args ...any) {
		errs = append(errs, FieldError{field, fmt.Sprintf(format, args...)})
	}
	if l.Who > lastWho {
		add("each", "is unknown: write caller, group, address or a path parameter such as {channel}")
	}
	if named := l.Who == EachParam || l.Who == CallerParam; named != (l.Param != "") {
		add("each", "names the parameter %q: it belongs to each {parameter}", l.Param)
	}
	if l.On == "" && (l.Who == EachParam || l.Who == CallerParam) {
		add("each", "{%s} needs a route whose every pattern has {%s}: add one with on", l.Param, l.Param)
	}
	if l.Calendar == calendar.BillingMonth && !l.Who.OfCaller() && l.Who != EachGroup {
		add("each", "is %s: billing months are of each caller or each group", l.For())
	}
	if l.On == "" && l.Who == CallerPattern {
		add("each", "pattern needs a route: add one with on")
	}
	if l.On != "" {
		if _, problem := parseTarget(l.On); problem != "" {
			add("on", "%s", problem)
		}
	}
	if len(l.Except) > MaxExcept {
		add("except", "%d given: must be at most %d; give the routes one with several patterns",
			len(l.Except), MaxExcept)
	}
	for i, text := range l.Except {
		switch _, problem := parseTarget(text); {
		case problem != "":
			add(fmt.Sprintf("except[%d]", i), "%s", problem)
		case text == l.On:
			add(fmt.Sprintf("except[%d]", i), "is %s, which the limit is on: leave one out", text)
		case slices.Contains(l.Except[:i], text):
			add(fmt.Sprintf("except[%d]", i), "is %s again: leave it out", text)
		}
	}
	return errs
}

func (l Limit) windowProblem() string {
	switch {
	case l.Calendar > calendar.BillingMonth:
		return "is unknown: must be minute, hour, day, week, month, year or billing month"
	case l.Calendar != calendar.None && l.Window != 0:
		return "is " + FormatWindow(l.Window) + ": must be left out with a calendar"
	case l.Calendar != calendar.None:
		return ""
	case l.Window < MinWindow || l.Window > MaxWindow:
		return "is " + FormatWindow(l.Window) + ": must be 1 millisecond to 366 days"
	case l.Window%time.Millisecond != 0:
		return "is " + l.Window.String() + ": must be whole milliseconds"
	}
	return ""
}

const maxZoneName = 60 // bytes

func (l Limit) zoneProblem() string {
	if l.Zone == "" {
		return ""
	}
	if l.Calendar == calendar.None {
		return fmt.Sprintf("is %.60q: only a calendar has a time zone", l.Zone)
	}
	if l.Calendar == calendar.BillingMonth {
		return fmt.Sprintf("is %.60q, but a billing month has the time zone of the key or the group: "+
			"leave it out", l.Zone)
	}
	return zoneNameProblem(l.Zone)
}

func zoneNameProblem(zone string) string {
	if _, err := time.LoadLocation(zone); err != nil || len(zone) > maxZoneName || zone == "Local" {
		return fmt.Sprintf("is %.60q: must be an IANA time zone such as Europe/Berlin", zone)
	}
	return ""
}

func (l Limit) notifyProblem() string {
	ascending := slices.IsSortedFunc(l.Notify, func(a, b int) int {
		return cmp.Or(cmp.Compare(a, b), -1) // equal ones are out of order
	})
	outside := func(p int) bool { return p < 1 || p > 100 }
	switch {
	case len(l.Notify) == 0:
		return ""
	case len(l.Notify) > MaxNotify || !ascending || slices.ContainsFunc(l.Notify, outside):
		return fmt.Sprintf("must be up to %d percentages from 1 to 100, in ascending order", MaxNotify)
	case l.CountDenied:
		return "is set, but denied calls count: leave out one of the two"
	case l.Span() < MinNotifyWindow && l.windowProblem() == "":
		return fmt.Sprintf("is set, but the window is %s: use at least 1 minute", FormatWindow(l.Window))
	}
	return ""
}
