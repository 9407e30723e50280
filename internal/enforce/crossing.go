package enforce

import (
	"slices"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// Crossing reports that a call took the use of a limit to one of its thresholds. The
// step's reply shows that: the use before the call is the use after it less the cost.
type Crossing struct {
	limiter.Usage           // after the call
	Scope         string    // scope of the limit
	Subject       string    // id of what the limit is on: a caller, an address, a route
	Percent       int       // the threshold
	At            time.Time // server time
}

// crossings collects the thresholds that a call crossed.
type crossings []Crossing

// add appends a Crossing for each threshold that a cost crossed, as a copy of c. again
// means that the cost may have been taken twice, because the first reply was lost.
func (all *crossings) add(c Crossing, cost int64, again bool) {
	if again {
		cost *= 2
	}
	for _, percent := range c.Crossed(cost) {
		c.Percent = percent
		*all = append(*all, c)
	}
}

func hasThresholds(l limiter.Limit) bool { return l.Notify != limiter.Thresholds{} }

// recordCrossings records the thresholds that an allowed call crossed.
func (a *round) recordCrossings() {
	for _, t := range a.result.taken {
		for _, l := range a.result.Limits[t.first : t.first+t.count] {
			if hasThresholds(l.Limit) && !l.Exceeded() {
				a.result.Crossings.add(Crossing{Usage: l.Usage, Scope: l.Scope,
					Subject: a.subjectOf(&a.result, l.Scope), At: t.at}, a.result.Cost, a.call.Again)
			}
		}
	}
}

// recordRefundCrossings records the thresholds that a call crossed and that giving back
// its cost leaves crossed. Calls made in between found them crossed and reported nothing.
// reply is the reply to giving back.
func (a *round) recordRefundCrossings(result *Result, t taken, reply []byte) {
	states := result.Limits[t.first : t.first+t.count]
	thresholds := func(l LimitState) bool { return hasThresholds(l.Limit) }
	if !slices.ContainsFunc(states, thresholds) {
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
			before -= states[i].Limit.Charge(result.Cost)
		}
		a.result.Crossings.add(Crossing{Usage: u, Scope: states[i].Scope,
			Subject: a.subjectOf(result, states[i].Scope),
			At:      now.Now}, u.Used()-before, a.call.Again)
	}
}

// subjectOf returns the id of the subject that a limit of a scope counts for.
func (a *round) subjectOf(result *Result, scope string) string {
	switch scope {
	case policy.ScopeGroup:
		return policy.GroupID(result.group.name)
	case policy.ScopeIP, policy.ScopeRouteIP:
		return a.subjects.Network(a.call.Network)
	case policy.ScopeGlobal:
		return policy.GlobalID
	case policy.ScopeRouteAll:
		return policy.RouteID(a.rule.Name)
	}
	return a.call.Subject
}

// recordCrossings records the thresholds that a settlement crossed by taking cost from a
// state.
func (s *Settlement) recordCrossings(state settledState, cost int64, reply []byte) {
	if len(reply) == 0 || !slices.ContainsFunc(state.limits, hasThresholds) {
		return
	}
	d, err := limiter.ParseReply(reply, state.limits)
	if err != nil {
		return // the reservation is settled nevertheless
	}
	for _, u := range d.Limits {
		if !u.Exceeded() && !u.Limit.Calls {
			s.Crossings.add(Crossing{Usage: u, Scope: state.scope, Subject: state.subject, At: d.Now},
				cost, false)
		}
	}
}
