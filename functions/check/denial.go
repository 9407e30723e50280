package main

import (
	"tidegate/internal/answer"
	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/route"
	"tidegate/internal/usage/denylog"
)

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
