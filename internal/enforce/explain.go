package enforce

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/enforce/compiled"
	"tidegate/internal/limiter"
	"tidegate/internal/lua"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/route"
	"tidegate/internal/store/keyspace"
)

// Explanation is what a Check of a call would answer, and why.
type Explanation struct {
	Matches   []route.Match // the routes that the call falls under; Index counts Set.Routes
	Refused   string        // why the caller may not call, whatever the limits; empty when it may
	Exempt    bool          // the address is not limited
	Effective policy.Effective
	Result    Result // as Check would return it, but Remaining is as before the call
}

//go:embed lua/try.lua
var tryLua string

// tryScript makes a step and undoes it.
var tryScript = lua.New(func() string { return limiter.StepFunction() + tryLua })

// Explain returns what a Check of the key's call would answer now, in an environment that
// holds no share of leased limits. It takes nothing. Call's Kind, Subject and Secret do
// not matter.
func (c *Checker) Explain(ctx context.Context, set *policy.Set, k policy.Key,
	call Call) (Explanation, error) {
	compiledSet, err := compiled.New(set)
	if err != nil {
		return Explanation{}, fmt.Errorf("enforce: explain: %w", err)
	}
	now := c.now()
	call.Kind, call.Subject = k.Kind, k.ID
	e := Explanation{Matches: compiledSet.Matches(call.Route), Exempt: compiledSet.Exempts(call.Address)}
	e.Effective, _ = set.Effective(k, now)
	_, rule, err := admit(compiledSet, call)
	if e.Refused = refusal(compiledSet, k, call, now, err); rule == nil {
		rule = compiledSet.Fallback
	}
	e.Result = Result{
		Allowed: e.Refused == "", WouldAllow: e.Refused == "", CandidateAllows: true, Cost: rule.Cost,
		Now: now, ID: k.ID, Name: k.Name, Plan: k.Plan, Group: k.Group,
		Source: e.Effective.Source,
		Rule:   rule.Name, Settle: rule.Settle, SetVersion: set.Version, KeyVersion: k.Version,
	}
	if err := c.explainBan(ctx, &e.Result, set, k); err != nil {
		return Explanation{}, err
	}
	return e, c.explainLimits(ctx, &e, compiledSet, call, rule)
}

// refusal says why a caller may not call; empty if it may.
func refusal(set *compiled.Set, k policy.Key, call Call, now time.Time, err error) string {
	switch {
	case k.Status != policy.Active:
		return "the key is " + string(k.Status)
	case !k.Expires.IsZero() && !k.Expires.After(now):
		return "the key expired"
	case set.Denies(call.Address):
		return "the address is in the list of those refused"
	case !set.Admits(call.Address):
		return "the address is not in the list of those admitted"
	case errors.Is(err, policy.ErrRefused) && k.Plan == "":
		return "no plan is meant for callers of this kind"
	case err != nil:
		return "the path can be read in two ways that different routes match"
	}
	plan, _ := set.EffectivePlan(k)
	return policy.AccessProblem(k, plan, call.Route)
}

// explainBan looks for a ban by hand, and for an automatic one.
func (c *Checker) explainBan(ctx context.Context, checked *Result, set *policy.Set, k policy.Key) error {
	until, err := policyset.BannedUntil(ctx, c.client, set, []policy.Key{k})
	if err != nil {
		return err
	}
	if until[0].After(checked.Now) {
		checked.BannedUntil, checked.Allowed, checked.WouldAllow = until[0], false, false
	}
	return nil
}

// explained is one step on one subject, not made.
type stepNotMade struct {
	scope  string
	mode   policy.Mode
	step   limiter.Exchange
	shared *compiled.SharedLimit // nil for the caller's own
}

// explainLimits asks the caller's own limits and, as a check does, the shared ones only
// when those allow the call. Of a caller who may not call it asks the own ones alone.
func (c *Checker) explainLimits(ctx context.Context, e *Explanation, set *compiled.Set, call Call,
	rule *compiled.Route) error {
	own, err := e.ownSteps(call, rule)
	if err != nil {
		return err
	}
	if err := c.explainSteps(ctx, e, own); err != nil {
		return err
	}
	free := e.Exempt || e.Result.Cost == 0
	if e.Result.Allowed || free && e.mayCall() {
		if err := c.explainSteps(ctx, e, e.sharedSteps(set, call, rule, c.addresses)); err != nil {
			return err
		}
	}
	if free {
		e.Result.Allowed, e.Result.WouldAllow = e.mayCall(), true
	}
	return nil
}

// mayCall reports whether the caller may call, whatever the limits.
func (e *Explanation) mayCall() bool { return e.Refused == "" && e.Result.BannedUntil.IsZero() }

func (c *Checker) explainSteps(ctx context.Context, e *Explanation, steps []stepNotMade) error {
	runs := make([]lua.Run, len(steps))
	for i, x := range steps {
		args := []string{valkey.BinaryString(x.step.Program), strconv.FormatInt(e.Result.Cost, 10)}
		runs[i] = lua.Run{Keys: []string{x.step.Key}, Args: args}
	}
	for i, result := range tryScript.DoMany(ctx, c.client, runs) {
		reply, err := result.AsBytes()
		if err != nil {
			return fmt.Errorf("enforce: explain: %w", err)
		}
		if err := e.Result.explain(steps[i], reply); err != nil {
			return err
		}
	}
	return nil
}

// ownSteps lists the caller's own limits that a check of the call would ask.
func (e *Explanation) ownSteps(call Call, rule *compiled.Route) ([]stepNotMade, error) {
	var steps []stepNotMade
	if e.Effective.Mode != policy.Off && len(e.Effective.Limits) > 0 {
		program, err := limiter.Compile(e.Effective.Limits, e.Result.Now)
		if err != nil {
			return nil, fmt.Errorf("enforce: explain: %w", err)
		}
		own := limiter.Exchange{Key: keyspace.State(call.Subject), Program: program,
			Limits: e.Effective.Limits}
		steps = append(steps, stepNotMade{policy.ScopeKey, e.Effective.Mode, own, nil})
	}
	if len(rule.PerKeyEntry) > 0 {
		routed := limiter.Exchange{Key: rule.State(call.Subject),
			Program: rule.PerKeyProgram(), Limits: rule.PerKey}
		steps = append(steps, stepNotMade{policy.ScopeRoute, policy.OrEnforce(rule.Mode), routed, nil})
	}
	return steps, nil
}

// sharedSteps lists the shared limits that a check of the call would ask.
func (e *Explanation) sharedSteps(set *compiled.Set, call Call, rule *compiled.Route,
	addresses policyset.AddressKey) (steps []stepNotMade) {
	all := sharedSteps(set, call, rule, addresses)
	group := groupOf(set, e.Result.Group, e.Effective.Plan.Number)
	for _, s := range append(all, groupSteps(set, group, rule)...) {
		count := s.shared.CountingAt(e.Result.Now)
		exchange := limiter.Exchange{Key: s.keys[0], Program: count.Program, Limits: count.Counted}
		steps = append(steps, stepNotMade{s.shared.Scope, s.shared.Mode, exchange, s.shared})
	}
	return steps
}

// explain counts in what a step would answer.
func (c *Result) explain(x stepNotMade, reply []byte) error {
	if limiter.ReplyCostTooHigh(reply) {
		c.Allowed, c.WouldAllow = c.Allowed && x.mode != policy.Enforce, false
		return nil
	}
	d, err := limiter.ParseReply(reply, x.step.Limits)
	if err != nil {
		return fmt.Errorf("enforce: explain: %w", err)
	}
	c.Now = d.Now
	c.WouldAllow = c.WouldAllow && d.WouldAllow()
	c.Allowed = c.Allowed && (d.Allowed || x.mode != policy.Enforce)
	if x.shared != nil {
		x.shared.AsConfigured(d.Limits, d.Now)
	}
	for i := range d.Limits {
		if u := &d.Limits[i]; d.Allowed && c.Cost > 0 && !u.Exceeded() {
			*u = u.Returned(c.Cost) // as it is before the call
		}
	}
	c.Limits = append(c.Limits, LimitStates(d.Limits, x.scope, x.mode)...)
	return nil
}
