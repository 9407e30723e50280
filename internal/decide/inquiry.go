package decide

import (
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
)

// inquiry is one call with what is known of it before anybody is asked.
type inquiry struct {
	call  enforce.Call
	proof Proof
	set   *policy.Set // nil before the first was read
	match enforce.RouteMatch
	err   error // why the set has no match for the call
}

func (d *Decider) inquire(call enforce.Call) inquiry {
	q := inquiry{call: call, match: enforce.RouteMatch{Cost: 1}}
	if call.Kind == policy.APIKey {
		q.proof = d.pepper.Hash(call.Secret)
	}
	if c := d.source.Loaded(); c != nil {
		q.set = c.Set()
		q.match, q.err = c.RouteMatch(call)
	}
	return q
}

// denied is the call as the denial cache distinguishes calls.
func (q inquiry) denied() DeniedCall {
	return DeniedCall{
		Subject: q.call.Subject, Proof: q.proof, Plan: q.call.Plan,
		Rule: q.match.Rule, Cost: q.match.Cost, SetVersion: q.match.SetVersion,
	}
}
