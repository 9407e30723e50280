package enforce

import (
	"errors"

	"tidegate/internal/enforce/compiled"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// RouteMatch is what the Set says about a call, as far as it is known without asking
// Valkey.
type RouteMatch struct {
	SetVersion int64
	Rule       string // as in Result
	Settle     bool
	Cost       int64 // 0 when nothing limits the call
}

// RuleLimits is a list of limits of the Set that a call is held against, of a route rule
// or of all calls. Those of the caller's plan or override are not among them.
type RuleLimits struct {
	State  string // name of what they count; no two lists share it
	Scope  string
	Mode   policy.Mode
	Limits []limiter.Limit
}

var errNoSet = errors.New("enforce: no set was read yet")

// RouteMatch returns what holds for a call by the Set that checks go by. It fails with
// ErrRefused, as Check does, and when no Set was ever read.
func (c *Checker) RouteMatch(call Call) (RouteMatch, error) {
	set := c.set.Load()
	if set == nil {
		return RouteMatch{}, errNoSet
	}
	_, rule, err := admit(set, call)
	if err != nil {
		return RouteMatch{}, err
	}
	t := RouteMatch{SetVersion: set.Version, Rule: rule.Name, Settle: rule.Settle, Cost: rule.Cost}
	if set.Exempts(call.Address) {
		t.Cost = 0
	}
	return t, nil
}

// RuleLimits returns the limits that the Set has for a call, the caller's own first; none
// when nothing limits it.
func (c *Checker) RuleLimits(call Call) []RuleLimits {
	set := c.set.Load()
	if set == nil {
		return nil
	}
	_, rule, err := admit(set, call)
	if err != nil || rule.Cost == 0 || set.Exempts(call.Address) {
		return nil
	}
	var all []RuleLimits
	if len(rule.PerKeyEntry) > 0 {
		all = append(all, RuleLimits{rule.State(call.Subject), policy.ScopeRoute,
			policy.OrEnforce(rule.Mode), rule.PerKey})
	}
	for _, s := range sharedSteps(set, call, rule, c.addresses) {
		all = append(all, RuleLimits{s.keys[0], s.shared.Scope, s.shared.Mode, s.shared.Configured})
	}
	return all
}

// admit finds what holds for a call: the number of the plan for a caller without one of
// its own, 0 for an API key, and the route. It fails with ErrRefused for a caller who may
// not call at all, and for a call whose path is ambiguous; then rule is nil unless only
// the plan is missing.
func admit(set *compiled.Set, call Call) (plan int, rule *compiled.Route, err error) {
	if rule, err = set.RouteFor(call.Route, call.Address); err != nil {
		return 0, nil, err
	}
	plan, err = set.PlanFor(call.Kind, call.Plan)
	return plan, rule, err
}
