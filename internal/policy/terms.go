package policy

import "tidegate/internal/limiter"

// Terms are what the Set says about a call, as far as it is known without asking Valkey.
type Terms struct {
	SetVersion int64
	Rule       string // as in Checked
	Settle     bool
	Cost       int64     // 0 when nothing limits the call
	Beside     []Besides // limits other than those of the caller's plan or override
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
	if rule.Cost == 0 || set.exempts(call.Address) {
		t.Cost = 0
		return t, nil
	}
	if len(rule.perKey) > 0 {
		t.Beside = append(t.Beside, Besides{routeState(call.Subject, rule), ScopeRoute, orEnforce(rule.Mode), rule.PerKey})
	}
	for _, s := range set.sideSteps(call, rule, c.addresses) {
		t.Beside = append(t.Beside, Besides{s.keys[0], s.side.scope, s.side.mode, s.side.limits})
	}
	return t, nil
}
