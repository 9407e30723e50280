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
