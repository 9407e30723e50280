package enforce

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidegate/internal/enforce/compiled"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/route"
	"tidegate/internal/store/keyspace"
)

// Explanation is what a Check of a call would return, and why.
type Explanation struct {
	Matches   []route.Match // route rules that match the call; Index is that in Set.Routes
	Refused   string        // why the caller may not call, whatever the limits; empty if it may
	Exempt    bool          // the address is not limited
	Effective policy.Effective
	Result    Result // what Check would return, but Remaining is that before the call
}

// Explain returns what a Check of the key's call would return now, in an environment that
// holds no leases. It takes nothing, and ignores call's Kind, Subject and Secret.
func (c *Checker) Explain(ctx context.Context, set *policy.Set, k policy.Key,
	call Call) (Explanation, error) {
	compiledSet, err := compiled.New(set)
	if err != nil {
		return Explanation{}, fmt.Errorf("enforce: explain: %w", err)
	}
	now := c.Now()
	call.Kind, call.Subject = k.Kind, k.ID
	e := Explanation{Matches: compiledSet.Matches(call.Route), Exempt: compiledSet.Exempts(call.Address)}
	e.Effective, _ = set.Effective(k, now)
	_, rule, err := matchCall(compiledSet, call)
	if e.Refused = refusal(compiledSet, k, call, now, err); rule == nil {
		rule = compiledSet.Fallback
	}
	e.Result = Result{
		Allowed: e.Refused == "", WouldAllow: e.Refused == "", CandidateAllows: true, Cost: rule.Cost,
		Now: now, ID: k.ID, Name: k.Name, Plan: k.Plan, Group: k.Group,
		Source: e.Effective.Source,
		Rule:   rule.Name, Settle: rule.Settle, SetVersion: set.Version, KeyVersion: k.Version,
		free: true, // nothing is taken
	}
	if err := c.explainBan(ctx, &e.Result, set, k); err != nil {
		return Explanation{}, err
	}
	return e, c.explainLimits(ctx, &e, compiledSet, call, rule)
}

// refusal returns the reason why a caller may not call; empty if it may. err is that of
// matchCall.
func refusal(set *compiled.Set, k policy.Key, call Call, now time.Time, err error) string {
	switch {
	case k.Status != policy.Active:
		return "the key is " + string(k.Status)
	case !k.Expires.IsZero() && !k.Expires.After(now):
		return "the key expired"
	case set.Denies(call.Address):
		return "the address is on the deny list"
	case !set.Admits(call.Address):
		return "the address is not on the allow list"
	case errors.Is(err, policy.ErrRefused) && k.Plan == "":
		return "callers of this kind have no default plan"
	case err != nil:
		return "the path can be read in two ways that different routes match"
	}
	plan, _ := set.EffectivePlan(k)
	return policy.AccessProblem(k, plan, call.Route)
}

// explainBan applies a ban, whether an operator or the policy imposed it.
func (c *Checker) explainBan(ctx context.Context, result *Result, set *policy.Set, k policy.Key) error {
	until, err := policyset.BannedUntil(ctx, c.client, set, []policy.Key{k})
	if err != nil {
		return err
	}
	if until[0].After(result.Now) {
		result.BannedUntil, result.Allowed, result.WouldAllow = until[0], false, false
	}
	return nil
}

// explainedStep is a step of a check that is evaluated.
type explainedStep struct {
	scope  string
	mode   policy.Mode
	step   limiter.State
	shared *compiled.SharedLimit // nil for the caller's own limits
}

// explainLimits evaluates the caller's own limits, and as a check does, shared limits
// only if the caller's own allow the call.
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
		if err := c.explainSteps(ctx, e, c.explainedShared(e, set, call, rule)); err != nil {
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

func (c *Checker) explainSteps(ctx context.Context, e *Explanation, steps []explainedStep) error {
	states := make([]limiter.State, len(steps))
	for i, x := range steps {
		states[i] = x.step
		states[i].Cost = e.Result.Cost
	}
	looks, err := limiter.PeekMany(ctx, c.client, states)
	if err != nil {
		return fmt.Errorf("enforce: explain: %w", err)
	}
	for i, look := range looks {
		if err := e.Result.explain(steps[i], look); err != nil {
			return err
		}
	}
	return nil
}

// ownSteps lists the steps that a check would make on the caller's own limits.
func (e *Explanation) ownSteps(call Call, rule *compiled.Route) ([]explainedStep, error) {
	var steps []explainedStep
	if e.Effective.Mode != policy.Off && len(e.Effective.Limits) > 0 {
		program, err := limiter.Compile(e.Effective.Limits, e.Result.Now)
		if err != nil {
			return nil, fmt.Errorf("enforce: explain: %w", err)
		}
		own := limiter.State{Key: keyspace.State(call.Subject), Program: program,
			Limits: e.Effective.Limits}
		steps = append(steps, explainedStep{policy.ScopeKey, e.Effective.Mode, own, nil})
	}
	if len(rule.PerKeyEntry) > 0 {
		routed := limiter.State{Key: rule.State(call.Subject),
			Program: rule.PerKeyProgram(), Limits: rule.PerKey}
		steps = append(steps, explainedStep{policy.ScopeRoute, policy.OrEnforce(rule.Mode), routed, nil})
	}
	return steps, nil
}

// explainedShared lists the steps that a check would make on shared limits.
func (c *Checker) explainedShared(e *Explanation, set *compiled.Set, call Call,
	rule *compiled.Route) (steps []explainedStep) {
	group := groupOf(set, e.Result.Group, e.Effective.Plan.Number)
	for _, s := range append(c.sharedSteps(set, call, rule), groupSteps(set, group, rule)...) {
		count := s.shared.CountingAt(e.Result.Now)
		state := limiter.State{Key: s.keys[0], Program: count.Program, Limits: count.Counted}
		steps = append(steps, explainedStep{s.shared.Scope, s.shared.Mode, state, s.shared})
	}
	return steps
}

// explain adds what a step would decide.
func (c *Result) explain(x explainedStep, look limiter.Look) error {
	if look.TooHigh {
		c.Allowed, c.WouldAllow = c.Allowed && x.mode != policy.Enforce, false
		return nil
	}
	if x.shared != nil {
		x.shared.AsConfigured(look.Limits, look.Now)
	}
	return c.addDecision(x.scope, x.mode, look.Decision, nil, taken{})
}
