package enforce

import (
	"slices"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// Crossing is that a call took what is used of a limit to one of its thresholds or
// beyond. The step's own reply says so: what is used after the call, less its cost, was
// used before.
type Crossing struct {
	limiter.Usage        // when the call was made
	Scope         string // of the limit
	Subject       string // id of what the limit is on: a caller, an address, a route
	Percent       int
	At            time.Time // the server's
}

// crossings collects the thresholds that a call crossed.
type crossings []Crossing

// add notes the thresholds of limits that a cost crossed, of which first says what was
// used before. again means that the cost may have been taken once more, unnoticed.
func (c *crossings) add(of Crossing, cost int64, again bool) {
	if again {
		cost *= 2
	}
	for _, percent := range of.Crossed(cost) {
		of.Percent = percent
		*c = append(*c, of)
	}
}

// notified reports whether a limit has thresholds.
func notified(l limiter.Limit) bool { return l.Notify != limiter.Thresholds{} }

// noteCrossings lists what an allowed call crossed.
func (a *attempt) noteCrossings() {
	for _, t := range a.result.taken {
		if t.lease != nil {
			continue // some other call took the share
		}
		for _, l := range a.result.Limits[t.first : t.first+t.count] {
			if notified(l.Limit) && !l.Exceeded() {
				a.result.Crossings.add(Crossing{Usage: l.Usage, Scope: l.Scope,
					Subject: a.limited(&a.result, l.Scope), At: t.at}, a.result.Cost, a.call.Again)
			}
		}
	}
}

// noteGivenBack lists what a call crossed although it gives back its cost: calls that
// came meanwhile found the threshold crossed already, and with them it stays so. reply is
// what giving back found.
func (a *attempt) noteGivenBack(checked *Result, t taken, reply []byte) {
	states := checked.Limits[t.first : t.first+t.count]
	if t.lease != nil || !slices.ContainsFunc(states, func(l LimitState) bool { return notified(l.Limit) }) {
		return
	}
	limits := make([]limiter.Limit, len(states))
	for i, l := range states {
		limits[i] = l.Limit
	}
	now, err := limiter.ParseReply(reply, limits)
	if err != nil {
		return
	}
	for i, u := range now.Limits {
		before := states[i].Used()
		if !states[i].Exceeded() {
			before -= checked.Cost
		}
		a.result.Crossings.add(Crossing{Usage: u, Scope: states[i].Scope,
			Subject: a.limited(checked, states[i].Scope),
			At:      now.Now}, u.Used()-before, a.call.Again)
	}
}

// limited is the id of what a limit of a scope is on.
func (a *attempt) limited(checked *Result, scope string) string {
	switch scope {
	case policy.ScopeGroup:
		return policy.GroupID(checked.group.name)
	case policy.ScopeIP, policy.ScopeRouteIP:
		return a.addresses.ID(a.call.Network)
	case policy.ScopeGlobal:
		return policy.GlobalID
	case policy.ScopeRouteAll:
		return policy.RouteID(a.rule.Name)
	}
	return a.call.Subject
}

// cross notes what a step that took a part of the difference crossed.
func (s *Settlement) cross(state counted, cost int64, reply []byte) {
	if len(reply) == 0 || !slices.ContainsFunc(state.limits, notified) {
		return
	}
	d, err := limiter.ParseReply(reply, state.limits)
	if err != nil {
		return // the reservation is settled all the same
	}
	for _, u := range d.Limits {
		if u.Exceeded() {
			continue
		}
		of := Crossing{Usage: u, Scope: state.scope, Subject: state.subject, At: d.Now}
		s.Crossings.add(of, cost, false)
	}
}
