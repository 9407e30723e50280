package main

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"tidegate/internal/crossing"
	"tidegate/internal/decide"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/store"
)

// checker decides calls and records them.
type checker struct {
	*connector
	log     *slog.Logger
	metrics *callMetrics
	decider *decide.Decider

	lastUnusableLog atomic.Pointer[time.Time] // time of logUnusableSet's last line
}

// unusableLogPause is the minimum time between two lines of logUnusableSet.
const unusableLogPause = time.Minute

// clusterSectors is the number of circuit breakers of a cluster. With fewer, an
// unreachable shard is noticed sooner. With more, fewer callers of other shards are
// affected.
const clusterSectors = 16

func newChecker(c settings, log *slog.Logger, metrics *callMetrics, now func() time.Time) *checker {
	s := decide.Settings{CallerCache: c.CallerCache, DenyCache: c.DenyCache, Sectors: 1}
	if store.Clustered(c.ValkeyURL) {
		s.Sectors = clusterSectors
	}
	conn := newConnector(c, now)
	return &checker{connector: conn, log: log, metrics: metrics, decider: decide.NewDecider(conn, s, now)}
}

// Check decides a call and records it. It returns an error if the caller is refused,
// there is no policy set, or Valkey's answer is invalid.
func (c *checker) Check(ctx context.Context, call enforce.Call) (enforce.Result, error) {
	result, report, err := c.decider.Decide(ctx, call)
	c.logReport(ctx, call, report)
	if err == nil {
		result.Reference = c.record(call, &result)
		c.metrics.RecordCheck(ctx, result, report)
		c.logNever(ctx, &result)
		return result, nil
	}
	c.logFailure(ctx, call, err)
	return result, err
}

// Settle settles a call. It takes at most 3/2 of VALKEY_TIMEOUT, plus
// VALKEY_CONNECT_TIMEOUT while it waits for a connection.
func (c *checker) Settle(ctx context.Context, text string, actual limits.Costs) (enforce.Settlement,
	error) {
	s, err := c.connector.Settle(ctx, text, actual)
	if err == nil {
		c.metrics.crossings.Note(crossing.SettlementOf(&s), s.Crossings)
	}
	return s, err
}

// logFailure logs that the check of a call failed, once a minute for each caller. Other
// functions log the rest.
func (c *checker) logFailure(ctx context.Context, call enforce.Call, err error) {
	id := slog.String("key_id", call.Subject)
	_, refused := errors.AsType[*policy.RefusedError](err)
	switch {
	case refused, errors.Is(err, enforce.ErrSet):
	default:
		c.metrics.once.LogOnce(ctx, slog.LevelError, "check failed", call.Subject, id,
			slog.String("request_id", call.Request), slog.Any("cause", err))
	}
}

// logNever logs that a call costs more than its limit, once a minute for each caller.
func (c *checker) logNever(ctx context.Context, result *enforce.Result) {
	if !result.Allowed && result.Never() {
		c.metrics.once.LogOnce(ctx, slog.LevelError, "call costs more than its limit", result.ID,
			slog.String("key_id", result.ID), slog.String("route", result.Route))
	}
}

// logReport logs that Valkey does not answer, or answers again. The circuit breaker bounds
// the number of failed calls, and so of these lines.
func (c *checker) logReport(ctx context.Context, call enforce.Call, report decide.Report) {
	switch {
	case report.Unavailable:
		c.log.ErrorContext(ctx, "decided without Valkey",
			"subject", call.Subject, "open_circuits", report.OpenCircuits, "cause", report.Err)
	case report.Recovered:
		c.log.WarnContext(ctx, "Valkey answers again", "open_circuits", report.OpenCircuits)
	}
	c.logUnusableSet(ctx, report.Err)
}

// logUnusableSet logs that the current policy set cannot be used. Either err says so, or
// checks use an older set.
func (c *checker) logUnusableSet(ctx context.Context, err error) {
	inUse := "no policy set: every call is denied"
	if !errors.Is(err, enforce.ErrSet) {
		p := c.Loaded()
		if p == nil || p.Problem() == nil {
			return
		}
		inUse, err = "the last good policy set with the newer plans", p.Problem()
	}
	now, last := c.now(), c.lastUnusableLog.Load()
	if last != nil && store.ElapsedAtMost(*last, now) < unusableLogPause ||
		!c.lastUnusableLog.CompareAndSwap(last, &now) {
		return
	}
	c.log.ErrorContext(ctx, "the policy set cannot be used", "going_by", inUse, "cause", err)
}
