package main

import (
	"context"
	"time"

	"tidegate/functions/check/authorizer"
	"tidegate/internal/crossing"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
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
	if checked.Rule != "" {
		o.Rules = []string{policy.RouteID(checked.Rule)}
	}
	if checked.ID != "" && checked.BannedUntil.IsZero() {
		o.Route = c.routeOf(call, &checked)
	}
	if !checked.Allowed {
		o.Denial = c.denialOf(call, checked)
	}
	c.usage.Record(o)
	c.metrics.crossings.Note(crossing.ResultOf(&checked, call.Kind), checked.Crossings)
}

// Refused counts a call without a good credential. It records the caller only if the
// caller has a key's secret, so that made-up credentials take no memory.
func (c *checker) Refused(ctx context.Context, r authorizer.Refused) {
	c.metrics.RecordRefusal(ctx, r.ByError)
	o := usage.Outcome{Time: c.now(), Denial: &denylog.Denial{Cause: r.Refusal.Cause}}
	if r.Refusal.Verified && r.Call.Kind == policy.APIKey {
		o.Subject, o.Registered, o.Denial = r.Call.Subject, true, c.denial(r.Call, "")
		o.Denial.Cause = r.Refusal.Cause
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

// deniedFor is how long further calls of the caller are denied: by its ban, by limits
// that denied this call, or by own limits that it used up.
func deniedFor(checked *enforce.Result) time.Duration {
	wait := checked.RetryAfter()
	if checked.Allowed {
		for i := range checked.Limits {
			l := &checked.Limits[i]
			if l.Scope == policy.ScopeKey && l.Mode == policy.Enforce && l.Remaining == 0 {
				wait = max(wait, l.Next)
			}
		}
	}
	if checked.Degraded {
		return 0
	}
	return wait
}

// nearFor is how long one of the caller's own limits may stay nearly used up if it does
// not call again; 0 when none is.
func nearFor(checked *enforce.Result) time.Duration {
	reset := time.Duration(0)
	for i := range checked.Limits {
		l := &checked.Limits[i]
		if l.Scope == policy.ScopeKey && l.NearlyUsedUp() && !checked.Degraded {
			reset = max(reset, l.Reset)
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
