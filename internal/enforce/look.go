package enforce

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"

	"tidegate/internal/cause"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// Looks evaluate steps with a script that cannot write: pages and explanations change no
// count.

// Explain returns what a Check of the key's call would return now. It takes nothing, and
// ignores call's Kind, Subject and Secret. Without an address, lists and limits of
// addresses are left out.
func (c *Checker) Explain(ctx context.Context, set *policy.Set, k policy.Key, call Call) (Explanation,
	error) {
	compiled, err := compile(set)
	if err != nil {
		return Explanation{}, fmt.Errorf("enforce: explain: %w", err)
	}
	call.Kind, call.Subject = k.Kind, k.ID
	t, err := c.termsOf(compiled, k, call)
	if err != nil {
		return Explanation{}, fmt.Errorf("enforce: explain: %w", err)
	}
	e := Explanation{Exempt: within(compiled.Exempt, call.Address), Result: t.Result}
	e.Effective, _ = set.Effective(k, c.Now())
	if t.standing.router != nil {
		if found, err := t.standing.router.Find(call.Route); err == nil {
			e.Routes, e.CostFrom = found.Routes, found.CostFrom()
		}
	}
	e.Result.Now = c.Now().UTC()
	if t.Refused != nil {
		e.Refused = refusal(k, call, t.Refused, compiled)
		return e, nil //nolint:nilerr // the refusal is the explanation
	}
	if err := c.look(ctx, t.Steps, e.Result.Limits); err != nil {
		return Explanation{}, err
	}
	e.Result.decide(len(t.Steps[0].Limits))
	return e, nil
}

// termsOf returns the terms of a call of a key as it is given. Its secret is taken for good.
func (c *Checker) termsOf(set *compiled, k policy.Key, call Call) (*Terms, error) {
	known := &caller{key: k, now: c.Now()}
	if len(k.Opens) > 0 {
		var err error
		if known.opens, err = route.NewList(k.Opens); err != nil {
			return nil, err
		}
	}
	lists := *set
	if !call.Address.IsValid() { // an explanation without an address leaves the lists out
		lists.Deny, lists.Allow, lists.Exempt = nil, nil, nil
	}
	call.trusted = true
	return c.terms(&lists, known, call, [sha256.Size]byte{})
}

// refusal says in words why a caller may not call.
func refusal(k policy.Key, call Call, refused *policy.RefusedError, set *compiled) string {
	switch {
	case refused.Cause == cause.Revoked:
		return "the key is " + string(k.Status)
	case refused.Cause == cause.Expired:
		return "the key expired"
	case refused.Cause == cause.Address && within(set.Deny, call.Address):
		return "the address is on the deny list"
	case refused.Cause == cause.Address && refused.Reason == "":
		return "the address is not on the allow list"
	case refused.Reason != "":
		return refused.Reason
	}
	plan, _ := set.EffectivePlan(k)
	return policy.AccessProblem(k, plan, call.Route)
}

// decide answers by the states of limits before a call. As a check does, it asks shared
// limits only if the caller's own, the first of them, allow the call.
func (c *Result) decide(own int) {
	c.Allowed, c.WouldAllow = c.BannedUntil.IsZero(), c.BannedUntil.IsZero()
	for i := range c.Limits {
		l := &c.Limits[i]
		if i == own && !c.Allowed {
			for j := own; j < len(c.Limits); j++ {
				c.Limits[j] = LimitState{Applied: c.Limits[j].Applied, Unread: true}
			}
			return
		}
		if l.Unread || l.CountsOnly || !l.Full() {
			continue
		}
		c.WouldAllow = false
		c.Allowed = c.Allowed && l.Shadow
	}
}

// look fills in the states of the limits of steps, in one flush.
func (c *Checker) look(ctx context.Context, steps []Step, states []LimitState) error {
	var runs []run
	for _, s := range steps {
		if len(s.Limits) == 0 {
			continue
		}
		r := sharedRun(lookScript, s.Subject, s.step)
		if s.step.Reset > 0 {
			r.args[1] = strconv.FormatInt(s.step.Reset, 10)
		}
		runs = append(runs, r)
	}
	replies := c.flush(ctx, runs)
	at, next := 0, 0
	for _, s := range steps {
		if len(s.Limits) == 0 {
			continue
		}
		reply := replies[next]
		next++
		if reply.err != nil {
			return fmt.Errorf("enforce: look: %w", reply.err)
		}
		d, err := s.step.Decision(reply.numbers)
		if err != nil {
			return fmt.Errorf("enforce: look: %w", err)
		}
		for _, u := range d.Limits {
			states[at].Set(u)
			at++
		}
	}
	return nil
}

// Survey returns the state of every limit that a call of the key may fall under. It takes
// nothing, and reads every state in one flush.
func (c *Checker) Survey(ctx context.Context, set *policy.Set, k policy.Key) (Survey, error) {
	compiled, err := compile(set)
	if err != nil {
		return Survey{}, fmt.Errorf("enforce: survey: %w", err)
	}
	var s Survey
	s.Effective, _ = set.Effective(k, c.Now())
	s.Result = Result{ID: k.ID, Name: k.Name, Plan: s.Effective.Plan.Name, Group: k.Group,
		Source: s.Effective.Source, Cost: 1, Now: c.Now().UTC(), SetVersion: set.Version,
		KeyVersion: k.Version}
	if k.Status == policy.Unreadable {
		s.Refused = "the key is " + string(k.Status)
		return s, nil
	}
	if k.Banned.After(s.Result.Now) {
		s.Result.BannedUntil = k.Banned
	}
	call := Call{Kind: k.Kind, Subject: k.ID}
	t, err := c.termsOf(compiled, k, call)
	if err != nil {
		return Survey{}, fmt.Errorf("enforce: survey: %w", err)
	}
	if r := t.standing.refused; r != nil {
		s.Refused = refusal(k, call, r, compiled)
	}
	steps, states, err := c.standing(t, true)
	if err != nil {
		return Survey{}, fmt.Errorf("enforce: survey: %w", err)
	}
	if err := c.look(ctx, steps, states); err != nil {
		return Survey{}, err
	}
	s.Result.Limits = states
	s.decide()
	return s, nil
}

// decide says whether a call that falls under no route would pass the limits of the caller
// and its group.
func (s *Survey) decide() {
	passes := s.Refused == "" && s.Result.BannedUntil.IsZero()
	s.Result.Allowed, s.Result.WouldAllow = passes, passes
	for _, l := range s.Result.Limits {
		if l.Unread || l.On != "" || l.Shared() && l.Who != limits.EachGroup || l.CountsOnly || !l.Full() {
			continue
		}
		s.Result.WouldAllow = false
		s.Result.Allowed = s.Result.Allowed && l.Shadow
	}
}

// standing arranges the limits that may apply to calls of a caller into steps, for a cost of
// 1. The states of those that have a count without a call's values come first, in the order
// of the steps; the others are Unread. all says that limits of addresses and of all callers
// are among them.
func (c *Checker) standing(t *Terms, all bool) ([]Step, []LimitState, error) {
	var unread []LimitState
	t.Steps, t.Result.Limits = []Step{{Subject: t.call.Subject}}, nil
	for i, a := range t.standing.candidates {
		if !all && !a.Who.OfCaller() && a.Who != limits.EachGroup {
			continue
		}
		a.Cost = 1
		if name := t.standing.names[i]; name != "" && a.Who != limits.EachAddress {
			t.add(a, c.subjectOf(a, t.call, t.standing.key.Group, name), name)
		} else {
			unread = append(unread, LimitState{Applied: a, Unread: true})
		}
	}
	if err := t.build(c); err != nil {
		return nil, nil, err
	}
	return t.Steps, append(t.Result.Limits, unread...), nil
}

// standingSteps returns the steps on the limits of a caller and its group.
func (c *Checker) standingSteps(set *compiled, k *caller, call Call) ([]Step, []LimitState, error) {
	t, err := c.terms(set, k, call, [sha256.Size]byte{})
	if err != nil {
		return nil, nil, err
	}
	if t.standing.refused != nil {
		return nil, nil, t.standing.refused
	}
	return c.standing(t, false)
}

// Usage returns, for each key in order, the states of the limits of each caller and of each
// group, before a call of cost 1. It takes nothing, and reads all states in one flush. A
// key that may not call, or whose record cannot be read, has none.
func (c *Checker) Usage(ctx context.Context, set *policy.Set, keys []policy.Key) ([][]LimitState, error) {
	compiled, err := compile(set)
	if err != nil {
		return nil, fmt.Errorf("enforce: usage: %w", err)
	}
	all := make([][]LimitState, len(keys))
	var steps []Step
	var states []LimitState
	for i, k := range keys {
		if k.Status == policy.Unreadable {
			continue
		}
		known := &caller{key: k, now: c.Now()}
		own, limits, err := c.standingSteps(compiled, known, Call{Kind: k.Kind, Subject: k.ID, trusted: true})
		if refused := new(policy.RefusedError); errors.As(err, &refused) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("enforce: usage: %w", err)
		}
		steps, states = append(steps, own...), append(states, limits[:read(own)]...)
		all[i] = limits
	}
	if err := c.look(ctx, steps, states); err != nil {
		return nil, err
	}
	for i := range all {
		n := copy(all[i], states[:min(len(states), readStates(all[i]))])
		states = states[n:]
	}
	return all, nil
}

// read returns the number of limits that steps read.
func read(steps []Step) (n int) {
	for _, s := range steps {
		n += len(s.Limits)
	}
	return n
}

// readStates returns the number of states before those that have no count of their own.
func readStates(states []LimitState) (n int) {
	for _, l := range states {
		if l.Param == "" && l.Who != limits.CallerPattern && l.Who != limits.EachAddress {
			n++
		}
	}
	return n
}

// GroupUsage returns the states of the limits of each group that stand in some plans and in
// the policy, before a call of cost 1. It takes nothing.
func (c *Checker) GroupUsage(ctx context.Context, set *policy.Set, group string,
	plans []policy.Plan) ([]LimitState, error) {
	language := set.Language()
	t := &Terms{call: Call{}, Result: Result{Group: group}}
	add := func(candidates []limits.Applied, source limits.Source) {
		for _, a := range candidates {
			if a.Who == limits.EachGroup && a.Source == source {
				a.Cost = 1
				t.add(a, policy.GroupID(group), a.Count.Name())
			}
		}
	}
	for _, p := range plans {
		for i := range language.Plans {
			if set.Plans[i].Number == p.Number {
				add(language.Candidates(limits.Caller{Group: group, Plan: &language.Plans[i]}),
					limits.FromPlan)
			}
		}
	}
	add(language.Candidates(limits.Caller{Group: group}), limits.FromPolicy)
	if err := t.build(c); err != nil {
		return nil, fmt.Errorf("enforce: usage of a group: %w", err)
	}
	return t.Result.Limits, c.look(ctx, t.Steps, t.Result.Limits)
}
