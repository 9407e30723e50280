package enforce

import (
	"context"
	"fmt"

	"tidegate/internal/enforce/compiled"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
)

// Survey is every limit that some call of a key would fall under, on any route and from
// any address.
type Survey struct {
	// Explanation is that of a call that matches no route rule and has no address.
	Explanation
	Own    limiter.Decision // about that call by the key's own limits; zero without any
	Limits []SurveyedLimit  // the key's own first
}

// SurveyedLimit is one limit of a Survey.
type SurveyedLimit struct {
	LimitState
	Rule     string // name of the route rule whose calls it counts; empty for every call
	Replaced bool   // an override replaces it: it counts, and denies nothing
	// Unread marks a limit whose state is unknown, because each address has its own. Only
	// Limit, Scope, Mode and Rule are set.
	Unread bool
}

// surveyedStep is a step of a check on some route.
type surveyedStep struct {
	explainedStep
	rule     string
	replaced bool
}

// Survey returns the state of every limit that a call of the key would fall under. It
// takes nothing, and reads every state in one flush.
func (c *Checker) Survey(ctx context.Context, set *policy.Set, k policy.Key) (Survey, error) {
	compiledSet, err := compiled.New(set)
	if err != nil {
		return Survey{}, fmt.Errorf("enforce: survey: %w", err)
	}
	s := Survey{Explanation: c.newExplanation(compiledSet, k, Call{}, compiledSet.Fallback)}
	if s.Refused = keyRefusal(k, s.Result.Now); s.Refused == "" && s.Effective.Plan.Name == "" {
		s.Refused = refusedWithoutPlan
	}
	s.Result.Allowed, s.Result.WouldAllow = s.Refused == "", s.Refused == ""
	s.Result.ban(k.Banned)
	if k.Status == policy.Unreadable {
		return s, nil
	}
	steps, err := c.surveyedSteps(&s, compiledSet, k)
	if err != nil {
		return Survey{}, err
	}
	states := make([]limiter.State, len(steps))
	for i, x := range steps {
		states[i] = x.step
	}
	looks, err := limiter.PeekMany(ctx, c.client, states)
	if err != nil {
		return Survey{}, fmt.Errorf("enforce: survey: %w", err)
	}
	for i, look := range looks {
		if err := s.add(steps[i], look); err != nil {
			return Survey{}, err
		}
	}
	s.addUnread(compiledSet)
	return s, nil
}

// surveyedSteps lists the steps whose states are known, the key's own first.
func (c *Checker) surveyedSteps(s *Survey, set *compiled.Set, k policy.Key) ([]surveyedStep, error) {
	call := Call{Subject: k.ID}
	own, err := s.ownSteps(call, set.Fallback)
	if err != nil {
		return nil, err
	}
	var steps []surveyedStep
	add := func(rule *compiled.Route, replaced bool, all ...explainedStep) {
		for _, x := range all {
			x.step.Cost = rule.Cost
			steps = append(steps, surveyedStep{x, rule.Name, replaced})
		}
	}
	add(set.Fallback, false, own...)
	if plan := s.Effective.Plan; s.Effective.Override != nil &&
		len(plan.Limits) > 0 {
		program, err := limiter.Compile(plan.Limits, s.Result.Now)
		if err != nil {
			return nil, fmt.Errorf("enforce: survey: %w", err)
		}
		add(set.Fallback, true, explainedStep{scope: policy.ScopeKey, mode: policy.OrEnforce(plan.Mode),
			step: limiter.State{Key: keyspace.State(k.ID), Program: program, Limits: plan.Limits}})
	}
	add(set.Fallback, false, c.explainedShared(&s.Explanation, set, call, set.Fallback)...)
	for _, rule := range set.Rules() {
		if len(rule.PerKeyEntry) > 0 {
			add(rule, false, routeStep(call, rule))
		}
		if rule.SharedByAll != nil {
			step := sharedStep(set, rule.SharedByAll, rule, policy.RouteID(rule.Name), "s")
			add(rule, false, sharedLook(step))
		}
	}
	return steps, nil
}

// add adds the limits of a step. A step that every call makes also decides Result, as a
// check does: shared limits count only if the key's own allow the call.
func (s *Survey) add(x surveyedStep, look limiter.Look) error {
	if look.TooHigh {
		return nil // the rule costs more than its own limit, which no saved set has
	}
	for _, l := range LimitStates(look.Limits, x.scope, x.mode) {
		s.Limits = append(s.Limits, SurveyedLimit{LimitState: l, Rule: x.rule, Replaced: x.replaced})
	}
	switch {
	case x.rule != "" || x.replaced:
		return nil
	case x.scope == policy.ScopeKey:
		s.Own = look.Decision
	case !s.mayCall() || s.Effective.Mode == policy.Enforce && len(s.Own.Limits) > 0 && !s.Own.Allowed:
		return nil
	}
	return s.Result.addDecision(x.scope, x.mode, nil, look.Decision, nil, taken{})
}

// addUnread adds the limits on each address.
func (s *Survey) addUnread(set *compiled.Set) {
	add := func(shared *compiled.SharedLimit, rule string) {
		if shared == nil {
			return
		}
		usage := make([]limiter.Usage, len(shared.Limits))
		for i, l := range shared.Limits {
			usage[i].Limit = l
		}
		for _, l := range LimitStates(usage, shared.Scope, shared.Mode) {
			s.Limits = append(s.Limits, SurveyedLimit{LimitState: l, Rule: rule, Unread: true})
		}
	}
	add(set.SharedPerIP, "")
	for _, rule := range set.Rules() {
		add(rule.SharedPerIP, rule.Name)
	}
}
