package main

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/store"
	"tidegate/internal/usage"
)

// checker decides calls and records them.
type checker struct {
	*connector
	log     *slog.Logger
	metrics *callMetrics
	decider *enforce.Decider

	lastUnusableLog atomic.Pointer[time.Time] // when logUnusableSet last logged
}

// unusableLogPause is the least time between two lines of logUnusableSet.
const unusableLogPause = time.Minute

// clusterSectors are few enough to find a shard that is away soon, and enough to spare
// the others.
const clusterSectors = 16

func newChecker(c settings, log *slog.Logger, metrics *callMetrics) *checker {
	return newCheckerAt(c, log, metrics, time.Now)
}

func newCheckerAt(c settings, log *slog.Logger, metrics *callMetrics, now func() time.Time) *checker {
	s := enforce.Settings{Pepper: c.pepper, CallerCache: c.CallerCache, DenyCache: c.DenyCache, Sectors: 1}
	if store.Clustered(c.ValkeyURL) {
		s.Sectors = clusterSectors
	}
	conn := newConnector(c)
	conn.now = now
	return &checker{connector: conn, log: log, metrics: metrics, decider: enforce.NewDecider(conn, s, now)}
}

// Check answers a call and records it. Its error means that the caller is refused, that
// there is no policy set, or that Valkey's answer makes no sense.
func (c *checker) Check(ctx context.Context, call enforce.Call) (enforce.Result, error) {
	result, asked, err := c.decider.Decide(ctx, call)
	c.logAsked(ctx, call, asked)
	if err == nil {
		c.record(call, result)
		c.metrics.RecordCheck(ctx, result, asked)
	}
	return result, err
}

// logAsked logs what asking Valkey came to. The breaker bounds how often a call fails,
// and so these lines.
func (c *checker) logAsked(ctx context.Context, call enforce.Call, asked enforce.Asked) {
	switch {
	case asked.Away:
		c.log.ErrorContext(ctx, "decided without the store",
			"subject", call.Subject, "open_circuits", asked.OpenCircuits, "cause", asked.Err)
	case asked.Recovered:
		c.log.WarnContext(ctx, "the store answers again", "open_circuits", asked.OpenCircuits)
	}
	c.logUnusableSet(ctx, asked.Err)
}

// logUnusableSet logs that the policy set in force cannot be used: err says so, or checks
// follow an older one.
func (c *checker) logUnusableSet(ctx context.Context, err error) {
	going := "nothing: every call is denied"
	if !errors.Is(err, enforce.ErrSet) {
		p := c.Loaded()
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
	if !checked.Allowed {
		o.Denial = c.denialOf(call, checked)
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
	if checked.OldSecret {
		v |= usage.OldSecret
	}
	return v
}
