package policy

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/route"
)

// Bounds of a Set.
const (
	MaxPlans          = 500
	MaxRoutes         = 500
	MaxPrefixes       = 500 // in each list of addresses
	MaxNumber         = 10_000
	MaxSetBytes       = 1 << 20
	MaxGroupOverrides = 100
)

// Validate returns an *InvalidError with everything that is wrong with a Set.
func (s *Set) Validate() error { return Invalid(s.errors()) }

func (s *Set) errors() []FieldError {
	fields := slices.Concat(
		s.planErrors(), s.routeErrors(), s.scopeErrors("perIP", s.PerIP), s.scopeErrors("global", s.Global),
		prefixErrors("deny", s.Deny), prefixErrors("allow", s.Allow), prefixErrors("exempt", s.Exempt),
		s.groupErrors(),
	)
	for field, name := range map[string]string{"tokenPlan": s.TokenPlan, "addressPlan": s.AddressPlan} {
		if _, found := s.Plan(name); name != "" && !found {
			fields = append(fields, FieldError{field, fmt.Sprintf("no plan is named %.100q", name)})
		}
	}
	return fields
}

// tooMany says that a list is longer than its bound, and what to do.
func tooMany(n, most int, advice string) string {
	return fmt.Sprintf("%d given: must be at most %d. %s", n, most, advice)
}

func (s *Set) groupErrors() []FieldError {
	var fields fieldErrors
	if n := len(s.GroupOverrides); n > MaxGroupOverrides {
		fields.add("groupOverrides", tooMany(n, MaxGroupOverrides,
			"End another first, or give the keys of a group a plan with these limits"))
	}
	for _, name := range slices.Sorted(maps.Keys(s.GroupOverrides)) {
		at := "groupOverrides." + name
		fields.add(at, GroupProblem(name))
		o := s.GroupOverrides[name]
		fields = append(fields, o.errors(at+".", s)...)
	}
	return fields
}

func (s *Set) planErrors() []FieldError {
	if len(s.Plans) > MaxPlans {
		return []FieldError{{"plans", tooMany(len(s.Plans), MaxPlans,
			"Give callers that differ in their limits alone one plan, and a key or a group an override")}}
	}
	var fields fieldErrors
	seen := map[string]bool{}
	for i, p := range s.Plans {
		at := fmt.Sprintf("plans[%d].", i)
		fields.add(at+"name", nameProblem(p.Name, seen))
		fields.add(at+"mode", modeProblem(p.Mode))
		fields = append(fields, limitErrors(at+"limits", p.Limits, true)...)
		fields = append(fields, costErrors(at+"limits", p.Limits, s.Routes)...)
		fields = append(fields, sharedErrors(at+"perGroup", p.PerGroup, s.Routes)...)
		fields = append(fields, allowErrors(at+"allow", p.Allow)...)
		switch p.Degraded {
		case "", Closed, Open:
			if p.Share != 0 {
				fields.add(at+"share", fmt.Sprintf("is %d: only degraded local has a share", p.Share))
			}
		case Local:
			if p.Share < 1 || p.Share > 100 {
				fields.add(at+"share", fmt.Sprintf("is %d: must be 1 to 100 percent", p.Share))
			}
		default:
			fields.add(at+"degraded",
				fmt.Sprintf("is %.20q: must be closed, open or local", string(p.Degraded)))
		}
	}
	return fields
}

func (s *Set) routeErrors() []FieldError {
	if len(s.Routes) > MaxRoutes {
		return []FieldError{{"routes", tooMany(len(s.Routes), MaxRoutes,
			"Let patterns with * or {name} match several routes")}}
	}
	var fields []FieldError
	patterns := make([]route.Pattern, len(s.Routes))
	seen := map[string]bool{}
	for i, r := range s.Routes {
		patterns[i] = r.Pattern
		fields = append(fields, r.errors(fmt.Sprintf("routes[%d].", i), seen)...)
	}
	for _, tie := range route.Ties(patterns) {
		a, b := s.Routes[tie[0]], s.Routes[tie[1]]
		fields = append(fields, FieldError{
			fmt.Sprintf("routes[%d].pattern", tie[1]),
			fmt.Sprintf("ties with route %q: a call could match both %s and %s, and neither is more specific",
				a.Name, a.Pattern, b.Pattern),
		})
	}
	return fields
}

func (r Route) errors(at string, seen map[string]bool) []FieldError {
	var fields fieldErrors
	fields.add(at+"name", nameProblem(r.Name, seen))
	for _, e := range r.Pattern.Errors() {
		fields.add(at+"pattern."+e.Field, e.Message)
	}
	if r.Cost < 0 || r.Cost > limiter.MaxRequests {
		fields.add(at+"cost", fmt.Sprintf("is %d: must be 0 to %d", r.Cost, limiter.MaxRequests))
	}
	if r.Settle && r.Cost == 0 {
		fields.add(at+"settle",
			"is set, but a call of cost 0 has nothing to settle: must have a cost of 1 at least")
	}
	fields.add(at+"settleMax", r.settleMaxProblem())
	fields.add(at+"mode", modeProblem(r.Mode))
	fields = append(fields, limitErrors(at+"perKey", r.PerKey, false)...)
	fields = append(fields, costErrors(at+"perKey", r.PerKey, []Route{r})...)
	fields = append(fields, sharedErrors(at+"perIP", r.PerIP, []Route{r})...)
	return append(fields, sharedErrors(at+"shared", r.Shared, []Route{r})...)
}

func (s *Set) scopeErrors(field string, scope Scope) []FieldError {
	fields := fieldErrors(sharedErrors(field+".limits", scope.Limits, s.Routes))
	fields.add(field+".mode", modeProblem(scope.Mode))
	return fields
}

// settleMaxProblem returns the problem of SettleMax; empty if it is valid.
func (r Route) settleMaxProblem() string {
	least := max(r.Cost, 1)
	if r.SettleMax == 0 || r.SettleMax >= least && r.SettleMax <= limiter.MaxRequests {
		return ""
	}
	return fmt.Sprintf("is %d: must be at least the cost, %d to %d; leave it out for %d times the cost",
		r.SettleMax, least, int64(limiter.MaxRequests), DefaultSettleMax)
}

// sharedErrors validates limits that several callers share, also those of an address. They
// must not count denied calls, because those of one caller would exhaust them for all.
func sharedErrors(field string, limits []limiter.Limit, routes []Route) []FieldError {
	fields := append(limitErrors(field, limits, false), costErrors(field, limits, routes)...)
	for i, l := range limits {
		if l.CountDenied && l.Algorithm == limiter.Log {
			at := fmt.Sprintf("%s[%d].countDenied", field, i)
			fields = append(fields, FieldError{at, "is set, but several callers share this limit, and one " +
				"that keeps calling would keep out the others: leave it out, or set it on limits of each " +
				"caller"})
		}
	}
	return fields
}

// allowErrors validates a list of patterns; field is its name.
func allowErrors(field string, allow []route.Pattern) []FieldError {
	if len(allow) > MaxAllow {
		return []FieldError{{field, tooMany(len(allow), MaxAllow,
			"Let patterns with * or {name} match several routes")}}
	}
	var fields []FieldError
	for i, p := range allow {
		for _, e := range p.Errors() {
			fields = append(fields, FieldError{fmt.Sprintf("%s[%d].%s", field, i, e.Field), e.Message})
		}
	}
	return fields
}

func modeProblem(m Mode) string {
	switch m {
	case "", Enforce, Shadow:
		return ""
	case Off:
		return "is off: leave out the limits, or give the key an override without limits"
	}
	return fmt.Sprintf("is %.20q: must be enforce or shadow", string(m))
}

// limitErrors validates a list of limits; field is its name.
func limitErrors(field string, limits []limiter.Limit, required bool) []FieldError {
	least := 0
	if required {
		least = 1
	}
	if n := len(limits); n > limiter.MaxLimits || n < least {
		return []FieldError{{field, fmt.Sprintf("%d given: must be %d to %d", len(limits), least,
			limiter.MaxLimits)}}
	}
	var fields []FieldError
	for i, l := range limits {
		for _, e := range l.Errors() {
			fields = append(fields, FieldError{fmt.Sprintf("%s[%d].%s", field, i, e.Field), e.Message})
		}
	}
	return fields
}

// costErrors refuses limits that are below the cost of a route's call. A limit that counts
// calls is below no cost.
func costErrors(field string, limits []limiter.Limit, routes []Route) []FieldError {
	var fields []FieldError
	for i, l := range limits {
		for _, r := range routes {
			if l.Charge(r.Cost) > l.Requests {
				fields = append(fields, FieldError{
					fmt.Sprintf("%s[%d].requests", field, i),
					fmt.Sprintf("is %d: a call of route %q costs %d and could never pass", l.Requests,
						r.Name, r.Cost),
				})
				break
			}
		}
	}
	return fields
}

func prefixErrors(field string, list []netip.Prefix) []FieldError {
	if len(list) > MaxPrefixes {
		return []FieldError{{field, tooMany(len(list), MaxPrefixes,
			"Join neighbours into shorter prefixes, or keep the list in AWS WAF")}}
	}
	var fields []FieldError
	for i, p := range list {
		if !p.IsValid() || p.Addr().Is4In6() || p.Masked() != p {
			fields = append(fields, FieldError{fmt.Sprintf("%s[%d]", field, i),
				fmt.Sprintf("is %s: must be a network such as 203.0.113.0/24", p)})
		}
	}
	return fields
}

// TimeProblem returns the problem of the end of a key, a ban or an override; empty if it is
// valid.
func TimeProblem(t time.Time) string {
	if !t.IsZero() && (t.Year() < 2000 || t.Year() > 2200) {
		return fmt.Sprintf("is %s: must lie between 2000 and 2200", t.Format(time.DateOnly))
	}
	return ""
}
