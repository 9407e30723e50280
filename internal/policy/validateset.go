package policy

import (
	"fmt"
	"slices"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/route"
)

// Bounds of a Set.
const (
	MaxPlans    = 500
	MaxRoutes   = 500
	MaxPrefixes = 500 // in each list of addresses
	MaxNumber   = 10_000
	MaxSetBytes = 1 << 20
	maxBan      = 366 * 24 * time.Hour
)

// Validate reports everything that is wrong with a Set, as an *InvalidError. A Set that
// is to be saved has to pass ValidateAfter.
func (s *Set) Validate() error { return Invalid(s.errors()) }

func (s *Set) errors() []FieldError {
	fields := slices.Concat(
		s.planErrors(), s.routeErrors(), s.scopeErrors("perIP", s.PerIP), s.scopeErrors("global", s.Global),
		s.PerIP.unleasedErrors("perIP"), leaseErrors("global.lease", s.Global.Lease, "global.limits",
			s.Global.Limits),
		prefixErrors("deny", s.Deny), prefixErrors("allow", s.Allow), prefixErrors("exempt", s.Exempt),
		s.Bans.errors(),
	)
	for field, name := range map[string]string{"tokenPlan": s.TokenPlan, "addressPlan": s.AddressPlan} {
		if _, found := s.Plan(name); name != "" && !found {
			fields = append(fields, FieldError{field, fmt.Sprintf("no plan is named %.100q", name)})
		}
	}
	return fields
}

func (s *Set) planErrors() []FieldError {
	if len(s.Plans) > MaxPlans {
		return []FieldError{{"plans", fmt.Sprintf("%d given: must be at most %d", len(s.Plans), MaxPlans)}}
	}
	var fields []FieldError
	seen := map[string]bool{}
	for i, p := range s.Plans {
		at := fmt.Sprintf("plans[%d].", i)
		add := func(field, problem string) {
			if problem != "" {
				fields = append(fields, FieldError{at + field, problem})
			}
		}
		add("name", nameProblem(p.Name, seen))
		add("mode", modeProblem(p.Mode))
		fields = append(fields, limitErrors(at+"limits", p.Limits, true)...)
		fields = append(fields, limitErrors(at+"candidate", p.Candidate, false)...)
		fields = append(fields, unnotifiedErrors(at+"candidate", p.Candidate, ofCandidate)...)
		for j, l := range p.Candidate {
			if l.Shadow {
				add(fmt.Sprintf("candidate[%d].mode", j),
					"is shadow: a candidate denies no call, so leave it out")
			}
		}
		fields = append(fields, costErrors(at+"limits", p.Limits, s.Routes)...)
		fields = append(fields, groupErrors(at+"perGroup", p.PerGroup, s.Routes)...)
		fields = append(fields, allowErrors(at+"allow", p.Allow)...)
		switch p.Degraded {
		case "", Closed, Open:
			if p.Share != 0 {
				add("share", fmt.Sprintf("is %d: only degraded local has a share", p.Share))
			}
		case Local:
			if p.Share < 1 || p.Share > 100 {
				add("share", fmt.Sprintf("is %d: must be 1 to 100 percent", p.Share))
			}
		default:
			add("degraded", fmt.Sprintf("is %.20q: must be closed, open or local", string(p.Degraded)))
		}
	}
	return fields
}

func (s *Set) routeErrors() []FieldError {
	if len(s.Routes) > MaxRoutes {
		return []FieldError{{"routes", fmt.Sprintf("%d given: must be at most %d", len(s.Routes), MaxRoutes)}}
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
	var fields []FieldError
	if problem := nameProblem(r.Name, seen); problem != "" {
		fields = append(fields, FieldError{at + "name", problem})
	}
	for _, e := range r.Pattern.Errors() {
		fields = append(fields, FieldError{at + "pattern." + e.Field, e.Message})
	}
	if r.Cost < 0 || r.Cost > limiter.MaxRequests {
		fields = append(fields, FieldError{at + "cost",
			fmt.Sprintf("is %d: must be 0 to %d", r.Cost, limiter.MaxRequests)})
	}
	if r.Settle && r.Cost == 0 {
		fields = append(fields, FieldError{at + "settle",
			"is set, but a call of cost 0 has nothing to settle: must have a cost of 1 at least"})
	}
	if problem := r.settleMaxProblem(); problem != "" {
		fields = append(fields, FieldError{at + "settleMax", problem})
	}
	if problem := modeProblem(r.Mode); problem != "" {
		fields = append(fields, FieldError{at + "mode", problem})
	}
	for field, limits := range map[string][]limiter.Limit{"perKey": r.PerKey, "perIP": r.PerIP,
		"shared": r.Shared} {
		fields = append(fields, limitErrors(at+field, limits, false)...)
		fields = append(fields, costErrors(at+field, limits, []Route{r})...)
	}
	return append(fields, leaseErrors(at+"sharedLease", r.SharedLease, at+"shared", r.Shared)...)
}

func (s *Set) scopeErrors(field string, scope Scope) []FieldError {
	fields := append(limitErrors(field+".limits", scope.Limits, false),
		costErrors(field+".limits", scope.Limits, s.Routes)...)
	if problem := modeProblem(scope.Mode); problem != "" {
		fields = append(fields, FieldError{field + ".mode", problem})
	}
	return fields
}

func (b *Bans) errors() []FieldError {
	if b == nil {
		return nil
	}
	var fields []FieldError
	if b.Denials < 2 || b.Denials > 100_000 {
		fields = append(fields, FieldError{"bans.denials",
			fmt.Sprintf("is %d: must be 2 to 100000", b.Denials)})
	}
	for _, d := range []struct {
		field string
		value Duration
		least time.Duration
	}{{"window", b.Window, limiter.MinWindow}, {"base", b.Base, time.Second},
		{"cap", b.Cap, time.Duration(b.Base)}} {
		if v := time.Duration(d.value); v < d.least || v > maxBan || v%time.Millisecond != 0 {
			fields = append(fields, FieldError{"bans." + d.field,
				fmt.Sprintf("is %s: must be %s to 366 days, in whole milliseconds", v, d.least)})
		}
	}
	return fields
}

// Numbered gives the new plans of next numbers. A plan keeps its number; a number that no
// plan of current has is refused.
func Numbered(next Set, current *Set) (*Set, error) {
	next.Plans = slices.Clone(next.Plans)
	next.NextNumber = max(current.NextNumber, 1)
	var fields []FieldError
	seen := map[int]bool{}
	for i := range next.Plans {
		p := &next.Plans[i]
		if p.Number == 0 {
			p.Number = next.NextNumber
			next.NextNumber++
		} else if _, known := current.Numbered(p.Number); !known || seen[p.Number] {
			fields = append(fields, FieldError{fmt.Sprintf("plans[%d].number", i),
				fmt.Sprintf("is %d: a new plan has none", p.Number)})
		}
		seen[p.Number] = true
	}
	if next.NextNumber > MaxNumber+1 {
		fields = append(fields, FieldError{"plans",
			fmt.Sprintf("%d plans were made already: change one instead", MaxNumber)})
	}
	if len(fields) > 0 {
		return nil, Invalid(fields)
	}
	return &next, nil
}
