package main

import (
	"context"
	"slices"
	"strings"

	"tidegate/functions/check/authorizer"
	"tidegate/internal/answer"
	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/usage"
	"tidegate/internal/usage/denylog"
)

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

// denialOf returns the denial log's entry for a denied call.
func (c *checker) denialOf(call enforce.Call, checked enforce.Result) *denylog.Denial {
	d := c.denial(call, checked.Rule)
	d.Plan, d.Group, d.Rule, d.RetryAfter = checked.Plan, checked.Group, checked.Rule, checked.RetryAfter()
	binding, found := checked.Binding()
	switch {
	case !checked.BannedUntil.IsZero():
		d.Cause = cause.Ban
	case found:
		d.Cause, d.Limit = cause.Limit, answer.NameOf(binding)
	default:
		d.Cause = cause.Unavailable
	}
	return d
}

func (c *checker) denial(call enforce.Call, rule string) *denylog.Denial {
	return &denylog.Denial{
		Method: methodOf(call.Route.Method), Path: c.pattern(call, rule), API: call.Route.API,
		Stage: call.Route.Stage, Network: denylog.NetworkOf(call.Address), Request: call.Request,
	}
}

// methods are the methods that the denial log distinguishes. Callers can make up others.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "$connect"}

func methodOf(method string) string {
	if slices.Contains(methods, method) {
		return method
	}
	return "other"
}

// pattern returns a call's path without the parts that can identify a person. It is the
// resource that API Gateway matched. If that stands for every path or is unknown, it is
// the rule's pattern, or else *.
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
		i := slices.IndexFunc(routes, func(r policy.Route) bool { return r.Name == rule })
		if i >= 0 && routes[i].Pattern.Path != "" {
			return routes[i].Pattern.Path
		}
	}
	if path == "" {
		return "*"
	}
	return path
}
