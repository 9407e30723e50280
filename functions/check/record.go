package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
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
	"tidegate/internal/records"
	"tidegate/internal/route"
	"tidegate/internal/telemetry"
)

// record counts a decided call, and returns the reference of a denied one. The result of an
// unverified caller has no id.
func (c *checker) record(call enforce.Call, checked *enforce.Result) (reference string) {
	r := c.callOf(call, checked.Routes)
	r.Caller = checked.ID
	r.Registered = checked.ID != "" && (call.Kind == policy.APIKey || checked.KeyVersion > 0)
	r.Plan, r.Group, r.Cost = checked.Plan, checked.Group, checked.Cost
	r.Degraded, r.OldSecret = checked.Degraded, checked.OldSecret
	r.RetryAfter, r.NearFor = checked.RetryAfter(), nearFor(checked)
	binding, limited := checked.Binding()
	switch {
	case checked.Allowed:
		if l, found := checked.ShadowDenial(); found && !checked.WouldAllow {
			r.Shadow = answer.NameOf(l.Limit)
		}
	case !checked.BannedUntil.IsZero():
		r.Cause = cause.Ban
	case limited:
		r.Cause, r.Limit = cause.Limit, answer.NameOf(binding.Limit)
	default:
		r.Cause = cause.Unavailable
	}
	c.records.Record(r)
	c.metrics.crossings.Note(crossing.ResultOf(checked, call.Kind), checked.Crossings)
	if r.Cause == 0 {
		return ""
	}
	return records.ReferenceOf(&r).String()
}

// Refused counts a call without a good credential. It records the caller, and what it
// called, only if the caller proved who it is, so that made-up credentials take no memory.
func (c *checker) Refused(ctx context.Context, r authorizer.Refused) {
	refused := records.Call{Time: c.now(), Cause: r.Refusal.Cause}
	if r.Refusal.Verified {
		var routes []limits.Matched
		if loaded := c.Loaded(); loaded != nil {
			routes = loaded.Routes(r.Call.Route)
		}
		refused = c.callOf(r.Call, routes)
		refused.Cause, refused.Caller = r.Refusal.Cause, r.Call.Subject
		refused.Registered = r.Call.Kind == policy.APIKey
	}
	if refused.Reason = r.Refusal.Reason; refused.Reason != "" {
		refused.Network, refused.Request = networkOf(r.Call.Address), r.Call.Request
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
	c.records.Record(refused)
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

// callOf returns what a record has of a call without its result.
func (c *checker) callOf(call enforce.Call, routes []limits.Matched) records.Call {
	r := records.Call{
		Time: c.now(), Method: route.NameMethod(call.Route.Method), Path: pattern(call, routes),
		API: call.Route.API, Stage: call.Route.Stage, Network: networkOf(call.Address),
		Request: call.Request,
	}
	for _, m := range routes {
		r.Routes = append(r.Routes, m.Name)
	}
	return r
}

// networkOf returns the /24 or /48 of an address; the zero Prefix without one.
func networkOf(a netip.Addr) netip.Prefix {
	a = a.Unmap()
	bits := 48
	if a.Is4() {
		bits = 24
	}
	p, _ := a.WithZone("").Prefix(bits) // the zero Prefix for the zero Addr
	return p
}

// pattern returns a call's path without the parts that can identify a person: the
// resource that API Gateway matched. If that is unknown or matches every path, pattern
// returns that of the most specific route, or else *.
func pattern(call enforce.Call, routes []limits.Matched) string {
	path := call.Resource
	if _, after, found := strings.Cut(path, " "); found { // an HTTP API's route key begins with the method
		path = after
	}
	if path != "" && path != "$default" && !strings.Contains(path, "+}") {
		return path
	}
	if len(routes) > 0 {
		if at := strings.IndexByte(routes[0].Pattern, '/'); at >= 0 {
			return routes[0].Pattern[at:]
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

func newCallMetrics(out io.Writer, stage string, log *slog.Logger,
	now func() time.Time) (*callMetrics, error) {
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
	d := telemetry.Denial{KeyID: result.ID, Route: result.Route, RetryAfter: result.RetryAfter()}
	if binding.Requests > 0 && result.BannedUntil.IsZero() {
		d.Limit = answer.NameOf(binding.Limit)
	}
	return d
}
