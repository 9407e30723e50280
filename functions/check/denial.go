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
)

// Refused counts a call without a good credential. Its caller is recorded when it proved
// to have a key's secret, so that what anybody can make up takes no memory.
func (c *checker) Refused(ctx context.Context, r authorizer.Refused) {
	c.metrics.RecordRefusal(ctx, r.ByError)
	o := usage.Outcome{Time: c.now(), Denial: &usage.Denial{Cause: r.Refusal.Cause}}
	if r.Refusal.Verified && r.Call.Kind == policy.APIKey {
		o.Subject, o.Registered, o.Denial = r.Call.Subject, true, c.denial(r.Call, "")
		o.Denial.Cause = r.Refusal.Cause
	}
	c.usage.Record(o)
}

// denialOf is what the denial log says of a denied call.
func (c *checker) denialOf(call enforce.Call, checked enforce.Result) *usage.Denial {
	d := c.denial(call, checked.Rule)
	d.Plan, d.Rule, d.RetryAfter = checked.Plan, checked.Rule, checked.RetryAfter()
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

func (c *checker) denial(call enforce.Call, rule string) *usage.Denial {
	return &usage.Denial{
		Method: methodOf(call.Route.Method), Path: c.pattern(call, rule), API: call.Route.API,
		Stage: call.Route.Stage, Network: usage.NetworkOf(call.Address), Request: call.Request,
	}
}

// methods are those that the denial log distinguishes. Callers can make up others.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "$connect"}

func methodOf(method string) string {
	if slices.Contains(methods, method) {
		return method
	}
	return "other"
}

// pattern is the path of a call without what identifies a person: the resource that API
// Gateway matched or, where that stands for every path or is not known, the pattern of
// the rule. Without either it is *.
func (c *checker) pattern(call enforce.Call, rule string) string {
	path := call.Resource
	if _, after, found := strings.Cut(path, " "); found { // an HTTP API's has the method in front
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
