package main

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/store"
	"tidegate/internal/usage"
)

// checker answers a call: from what is known here when the caller hammers at a limit,
// from Valkey, or without it when it is away.
type checker struct {
	*connector
	log     *slog.Logger
	watch   *monitor
	breaker *enforce.Breaker
	callers *enforce.Callers
	denials *enforce.DenialCache

	lastUnusableLog atomic.Pointer[time.Time] // when the log was last told that the Set cannot be used
}

// complainEvery is how long the log has to itself between two such lines.
const unusableLogPause = time.Minute

// clusterSectors are few enough for a shard that is away to be found out soon, and enough
// for the others to be spared.
const clusterSectors = 16

func newChecker(c settings, log *slog.Logger, watch *monitor) *checker {
	return newCheckerAt(c, log, watch, time.Now)
}

func newCheckerAt(c settings, log *slog.Logger, watch *monitor, now func() time.Time) *checker {
	sectors := 1
	if store.Clustered(c.ValkeyURL) {
		sectors = clusterSectors
	}
	conn := newConnector(c)
	conn.now = now
	return &checker{
		connector: conn, log: log, watch: watch,
		breaker: enforce.NewBreaker(sectors, now), callers: enforce.NewCallers(c.CallerCache, now),
		denials: enforce.NewDenialCache(c.DenyCache, now),
	}
}

// Check answers a call and records it. Its error means that the caller is refused, that
// there is no Set to go by, or that Valkey's answer makes no sense.
func (c *checker) Check(ctx context.Context, call enforce.Call) (enforce.Result, error) {
	var asked asked
	checked, err := c.answer(ctx, call, &asked)
	if err == nil {
		c.record(call, checked)
		c.watch.Checked(ctx, checked, asked)
	}
	return checked, err
}

func (c *checker) answer(ctx context.Context, call enforce.Call, asked *asked) (enforce.Result, error) {
	terms, set, err := c.terms(call)
	proof := c.proof(call)
	blocked := enforce.DeniedCall{Subject: call.Subject, Proof: proof, Plan: call.Plan, Rule: terms.Rule,
		Cost: terms.Cost, SetVersion: terms.SetVersion}
	if err == nil && !c.usage.Due(c.now()) { // records that are due would need a round trip of their own
		if checked, found := c.denials.Find(blocked); found {
			return checked, nil
		}
	}
	if !c.breaker.Ask(call.Subject) {
		return c.decide(call, proof, set, terms, err)
	}
	began := c.now()
	checked, checkErr := c.connector.Check(ctx, call)
	away := isAway(checkErr)
	asked.took, asked.failed = c.now().Sub(began), away
	c.report(ctx, call, away, checkErr)
	c.logUnusableSet(ctx, checkErr)
	switch {
	case away:
		return c.decide(call, proof, set, terms, err)
	case checkErr == nil:
		c.callers.Remember(call, proof, checked)
		if blocked.SetVersion = checked.SetVersion; err == nil {
			c.denials.Learn(blocked, began, checked)
		}
	case errors.Is(checkErr, policy.ErrUnknownKey):
		c.callers.Forget(call, proof)
	}
	return checked, checkErr
}

// decide answers without Valkey. terms failed with err; a caller that the Set refuses
// stays refused.
func (c *checker) decide(call enforce.Call, proof enforce.Proof, set *policy.Set, terms enforce.RouteMatch,
	err error) (enforce.Result, error) {
	if errors.Is(err, policy.ErrRefused) {
		return enforce.Result{}, err
	}
	var rules []enforce.RuleLimits
	if p := c.loaded(); p != nil {
		rules = p.RuleLimits(call)
	}
	return c.callers.Decide(call, proof, set, terms, rules), nil
}

// proof is what a caller is remembered by.
func (c *checker) proof(call enforce.Call) enforce.Proof {
	if call.Kind != policy.APIKey {
		return enforce.Proof{}
	}
	return c.config.pepper.Hash(call.Secret)
}

// terms are what the Set that is known here says; the Set is nil when there is none.
func (c *checker) terms(call enforce.Call) (enforce.RouteMatch, *policy.Set, error) {
	p := c.loaded()
	if p == nil {
		return enforce.RouteMatch{Cost: 1}, nil, nil
	}
	terms, err := p.RouteMatch(call)
	return terms, p.Set(), err
}

// isAway tells Valkey's absence from the answers that are errors.
func isAway(err error) bool {
	for _, answer := range []error{policy.ErrUnknownKey, policy.ErrRefused, enforce.ErrSet, limiter.ErrCost,
		limiter.ErrReply} {
		if errors.Is(err, answer) {
			return false
		}
	}
	return store.Away(err)
}

// report tells the breaker, and the log what the breaker makes of it. How often a call
// fails is bounded by the breaker, and so are these lines.
func (c *checker) report(ctx context.Context, call enforce.Call, away bool, err error) {
	open, changed := c.breaker.Report(call.Subject, !away)
	switch {
	case away:
		c.log.ErrorContext(ctx, "decided without the store", "subject", call.Subject, "open_circuits",
			open, "cause", err)
	case changed:
		c.log.WarnContext(ctx, "the store answers again", "open_circuits", open)
	}
}

// complain logs that the Set in force cannot be used, whether err says so or checks go by
// an older one.
func (c *checker) logUnusableSet(ctx context.Context, err error) {
	going := "nothing: every call is denied"
	if !errors.Is(err, enforce.ErrSet) {
		p := c.loaded()
		if p == nil || p.Problem() == nil {
			return
		}
		going, err = "the last good one, and the newer plans", p.Problem()
	}
	now, last := c.now(), c.lastUnusableLog.Load()
	if last != nil && store.ElapsedAtMost(*last, now) < unusableLogPause ||
		!c.lastUnusableLog.CompareAndSwap(last, &now) {
		return
	}
	c.log.ErrorContext(ctx, "the policy set cannot be used", "going_by", going, "cause", err)
}

// record counts a call that was decided. A caller who was not verified has no id.
func (c *checker) record(call enforce.Call, checked enforce.Result) {
	o := usage.Outcome{
		Subject: checked.ID, Registered: call.Kind == policy.APIKey && checked.ID != "",
		Verdict: verdictOf(checked), Cost: checked.Cost, Time: c.now(),
	}
	if checked.Rule != "" {
		o.Rules = []string{policy.RouteID(checked.Rule)}
	}
	c.usage.Record(o)
}

func verdictOf(checked enforce.Result) usage.Verdict {
	var v usage.Verdict
	switch {
	case !checked.Allowed:
		v = usage.Denied
	case !checked.WouldAllow:
		v = usage.ShadowDenied
	}
	if !checked.CandidateAllows {
		v |= usage.CandidateDenied
	}
	if checked.Degraded {
		v |= usage.Degraded
	}
	return v
}
