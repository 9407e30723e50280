package decide

import (
	"slices"
	"time"

	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// sharedScopes are the scopes of limits that callers share.
var sharedScopes = [...]string{
	policy.ScopeIP, policy.ScopeRouteIP, policy.ScopeGlobal, policy.ScopeRouteAll, policy.ScopeGroup,
}

// sharedLimit returns the key of a shared limit in the denial cache. found is false if no
// limit of the scope applies to the call.
func (q inquiry) sharedLimit(scope string, of facts) (key deniedCall, found bool) {
	key = deniedCall{Scope: scope, Cost: q.match.Cost, SetVersion: q.match.SetVersion}
	found = true
	switch scope {
	case policy.ScopeIP:
		key.Network, found = q.call.Network, q.call.Network.IsValid()
	case policy.ScopeRouteIP:
		key.Network, key.Rule, found = q.call.Network, q.match.Rule, q.call.Network.IsValid()
	case policy.ScopeGlobal:
	case policy.ScopeRouteAll:
		key.Rule = q.match.Rule
	case policy.ScopeGroup:
		key.Group, key.Plan, found = of.group, of.plan, of.group != ""
	default: // the caller's own limits
		found = false
	}
	return key, found
}

// learnShared records what shared limits answered to a call.
func (d *Decider) learnShared(q inquiry, asked time.Time, result enforce.Result) {
	if !q.match.Shared || q.match.Cost == 0 || result.SetVersion != q.match.SetVersion {
		return
	}
	of := facts{group: result.Group, plan: result.Plan}
	for all := result.Limits; len(all) > 0; {
		scope, n := all[0].Scope, 1
		for n < len(all) && all[n].Scope == scope {
			n++
		}
		answer := enforce.Result{Now: result.Now, Limits: all[:n]}
		answer.Repeats = result.Repeats && slices.ContainsFunc(answer.Limits, enforce.LimitState.Denies)
		if key, found := q.sharedLimit(scope, of); found {
			d.denials.learn(key, asked, answer)
		}
		all = all[n:]
	}
}

// sharedDenial returns the denial of a verified caller by a shared limit that is known to
// deny every call; the one with the longest Retry-After if there are several. Without one,
// full is the scope of a limit that probably still denies them; empty for none.
func (d *Decider) sharedDenial(q inquiry) (denial enforce.Result, found bool, full string) {
	if !q.match.Shared || q.match.Cost == 0 {
		return enforce.Result{}, false, ""
	}
	of, age, verified := d.callers.undisturbed(q.call, q.proof)
	if !verified {
		return enforce.Result{}, false, ""
	}
	for _, scope := range sharedScopes {
		key, applies := q.sharedLimit(scope, of)
		moved := scope == policy.ScopeGroup && age >= d.denials.lifetime // perhaps, to another group
		if !applies || moved {
			continue
		}
		known, denies := d.denials.find(key)
		switch {
		case denies && (!found || known.RetryAfter() > denial.RetryAfter()):
			denial, found = known, true
		case !denies && scope != policy.ScopeGroup && d.denials.standing(key):
			full = scope
		}
	}
	if !found && full == "" || !d.callers.open(q.call, q.set, d.source.Loaded().ClosedPlans(q.call.Route)) {
		return enforce.Result{}, false, ""
	}
	if !found {
		return enforce.Result{}, false, full
	}
	denial.Cost, denial.Rule, denial.Settle = q.match.Cost, q.match.Rule, q.match.Settle
	denial.ID, denial.SetVersion = q.call.Subject, q.match.SetVersion
	of.describe(&denial)
	return denial, true, full
}

// describe adds what Valkey returned about a caller to a denial by a shared limit.
func (f facts) describe(denial *enforce.Result) {
	denial.Name, denial.Plan, denial.Group = f.name, f.plan, f.group
	denial.Source, denial.KeyVersion = f.source, f.keyVersion
}

// undisturbed returns the facts of a caller that Valkey verified within the lifetime, and
// how long ago at most. It finds none for a caller with limits that count denied calls.
func (c *callers) undisturbed(call enforce.Call, proof secretHash) (facts, time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, age := c.find(call, proof, c.now())
	if k == nil || slices.ContainsFunc(k.limits, func(l limiter.Limit) bool { return l.CountDenied }) {
		return facts{}, 0, false
	}
	return k.facts, age, true
}

// open reports whether the last known key and plan of a caller open the call's route.
// closed are the numbers of the plans that do not.
func (c *callers) open(call enforce.Call, set *policy.Set, closed []int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, found := c.known.Peek(call.Subject)
	return found && k.opens(call, set, closed)
}
