package policy

import (
	"fmt"
	"slices"

	"tidegate/internal/limiter"
)

// SharedLimit is a limit that several callers share.
type SharedLimit struct {
	Field string // as in FieldError: "global.limits[0]"
	Scope string // ScopeIP, ScopeGlobal, ScopeRouteIP or ScopeRouteAll
	Route Route  // zero for ScopeIP and ScopeGlobal
	Limit limiter.Limit
}

// SharedCountDenied lists the limits that count denied calls and that several callers
// share: those of an address too, because several callers can have one address. The
// denied calls of one caller can keep such a limit closed for all, so ValidateAfter
// refuses new ones.
func (s *Set) SharedCountDenied() []SharedLimit {
	var found []SharedLimit
	add := func(field, scope string, r Route, limits []limiter.Limit) {
		for i, l := range limits {
			if l.CountDenied {
				found = append(found, SharedLimit{fmt.Sprintf("%s[%d]", field, i), scope, r, l})
			}
		}
	}
	add("perIP.limits", ScopeIP, Route{}, s.PerIP.Limits)
	add("global.limits", ScopeGlobal, Route{}, s.Global.Limits)
	for i, r := range s.Routes {
		at := fmt.Sprintf("routes[%d].", i)
		add(at+"perIP", ScopeRouteIP, r, r.PerIP)
		add(at+"shared", ScopeRouteAll, r, r.Shared)
	}
	return found
}

// ValidateAfter reports everything that is wrong with a Set that replaces current, as an
// *InvalidError: what Validate reports, and limits of SharedCountDenied that current
// lacks.
func (s *Set) ValidateAfter(current *Set) error {
	fields := s.errors()
	known := current.SharedCountDenied()
	for _, l := range s.SharedCountDenied() {
		if l.Limit.Algorithm != limiter.Log {
			continue // refused by Validate
		}
		if i := slices.IndexFunc(known, l.continues); i >= 0 {
			known = slices.Delete(known, i, i+1)
			continue
		}
		fields = append(fields, FieldError{l.Field + ".countDenied",
			sharedCountDenied})
	}
	return Invalid(fields)
}

const sharedCountDenied = "is set, but several callers share this limit, and one that keeps calling " +
	"would keep out the others: leave it out, or set it on limits of each caller"

// continues reports whether old is the limit that l was before an edit. The number of
// requests may differ, and the name or the pattern of the route.
func (l SharedLimit) continues(old SharedLimit) bool {
	return l.Scope == old.Scope && l.Limit.Window == old.Limit.Window &&
		(l.Route.Name == old.Route.Name || l.Route.Pattern == old.Route.Pattern)
}
