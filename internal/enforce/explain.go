package enforce

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidegate/internal/enforce/compiled"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
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

// Explain returns what a Check of the key's call would return now. It takes nothing, and
// ignores call's Kind, Subject and Secret. Without an address, lists and limits of
// addresses are left out.
func (c *Checker) Explain(ctx context.Context, set *policy.Set, k policy.Key,
	call Call) (Explanation, error) {
	compiledSet, err := compiled.New(set)
	if err != nil {
		return Explanation{}, fmt.Errorf("enforce: explain: %w", err)
	}
	call.Kind, call.Subject = k.Kind, k.ID
	rule, err := compiledSet.RouteFor(call.Route)
	if err != nil {
		rule = compiledSet.Fallback
	} else {
		_, err = compiledSet.PlanFor(call.Kind, call.Plan)
	}
	refused := refusal(compiledSet, k, call, c.Now(), err)
	e := c.newExplanation(compiledSet, k, call, rule)
	e.Matches, e.Refused = compiledSet.Matches(call.Route), refused
	e.Result.Allowed, e.Result.WouldAllow = refused == "", refused == ""
	e.Result.ban(k.Banned)
	return e, c.explainLimits(ctx, &e, compiledSet, call, rule)
}

// newExplanation returns what is known of a call without its limits.
func (c *Checker) newExplanation(set *compiled.Set, k policy.Key, call Call,
	rule *compiled.Route) Explanation {
	now := c.Now()
	e := Explanation{Exempt: set.Exempts(call.Address)}
	e.Effective, _ = set.Effective(k, now)
	e.Result = Result{
		Cost: rule.Cost, Now: now, ID: k.ID, Name: k.Name, Plan: k.Plan,
		Group: k.Group, Source: e.Effective.Source, Rule: rule.Name, Settle: rule.Settle,
		SetVersion: set.Version, KeyVersion: k.Version,
		free: true, // nothing is taken
	}
	return e
}

// refusal returns the reason why a caller may not call; empty if it may. err is that of
// RouteFor or PlanFor.
func refusal(set *compiled.Set, k policy.Key, call Call, now time.Time, err error) string {
	if reason := keyRefusal(k, now); reason != "" {
		return reason
	}
	switch {
	case set.Denies(call.Address):
		return "the address is on the deny list"
	case !set.Admits(call.Address):
		return "the address is not on the allow list"
	case errors.Is(err, policy.ErrRefused) && k.Plan == "":
		return refusedWithoutPlan
	case err != nil:
		return "the path can be read in two ways that different routes match"
	}
	plan, _ := set.EffectivePlan(k)
	return policy.AccessProblem(k, plan, call.Route)
}

const refusedWithoutPlan = "callers of this kind have no default plan"

// keyRefusal returns the reason why no call of a key may pass; empty for none.
func keyRefusal(k policy.Key, now time.Time) string {
	switch {
	case k.Status != policy.Active:
		return "the key is " + string(k.Status)
	case !k.Expires.IsZero() && !k.Expires.After(now):
		return "the key expired"
	}
	return ""
}

// ban applies a ban.
func (c *Result) ban(until time.Time) {
	if until.After(c.Now) {
		c.BannedUntil, c.Allowed, c.WouldAllow = until, false, false
	}
}

// explainedStep is a step of a check that is evaluated.
type explainedStep struct {
	scope string
	mode  policy.Mode
	step  limiter.State
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
	if len(e.Effective.Limits) > 0 {
		program, err := limiter.Compile(e.Effective.Limits, e.Result.Now)
		if err != nil {
			return nil, fmt.Errorf("enforce: explain: %w", err)
		}
		own := limiter.State{Key: keyspace.State(call.Subject), Program: program,
			Limits: e.Effective.Limits}
		steps = append(steps, explainedStep{policy.ScopeKey, e.Effective.Mode, own})
	}
	if len(rule.PerKeyEntry) > 0 {
		steps = append(steps, routeStep(call, rule))
	}
	return steps, nil
}

// routeStep is the step on a rule's limits of each caller. The rule must have some.
func routeStep(call Call, rule *compiled.Route) explainedStep {
	state := limiter.State{Key: rule.State(call.Subject), Program: rule.PerKeyProgram(), Limits: rule.PerKey}
	return explainedStep{policy.ScopeRoute, policy.OrEnforce(rule.Mode), state}
}

// explainedShared lists the steps that a check would make on shared limits.
func (c *Checker) explainedShared(e *Explanation, set *compiled.Set, call Call,
	rule *compiled.Route) (steps []explainedStep) {
	group := groupOf(set, e.Result.Group, e.Effective.Plan.Number)
	for _, s := range append(c.sharedSteps(set, call, rule), groupSteps(set, group, rule)...) {
		steps = append(steps, sharedLook(s))
	}
	return steps
}

// sharedLook is the look in place of a step on shared limits.
func sharedLook(s step) explainedStep {
	state := limiter.State{Key: s.keys[0], Program: s.shared.Program, Limits: s.shared.Limits}
	return explainedStep{s.shared.Scope, s.shared.Mode, state}
}

// explain adds what a step would decide.
func (c *Result) explain(x explainedStep, look limiter.Look) error {
	if look.TooHigh {
		c.WouldAllow, c.Impossible = false, c.Impossible || x.mode == policy.Enforce
		c.Allowed = c.Allowed && !c.Impossible
		return nil
	}
	return c.addDecision(x.scope, x.mode, nil, look.Decision, nil, taken{})
}
