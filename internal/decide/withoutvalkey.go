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

// While Valkey is away, a Breaker keeps calls from waiting for it, and Callers decides
// about them.
//
// Authentication never fails open. A caller is known for a stated time after Valkey last
// accepted exactly this credential, and no longer than its record holds: it expires, or
// its override ends. All other callers are denied, and a caller whom Valkey refuses is
// forgotten. The plan says what becomes of a known caller: see policy.Degraded. Every
// decision is marked Degraded.
//
// With policy.Local each process holds its callers to its share of the limits by the
// models of package limiter: all processes together admit at most share × processes of a
// limit, in addition to what Valkey admitted before. The models live as long as the
// caller is remembered, so that a second outage finds what the first one counted. A share
// is rounded down, but is at least 1; a log has at most 1,000 slots.

// Decide answers a call as the newest Set that is known says. set is nil when there is
// none; match and rules are those of the call, closed the plans that do not open its
// route. A caller who is not known gets a denial without an ID, one whose key or plan
// does not open the route a *policy.RefusedError.
func (c *Callers) Decide(call enforce.Call, proof Proof, set *policy.Set, match enforce.RouteMatch,
	rules []enforce.RuleLimits, closed []int) (enforce.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	checked := enforce.Result{
		Degraded: true, CandidateAllows: true, Now: now.UTC(),
		Rule: match.Rule, Settle: match.Settle, Cost: match.Cost, SetVersion: match.SetVersion,
	}
	k := c.find(call, proof, now)
	if k == nil || set == nil {
		return checked, nil
	}
	if !k.opens(call, set, closed) {
		return enforce.Result{}, &policy.RefusedError{Cause: cause.Access, Verified: true}
	}
	checked.ID, checked.Name, checked.KeyVersion = call.Subject, k.facts.name, k.facts.keyVersion
	checked.Plan, checked.Group, checked.Source = k.facts.plan, k.facts.group, k.facts.source
	plan, _ := set.Plan(k.facts.plan) // one that is gone is closed
	switch plan.Degraded {
	case policy.Open:
		checked.Allowed, checked.WouldAllow = true, true
	case policy.Local:
		c.take(&checked, now, c.held(k, plan, match.Cost, rules))
	case policy.Closed:
	}
	return checked, nil
}

// held is a list of limits that a call is held against, with what they count.
type held struct {
	model  *limiter.Model
	limits []limiter.Limit
	scope  string
	mode   policy.Mode
	first  int  // index of its limits in Result.Limits
	spared byte // of its limits: those that gave nothing, as limiter.Exceeded has them
}

// shared reports whether other callers take from the limits too.
func (h held) shared() bool { return h.scope != policy.ScopeKey && h.scope != policy.ScopeRoute }

// held lists what a call is held against, the caller's own limits first.
func (c *Callers) held(k *caller, plan policy.Plan, cost int64, rules []enforce.RuleLimits) []held {
	if cost == 0 {
		return nil
	}
	if group := k.facts.group; group != "" && len(plan.PerGroup) > 0 && plan.Mode != policy.Off {
		rules = append(rules, enforce.RuleLimits{
			State: keyspace.Of(policy.GroupID(group), policy.GroupState(plan.Number)),
			Scope: policy.ScopeGroup, Mode: policy.OrEnforce(plan.Mode), Limits: plan.PerGroup,
		})
	}
	var all []held
	if k.mode != policy.Off {
		all = append(all, held{model: &k.model, limits: shared(k.limits, plan.Share),
			scope: policy.ScopeKey, mode: k.mode})
	}
	for _, b := range rules {
		model, found := c.others.Get(b.State)
		if !found {
			model = &limiter.Model{}
			c.others.Add(b.State, model)
		}
		all = append(all, held{model: model, limits: shared(b.Limits, plan.Share), scope: b.Scope,
			mode: b.Mode})
	}
	return all
}

// maxSlots bounds the memory of a log; one with more calls than slots admits up to a
// thousandth too little.
const maxSlots = 1_000

// shared are the limits' shares of one program.
func shared(limits []limiter.Limit, percent int) []limiter.Limit {
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

// take takes from all or, when an enforced one denies, from none. Shared limits are asked
// only when the caller's own allow the call.
func (c *Callers) take(checked *enforce.Result, now time.Time, all []held) {
	checked.Allowed, checked.WouldAllow = true, true
	shared := slices.IndexFunc(all, held.shared)
	if shared < 0 {
		shared = len(all)
	}
	taken := ask(checked, now, all[:shared])
	if checked.Allowed {
		taken = append(taken, ask(checked, now, all[shared:])...)
	}
	if checked.Allowed {
		return
	}
	for _, h := range taken {
		mine := checked.Limits[h.first : h.first+len(h.limits)]
		for i, u := range h.model.Refund(now, h.limits, checked.Cost, now, h.spared).Limits {
			mine[i].Usage = u
		}
	}
}

// ask takes from each list of limits, and returns those that gave.
func ask(checked *enforce.Result, now time.Time, all []held) (taken []held) {
	for _, h := range all {
		d, err := h.model.Take(now, h.limits, checked.Cost)
		if err != nil {
			d = tooCostly(h.model.Peek(now, h.limits), checked.Cost)
		}
		h.first, h.spared = len(checked.Limits), limiter.Exceeded(d.Limits)
		if d.Allowed {
			taken = append(taken, h)
		}
		checked.WouldAllow = checked.WouldAllow && d.WouldAllow()
		checked.Allowed = checked.Allowed && (d.Allowed || h.mode != policy.Enforce)
		checked.Limits = append(checked.Limits, enforce.LimitStates(d.Limits, h.scope, h.mode)...)
	}
	return taken
}

// tooCostly is the denial of a call that the share can never admit, though the whole
// limit could: it has to wait for the store.
func tooCostly(d limiter.Decision, cost int64) limiter.Decision {
	d.Allowed = false
	for i := range d.Limits {
		if u := &d.Limits[i]; cost > u.Limit.Requests {
			u.RetryAfter = max(u.RetryAfter, time.Second)
			u.Next = 0 // the share's says nothing about the whole limit
		}
	}
	return d
}

// opens reports whether a caller may call a route while Valkey is away.
func (k *caller) opens(call enforce.Call, set *policy.Set, closed []int) bool {
	plan, _ := set.Plan(k.facts.plan)
	return !slices.Contains(closed, plan.Number) && (k.access == nil || k.access.Matches(call.Route))
}

// decideWithout answers without Valkey. A caller that the policy set refuses stays
// refused.
func (d *Decider) decideWithout(q inquiry) (enforce.Result, error) {
	if errors.Is(q.err, policy.ErrRefused) {
		return enforce.Result{}, q.err
	}
	var rules []enforce.RuleLimits
	var closed []int
	if c := d.source.Loaded(); c != nil {
		rules, closed = c.RuleLimits(q.call), c.ClosedPlans(q.call.Route)
	}
	return d.callers.Decide(q.call, q.proof, q.set, q.match, rules, closed)
}

// Away reports whether an error of a check means that Valkey made no decision. Other
// errors are its answer.
func Away(err error) bool {
	for _, answer := range []error{policy.ErrUnknownKey, policy.ErrRefused, enforce.ErrSet,
		limiter.ErrCost, limiter.ErrReply} {
		if errors.Is(err, answer) {
			return false
		}
	}
	return store.Away(err)
}
