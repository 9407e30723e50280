package limits

import (
	"fmt"
	"slices"

	"tidegate/internal/route"
)

// Bounds of a Policy.
const (
	MaxPlanLimits   = 32
	MaxPolicyLimits = 200 // that stand in the policy itself
	MaxRoutes       = 500
	MaxCounts       = 16 // counts that one call takes from
)

// Policy has what decides which limits apply to a call and what the call costs.
type Policy struct {
	Plans  []Plan  `json:"plans"`
	Limits []Limit `json:"limits,omitempty"` // of all callers, whatever their plan
	Routes []Route `json:"routes,omitempty"`
}

// Plan is a named list of limits for its callers.
type Plan struct {
	// ID is what the counts of the plan's shared limits are named by. It stays when the
	// plan is renamed.
	ID     string  `json:"id,omitempty"`
	Name   string  `json:"name"`
	Limits []Limit `json:"limits"`
}

// where is a limit with its place in a policy.
type where struct {
	Limit
	field  string // plans[0].limits[1]
	source Source
	plan   int // index of the plan, or -1
}

// all lists the limits of a policy: those of the plans, then its own.
func (p *Policy) all() []where {
	var all []where
	for i, plan := range p.Plans {
		for j, l := range plan.Limits {
			all = append(all, where{l, fmt.Sprintf("plans[%d].limits[%d]", i, j), FromPlan, i})
		}
	}
	for i, l := range p.Limits {
		all = append(all, where{l, fmt.Sprintf("limits[%d]", i), FromPolicy, -1})
	}
	return all
}

// patterns returns the patterns of the calls that on names.
func (p *Policy) patterns(on string) (patterns []route.Pattern, name string) {
	t, problem := parseTarget(on)
	if problem != "" {
		return nil, ""
	}
	if t.name == "" {
		return []route.Pattern{t.pattern}, ""
	}
	for _, r := range p.Routes {
		if r.Name == t.name {
			return r.Match, r.Name
		}
	}
	return nil, t.name
}

// overlap reports whether a call may fall under on and match one of the patterns.
func (p *Policy) overlap(on string, patterns []route.Pattern) bool {
	own, _ := p.patterns(on)
	for _, a := range own {
		for _, b := range patterns {
			if route.Overlap(a, b) {
				return true
			}
		}
	}
	return false
}

// dearest returns the route whose calls cost most among those that the limit may count.
func (p *Policy) dearest(l Limit) (of Route, cost int64) {
	if l.Unit == Calls {
		return of, 0
	}
	for _, r := range p.Routes {
		c, ok := r.costs().Of(l.Unit)
		if !ok || c <= cost || slices.Contains(l.Except, r.Name) {
			continue
		}
		if l.On == "" || l.On == r.Name || p.overlap(l.On, r.Match) {
			of, cost = r, c
		}
	}
	return of, cost
}
