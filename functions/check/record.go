package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"tidegate/functions/check/authorizer"
	"tidegate/internal/answer"
	"tidegate/internal/cause"
	"tidegate/internal/crossing"
	"tidegate/internal/decide"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/telemetry"
	"tidegate/internal/usage"
	"tidegate/internal/usage/denylog"
)

// record counts a decided call. The result of an unverified caller has no id.
func (c *checker) record(call enforce.Call, checked enforce.Result) {
	o := usage.Outcome{
		Subject:    checked.ID,
		Registered: checked.ID != "" && (call.Kind == policy.APIKey || checked.KeyVersion > 0),
		Verdict:    verdictOf(checked), Cost: checked.Cost, Time: c.now(),
	}
	if wait := deniedFor(&checked); wait > 0 {
		o.DeniedUntil = o.Time.Add(wait)
	}
	if reset := nearFor(&checked); reset > 0 {
		o.NearUntil = o.Time.Add(reset)
	}
	if checked.Route != "" {
		o.Rules = []string{policy.RouteID(checked.Route)}
	}
	if !checked.Allowed {
		o.Denial = c.denialOf(call, checked)
	} else {
		o.Trials = c.trialsOf(call, &checked)
	}
	c.usage.Record(o)
	c.metrics.crossings.Note(crossing.ResultOf(&checked, call.Kind), checked.Crossings)
}

// Refused counts a call without a good credential. It records the caller only if the
// caller has a key's secret, so that made-up credentials take no memory.
func (c *checker) Refused(ctx context.Context, r authorizer.Refused) {
	o := usage.Outcome{Time: c.now(),
		Denial: &denylog.Denial{Cause: r.Refusal.Cause, Reason: r.Refusal.Reason}}
	switch {
	case !r.Refusal.Cause.Refuses(): // it cannot be checked now
		o.Verdict = usage.Denied | usage.Degraded
	case r.Refusal.Verified && r.Call.Kind == policy.APIKey:
		o.Subject, o.Registered, o.Denial = r.Call.Subject, true, c.denial(r.Call, "")
		o.Denial.Cause, o.Denial.Reason = r.Refusal.Cause, r.Refusal.Reason
	}
	if r.Refusal.Reason != "" {
		o.Denial.Network, o.Denial.Request = denylog.NetworkOf(r.Call.Address), r.Call.Request
		level, message := slog.LevelDebug, "refused"
		switch {
		case !r.Refusal.Cause.Refuses():
			level, message = slog.LevelError, "caller not identified"
		case r.Refusal.Cause == cause.Address:
			level = slog.LevelWarn
		}
		c.metrics.once.LogOnce(ctx, level, message, r.Refusal.Reason,
			slog.String("reason", r.Refusal.Reason))
	}
	if r.Refusal.Cause.Refuses() {
		c.metrics.RecordRefusal(ctx, r.ByError)
	}
	c.usage.Record(o)
}

// afterAnswer reports what the call crossed and sends what was recorded. The client has
// its answer.
func (c *checker) afterAnswer() {
	if c.metrics.crossings.Waiting() {
		ctx, cancel := context.WithTimeout(context.Background(), c.config.ValkeyTimeout)
		defer cancel()
		c.metrics.crossings.Send(ctx, c.reachable())
	}
	c.sendRecords()
}

// deniedFor returns how long further calls of the caller are denied: by its ban, by
// limits that denied this call, or by own limits that it used up.
func deniedFor(checked *enforce.Result) time.Duration {
	wait := checked.RetryAfter()
	if checked.Allowed {
		for i := range checked.Limits {
			l := &checked.Limits[i]
			if !l.Unread && !l.Shared() && l.Enforced() && l.Remaining == 0 {
				wait = max(wait, l.Next)
			}
		}
	}
	if checked.Degraded {
		return 0
	}
	return wait
}

// nearFor returns how long one of the limits on the caller or its group may stay nearly
// used up without further calls. It is 0 if no limit is nearly used up.
func nearFor(checked *enforce.Result) time.Duration {
	reset := time.Duration(0)
	for i := range checked.Limits {
		l := &checked.Limits[i]
		if !l.Unread && (!l.Shared() || l.Who == limits.EachGroup) && l.NearlyUsedUp() && !checked.Degraded {
			reset = max(reset, l.Next)
		}
	}
	return reset
}

func verdictOf(checked enforce.Result) usage.Verdict {
	var v usage.Verdict
	switch {
	case !checked.Allowed:
		v = usage.Denied
	case !checked.WouldAllow:
		v = usage.ShadowDenied
	}
	if checked.Degraded {
		v |= usage.Degraded
	}
	if checked.OldSecret {
		v |= usage.OldSecret
	}
	return v
}

// denialOf returns the denial log's entry for a denied call.
func (c *checker) denialOf(call enforce.Call, checked enforce.Result) *denylog.Denial {
	d := c.denial(call, checked.Route)
	d.Plan, d.Group, d.RetryAfter = checked.Plan, checked.Group, checked.RetryAfter()
	binding, found := checked.Binding()
	switch {
	case !checked.BannedUntil.IsZero():
		d.Cause = cause.Ban
	case found:
		d.Cause, d.Limit = cause.Limit, answer.NameOf(binding.Limit)
	default:
		d.Cause = cause.Unavailable
	}
	return d
}

// trialsOf returns the log's entry for a call that passed and that a limit in shadow mode
// would have denied. It is nil for almost every call.
func (c *checker) trialsOf(call enforce.Call, checked *enforce.Result) []denylog.Denial {
	if checked.WouldAllow {
		return nil
	}
	l, found := checked.ShadowDenial()
	if !found {
		return nil
	}
	d := c.denial(call, checked.Route)
	d.Cause, d.Plan, d.Group, d.RetryAfter = cause.Shadow, checked.Plan, checked.Group, l.RetryAfter
	d.Limit = answer.NameOf(l.Limit)
	return []denylog.Denial{*d}
}

// denial returns the part of the entry that a call shows without its result.
func (c *checker) denial(call enforce.Call, rule string) *denylog.Denial {
	return &denylog.Denial{
		Rule: rule, Method: route.NameMethod(call.Route.Method), Path: c.pattern(call, rule),
		API: call.Route.API, Stage: call.Route.Stage, Network: denylog.NetworkOf(call.Address),
		Request: call.Request,
	}
}

// pattern returns a call's path without the parts that can identify a person: the
// resource that API Gateway matched. If that is unknown or matches every path, pattern
// returns the pattern of the rule, or else *.
func (c *checker) pattern(call enforce.Call, rule string) string {
	path := call.Resource
	if _, after, found := strings.Cut(path, " "); found { // an HTTP API's route key begins with the method
		path = after
	}
	if path != "" && path != "$default" && !strings.Contains(path, "+}") {
		return path
	}
	if loaded := c.Loaded(); loaded != nil && rule != "" {
		routes := loaded.Set().Routes
		for i := range routes {
			if routes[i].Name == rule && len(routes[i].Match) == 1 && routes[i].Match[0].Path != "" {
				return routes[i].Match[0].Path
			}
		}
	}
	if path == "" {
		return "*"
	}
	return path
}

// metricsInterval is the minimum time between two lines of metrics. CloudWatch aggregates
// by the minute.
const metricsInterval = 10 * time.Second

// callMetrics writes metrics of calls, and logs denials and crossed thresholds. Without a
// stage it writes no metrics.
type callMetrics struct {
	log       *slog.Logger
	metrics   *telemetry.Metrics // or nil
	denials   *telemetry.Denials
	once      *telemetry.Denials // by reason, or by caller whose check failed
	crossings *crossing.Log
}

func newCallMetrics(
	out io.Writer, stage string, log *slog.Logger, now func() time.Time,
) (*callMetrics, error) {
	m := &callMetrics{log: log, denials: telemetry.NewDenials(log, 0, now),
		once: telemetry.NewDenials(log, 0, now), crossings: crossing.NewLog(log)}
	if stage == "" {
		return m, nil
	}
	var err error
	m.metrics, err = telemetry.NewMetrics(out,
		telemetry.Options{Service: telemetry.CheckService, Stage: stage, Interval: metricsInterval}, now)
	if err != nil {
		return nil, fmt.Errorf("STAGE: %w", err)
	}
	return m, nil
}

// RecordCheck records the result of a check.
func (m *callMetrics) RecordCheck(ctx context.Context, result enforce.Result, report decide.Report) {
	binding, _ := result.Binding()
	if !result.Allowed {
		m.denials.Log(ctx, loggedDenial(result, binding))
	}
	if m.metrics == nil {
		return
	}
	m.metrics.Record(telemetry.Check{
		Denied: !result.Allowed, ShadowDenied: result.Allowed && !result.WouldAllow,
		Degraded:   result.Degraded,
		StoreError: report.Unavailable, Store: report.Took, Remaining: binding.Remaining,
		Limit: binding.Requests,
	})
	m.tick(ctx)
}

// RecordRefusal records a call without a good credential. byError reports whether the
// function answered it with an error.
func (m *callMetrics) RecordRefusal(ctx context.Context, byError bool) {
	if m.metrics == nil {
		return
	}
	m.metrics.RecordRefused(byError)
	m.tick(ctx)
}

// Flush writes the counts that no line has yet, before the environment ends.
func (m *callMetrics) Flush() {
	m.denials.Flush(context.Background())
	if m.metrics != nil {
		m.logLost(context.Background(), m.metrics.Flush())
	}
}

func (m *callMetrics) tick(ctx context.Context) { m.logLost(ctx, m.metrics.Tick()) }

func (m *callMetrics) logLost(ctx context.Context, err error) {
	if err != nil {
		m.log.WarnContext(ctx, "metrics lost", "cause", err)
	}
}

// loggedDenial returns the log's entry for a denied call.
func loggedDenial(result enforce.Result, binding enforce.LimitState) telemetry.Denial {
	d := telemetry.Denial{KeyID: result.ID, Rule: result.Route, RetryAfter: result.RetryAfter()}
	if binding.Requests > 0 && result.BannedUntil.IsZero() {
		d.Limit = answer.NameOf(binding.Limit)
	}
	return d
}
