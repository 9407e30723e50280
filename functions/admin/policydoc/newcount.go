package policydoc

import (
	"fmt"

	"tidegate/internal/limiter"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
)

// NewCount is a limit of an edit that counts from zero: no limit before had its count.
type NewCount struct {
	Of    string `json:"of" doc:"plan and its name; empty for a limit of all callers" example:"plan free"`
	Limit string `json:"limit" doc:"The limit in words" example:"20 per minute, on search"`
}

// String formats the limit as one line.
func (n NewCount) String() string {
	of := "all callers"
	if n.Of != "" {
		of = n.Of
	}
	return of + ": " + n.Limit + ": starts at zero"
}

// NewCounts lists the limits of after that count from zero for callers that before knows:
// another who, unit, on or except begins a new count, and another window or algorithm does
// in a counter, a token bucket or a fixed window. Plans that before lacks have no callers
// yet, so their limits are left out.
func NewCounts(before, after *policy.Set) []NewCount {
	if identified, err := policy.Identify(*after, before); err == nil {
		after = identified
	}
	var all []NewCount
	own := countsOf(before, policy.Plan{})
	everywhere := countsOfEvery(before)
	for _, a := range candidates(after, policy.Plan{}) {
		if needed := needs(a); !own[needed] && !everywhere[needed] {
			all = append(all, NewCount{"", a.String()})
		}
	}
	for _, p := range after.Plans {
		old, kept := before.PlanByNumber(p.Number)
		if !kept {
			continue
		}
		had := countsOf(before, old)
		for _, a := range candidates(after, p) {
			if a.Source == limits.FromPlan && !had[needs(a)] {
				all = append(all, NewCount{"plan " + p.Name, a.String()})
			}
		}
	}
	return all
}

// candidates lists the limits of a plan's callers; the policy's own for the zero Plan.
func candidates(s *policy.Set, p policy.Plan) []limits.Applied {
	caller := limits.Caller{Group: "any", Address: true}
	if p.Number > 0 {
		for _, plan := range s.Language().Plans {
			if plan.ID == fmt.Sprint(p.Number) {
				caller.Plan = &plan
			}
		}
	}
	return s.Language().Candidates(caller)
}

// needs names the state that a limit asks.
func needs(a limits.Applied) string { return statesOf(a)[0] }

// statesOf names the states that a limit needs.
func statesOf(a limits.Applied) []string {
	return a.Counted(a.Count.Name(), limiter.Periods{}).StateKeys()
}

// countsOf has the names of what is counted for the callers of a plan.
func countsOf(s *policy.Set, p policy.Plan) map[string]bool {
	all := map[string]bool{}
	for _, a := range candidates(s, p) {
		for _, name := range statesOf(a) {
			all[name] = true
		}
	}
	return all
}

// countsOfEvery has the names of what is counted for the callers of every plan.
func countsOfEvery(s *policy.Set) map[string]bool {
	seen := map[string]int{}
	for _, p := range s.Plans {
		for name := range countsOf(s, p) {
			seen[name]++
		}
	}
	all := map[string]bool{}
	for name, plans := range seen {
		all[name] = plans == len(s.Plans)
	}
	return all
}
