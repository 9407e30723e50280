package policy

import "tidegate/internal/limiter"

// Terms are what the Set says about a call, as far as it is known without asking Valkey.
type Terms struct {
	SetVersion int64
	Rule       string // as in Checked
	Settle     bool
	Cost       int64 // 0 when nothing limits the call
}

// Besides is a list of limits that a call is held against beside the caller's own.
type Besides struct {
	State  string // name of what they count; no two lists share it
	Scope  string
	Mode   Mode
	Limits []limiter.Limit
}

// Terms returns what holds for a call by the Set that checks go by. It fails with ErrRefused, as Check does, and when no Set was ever read.
func (c *Checker) Terms(call Call) (Terms, error) {
	set := c.set.Load()
	if set == nil {
		return Terms{}, errNoSet
	}
	_, rule, err := set.admit(call)
	if err != nil {
		return Terms{}, err
	}
	t := Terms{SetVersion: set.Version, Rule: rule.Name, Settle: rule.Settle, Cost: rule.Cost}
	if set.exempts(call.Address) {
		t.Cost = 0
	}
	return t, nil
}

// Beside returns the limits that the Set has for a call other than those of the caller's plan or override; none when nothing limits it.
func (c *Checker) Beside(call Call) []Besides {
	set := c.set.Load()
	if set == nil {
		return nil
	}
	_, rule, err := set.admit(call)
	if err != nil || rule.Cost == 0 || set.exempts(call.Address) {
		return nil
	}
	var all []Besides
	if len(rule.perKey) > 0 {
		all = append(all, Besides{routeState(call.Subject, rule), ScopeRoute, orEnforce(rule.Mode), rule.PerKey})
	}
	for _, s := range set.sideSteps(call, rule, c.addresses) {
		all = append(all, Besides{s.keys[0], s.side.scope, s.side.mode, s.side.limits})
	}
	return all
}
