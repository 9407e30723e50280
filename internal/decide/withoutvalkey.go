package decide

import (
	"errors"
	"slices"
	"time"

	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/store"
	"tidegate/internal/store/keyspace"
)

// Authentication never fails open. A caller is known for Settings.CallerCache after
// Valkey last accepted exactly this credential. It is known at most until its record
// changes without an edit: it expires, or its override ends. All other callers are
// denied, but addresses on an open plan: they have no secret. A caller that Valkey refuses
// is forgotten. The plan determines what happens
// to a known caller: see policy.Degraded. Every such decision is marked Degraded.
//
// With policy.Local, each process applies its share of the limits to its callers, with
// models of package limiter. All processes together admit at most share × processes of a
// limit, in addition to what Valkey admitted before. The models exist as long as the
// caller is remembered, so that a second outage continues the counts of the first. A
// share is rounded down, but is at least 1. A log has at most 1,000 slots.

// decide answers a call by the newest policy set that is known. set is nil if there is
// none. match and rules are those of the call; closed are the numbers of the plans that
// do not open its route. An unknown caller gets a denial without an ID. A caller whose
// key or plan does not open the route gets a *policy.RefusedError.
func (c *callers) decide(call enforce.Call, proof secretHash, set *policy.Set, match enforce.RouteMatch,
	rules []enforce.RuleLimits, closed []int) (enforce.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	result := enforce.Result{
		Degraded: true, Now: now.UTC(),
		Rule: match.Rule, Settle: match.Settle, Cost: match.Cost, SetVersion: match.SetVersion,
	}
	k, _ := c.find(call, proof, now)
	if k == nil && set != nil {
		k = c.openAddress(call, set, now)
	}
	if k == nil || set == nil {
		return result, nil
	}
	if !k.opens(call, set, closed) {
		return enforce.Result{}, &policy.RefusedError{Cause: cause.Access, Verified: true}
	}
	result.ID, result.Name, result.KeyVersion = call.Subject, k.facts.name, k.facts.keyVersion
	result.Plan, result.Group, result.Source = k.facts.plan, k.facts.group, k.facts.source
	plan, _ := set.Plan(k.facts.plan) // a plan that is gone denies, as policy.Closed does
	switch plan.Degraded {
	case policy.Open:
		result.Allowed, result.WouldAllow = true, true
	case policy.Local:
		take(&result, now, c.localLimits(k, plan, match.Cost, rules))
	case policy.Closed:
	}
	return result, nil
}

// localLimits is a list of limits that apply to a call, with the model that counts for
// them.
type localLimits struct {
	model  *limiter.Model
	limits []limiter.Limit
	scope  string
	mode   policy.Mode
	first  int  // index of its first limit in Result.Limits
	spared byte // mask of its limits that gave nothing, as limiter.Exceeded returns it
}

// shared reports whether other callers take from the limits too.
func (l localLimits) shared() bool { return enforce.LimitState{Scope: l.scope}.Shared() }

// localLimits lists the limits that apply to a call, the caller's own first.
func (c *callers) localLimits(k *caller, plan policy.Plan, cost int64,
	rules []enforce.RuleLimits) []localLimits {
	if cost == 0 {
		return nil
	}
	if group := k.facts.group; group != "" && len(plan.PerGroup) > 0 {
		rules = append(rules, enforce.RuleLimits{
			State: keyspace.Of(policy.GroupID(group), policy.GroupState(plan.Number)),
			Scope: policy.ScopeGroup, Mode: policy.OrEnforce(plan.Mode), Limits: plan.PerGroup,
		})
	}
	var all []localLimits
	if k.mode != policy.Off {
		all = append(all, localLimits{model: &k.model, limits: shareOf(k.limits, plan.Share),
			scope: policy.ScopeKey, mode: k.mode})
	}
	for _, r := range rules {
		model, found := c.others.Get(r.State)
		if !found {
			model = &limiter.Model{}
			c.others.Add(r.State, model)
		}
		all = append(all, localLimits{model: model, limits: shareOf(r.Limits, plan.Share), scope: r.Scope,
			mode: r.Mode})
	}
	return all
}

// maxSlots bounds the memory of a log. A log with more calls than slots admits up to a
// thousandth too little.
const maxSlots = 1_000

// shareOf returns one process's share of limits.
func shareOf(limits []limiter.Limit, percent int) []limiter.Limit {
	shares := make([]limiter.Limit, len(limits))
	for i, l := range limits {
		l.Requests = max(1, l.Requests*int64(percent)/100)
		if l.Algorithm == limiter.Log && (l.Slots == 0 || l.Slots > maxSlots) {
			l.Slots = maxSlots
		}
		shares[i] = l
	}
	return shares
}

// take takes the cost from all limits, or from none if an enforced limit denies it. It
// asks shared limits only if the caller's own limits allow the call.
func take(result *enforce.Result, now time.Time, all []localLimits) {
	result.Allowed, result.WouldAllow = true, true
	shared := slices.IndexFunc(all, localLimits.shared)
	if shared < 0 {
		shared = len(all)
	}
	taken := takeEach(result, now, all[:shared])
	if result.Allowed {
		taken = append(taken, takeEach(result, now, all[shared:])...)
	}
	if result.Allowed {
		return
	}
	for _, l := range taken {
		states := result.Limits[l.first : l.first+len(l.limits)]
		for i, u := range l.model.Refund(now, l.limits, result.Cost, 1, now, l.spared).Limits {
			states[i].Usage = u
		}
	}
}

// takeEach takes the cost from each list of limits, and returns the lists that gave it.
func takeEach(result *enforce.Result, now time.Time, all []localLimits) (taken []localLimits) {
	for _, l := range all {
		d, err := l.model.Take(now, l.limits, result.Cost)
		if err != nil {
			d = tooCostly(l.model.Peek(now, l.limits), result.Cost)
		}
		l.first, l.spared = len(result.Limits), limiter.Exceeded(d.Limits)
		if d.Allowed {
			taken = append(taken, l)
		}
		result.WouldAllow = result.WouldAllow && d.WouldAllow()
		result.Allowed = result.Allowed && (d.Allowed || l.mode != policy.Enforce)
		result.Limits = append(result.Limits, enforce.LimitStates(d.Limits, l.scope, l.mode)...)
	}
	return taken
}

// tooCostly returns the denial of a call whose cost is above the share of a limit. The
// whole limit might admit it, so the call has to wait for Valkey.
func tooCostly(d limiter.Decision, cost int64) limiter.Decision {
	d.Allowed = false
	for i := range d.Limits {
		if u := &d.Limits[i]; cost > u.Limit.Requests {
			u.RetryAfter = max(u.RetryAfter, time.Second)
			u.Next = 0 // unknown for the whole limit
		}
	}
	return d
}

// opens reports whether a caller may call a route while Valkey is unavailable.
func (k *caller) opens(call enforce.Call, set *policy.Set, closed []int) bool {
	plan, _ := set.Plan(k.facts.plan)
	return !slices.Contains(closed, plan.Number) && (k.access == nil || k.access.Matches(call.Route))
}

// decideWithout answers a call without Valkey. A caller that the policy set refuses is
// still refused.
func (d *Decider) decideWithout(q inquiry) (enforce.Result, error) {
	if errors.Is(q.err, policy.ErrRefused) {
		return enforce.Result{}, q.err
	}
	var rules []enforce.RuleLimits
	var closed []int
	if c := d.source.Loaded(); c != nil {
		rules, closed = c.RuleLimits(q.call), c.ClosedPlans(q.call.Route)
	}
	return d.callers.decide(q.call, q.proof, q.set, q.match, rules, closed)
}

// Unavailable reports whether an error of a check means that Valkey made no decision.
// Other errors are Valkey's answer.
func Unavailable(err error) bool {
	for _, answer := range []error{policy.ErrUnknownKey, policy.ErrRefused, enforce.ErrSet,
		limiter.ErrCost, limiter.ErrReply} {
		if errors.Is(err, answer) {
			return false
		}
	}
	return store.Unavailable(err)
}
