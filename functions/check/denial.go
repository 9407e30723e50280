package main

import (
	"context"
	"strings"

	"tidegate/functions/check/authorizer"
	"tidegate/internal/answer"
	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/usage"
	"tidegate/internal/usage/denylog"
	"tidegate/internal/usage/routecount"
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
		Method: route.NameMethod(call.Route.Method), Path: c.pattern(call, rule), API: call.Route.API,
		Stage: call.Route.Stage, Network: denylog.NetworkOf(call.Address), Request: call.Request,
	}
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
		for i := range routes {
			if routes[i].Name == rule && routes[i].Pattern.Path != "" {
				return routes[i].Pattern.Path
			}
		}
	}
	if path == "" {
		return "*"
	}
	return path
}

// routeOf returns what a preview of access must know of a decided call. The pattern is *
// when a path under it may be another than the caller's, as a custom domain's base path
// and encoded slashes make it.
func (c *checker) routeOf(call enforce.Call, checked *enforce.Result) routecount.Route {
	r := routecount.Route{
		Plan: checked.Plan, API: call.Route.API, Stage: call.Route.Stage,
		Method: route.NameMethod(call.Route.Method), Path: c.pattern(call, checked.Rule),
	}
	switch {
	case call.Resource == "$connect":
		r.Path = call.Route.Path
	case !strings.HasPrefix(r.Path, "/") || !route.Under(call.Route.Path, r.Path):
		r.Path = "*"
	}
	return r
}
