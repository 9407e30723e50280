package enforce

import (
	"context"
	"slices"
	"time"

	"tidegate/internal/enforce/compiled"
	"tidegate/internal/enforce/lease"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
)

// eachShared calls use for each list of shared limits that a call falls under, except
// that of a group. id and what are the parts of its state's key. network is the id of the
// client's network; the limits on each address are left out if it is empty.
func eachShared(set *compiled.Set, rule *compiled.Route, network string,
	use func(s *compiled.SharedLimit, id, what string)) {
	if set.SharedPerIP != nil && network != "" {
		use(set.SharedPerIP, network, "sp")
	}
	if rule.SharedPerIP != nil && network != "" {
		use(rule.SharedPerIP, network, "s"+rule.Tag)
	}
	if set.SharedGlobal != nil {
		use(set.SharedGlobal, policy.GlobalID, "s")
	}
	if rule.SharedByAll != nil {
		use(rule.SharedByAll, policy.RouteID(rule.Name), "s")
	}
}

// sharedSteps returns the steps on the shared limits of a call, except those of a group.
func (c *Checker) sharedSteps(set *compiled.Set, call Call, rule *compiled.Route) (steps []step) {
	network := ""
	if call.Network.IsValid() && (set.SharedPerIP != nil || rule.SharedPerIP != nil) {
		network = c.subjects.Network(call.Network)
	}
	eachShared(set, rule, network, func(s *compiled.SharedLimit, id, what string) {
		steps = append(steps, sharedStep(set, s, rule, id, what))
	})
	return steps
}

func sharedStep(set *compiled.Set, s *compiled.SharedLimit, rule *compiled.Route, id, what string) step {
	keys := []string{keyspace.Of(id, what), policyset.CopyKey(keyspace.BucketOf(id))}
	args := stepArgs(s.Program, rule.Cost, time.Time{}, set.Version)
	return step{script: stepScript, keys: keys, args: args, shared: s}
}

// readShared adds the replies of the steps on shared limits to a result.
func (a *round) readShared(result *Result, replies []stepReply) error {
	return a.addAllShared(result, a.leases.complete(replies))
}

// addAllShared adds every reply, and returns the first error.
func (a *round) addAllShared(result *Result, replies []stepReply) (failed error) {
	for i, r := range replies {
		err := r.err
		if err == nil {
			err = result.addShared(a.shared[i], r.bytes, a.leases.at(i))
		}
		if failed == nil {
			failed = err
		}
	}
	return failed
}

// addShared adds the decision of a shared limit. request is nil if the limit is not
// leased.
func (c *Result) addShared(s step, reply []byte, request *lease.Request) error {
	switch {
	case string(reply) == "S":
		return ErrStale
	case request == nil:
		return c.add(s.shared.Scope, s.shared.Mode, s.shared.Configured, reply, s.keys, s.shared.Program, nil)
	}
	d, err := request.Decision(c.Now)
	t := taken{keys: s.keys, program: s.shared.Longest().Program, at: d.Now, lease: request.Lease()}
	if t.lease != nil {
		t.at = t.lease.At()
	}
	return c.addDecision(s.shared.Scope, s.shared.Mode, s.shared.Configured, d, err, t)
}

// leaseRequests has one request for each step on a shared limit, in the same order. It is
// nil if no limit is leased.
type leaseRequests []lease.Request

// requestLeases draws the cost from held leases, and turns the other steps on leased
// limits into requests for the next lease. It is called only for a caller that is known
// to be allowed, or was lately. The caller must pass every reply to complete.
func (c *Checker) requestLeases(set *compiled.Set, steps []step, cost int64) leaseRequests {
	if !set.Leases || len(steps) == 0 {
		return nil
	}
	all, now := make(leaseRequests, len(steps)), c.Now()
	for i := range steps {
		s := &steps[i]
		if !s.shared.Leased() {
			continue
		}
		if all[i] = s.shared.Request(now, cost); !all[i].Drawn() {
			s.script, s.args = leaseScript, all[i].Args(set.Version)
		}
	}
	return all
}

// toSend returns the steps whose cost was not drawn from a held lease.
func (all leaseRequests) toSend(steps []step) []step {
	if !slices.ContainsFunc(all, func(r lease.Request) bool { return r.Drawn() }) {
		return steps
	}
	var send []step
	for i := range all {
		if !all[i].Drawn() {
			send = append(send, steps[i])
		}
	}
	return send
}

// complete passes every request its reply. It returns one reply for each step, which is
// empty for a step that was not sent.
func (all leaseRequests) complete(replies []stepReply) []stepReply {
	if all == nil {
		return replies
	}
	every := make([]stepReply, len(all))
	for i := range all {
		if all[i].Drawn() {
			continue
		}
		every[i], replies = replies[0], replies[1:]
		if all[i].Leased() {
			all[i].Complete(every[i].bytes)
		}
	}
	return every
}

// at returns the request of step i, or nil if its limit is not leased.
func (all leaseRequests) at(i int) *lease.Request {
	if all == nil || !all[i].Leased() {
		return nil
	}
	return &all[i]
}

// A plan can limit all its keys of one group together. These are shared limits whose
// subject is the group. Each plan's limits have a state of their own, since a state
// counts for one list of limits. Only the caller's record names its group. So the step on
// the group follows the caller's own step in a second round trip, or leaves with it for
// the group of the caller's last call. If the record names another group by then, the
// cost is given back to the former group.

// keyGroup is a group, and the plan of a key in it. It is zero if no limits are on them.
type keyGroup struct {
	name string
	plan int // number of the plan
}

// groupOf returns the zero keyGroup if the plan has no limits on groups.
func groupOf(set *compiled.Set, name string, plan int) keyGroup {
	if name == "" || set.GroupLimit(plan) == nil {
		return keyGroup{}
	}
	return keyGroup{name, plan}
}

func groupSteps(set *compiled.Set, g keyGroup, rule *compiled.Route) []step {
	if g == (keyGroup{}) {
		return nil
	}
	return []step{sharedStep(set, set.GroupLimit(g.plan), rule, policy.GroupID(g.name),
		policy.GroupState(g.plan))}
}

// addGroup appends the step on a group to those on shared limits.
func (a *round) addGroup(g keyGroup) {
	a.shared = append(a.shared, groupSteps(a.set, g, a.rule)...)
}

// readRegrouped is readShared for a caller whose group is not the expected one. It gives
// back what the expected group gave. If the other limits allow the call, it takes the
// cost from the present group.
func (a *round) readRegrouped(ctx context.Context, replies []stepReply, expected keyGroup) error {
	replies = a.leases.complete(replies)
	if expected != (keyGroup{}) {
		last := len(replies) - 1
		unused := a.unused(expected)
		if replies[last].err == nil {
			_ = unused.addShared(a.shared[last], replies[last].bytes, nil) // the group decides nothing
		}
		a.giveBack(ctx, &unused)
		a.shared, replies = a.shared[:last], replies[:last]
	}
	err := a.addAllShared(&a.result, replies)
	if err != nil || !a.result.Allowed {
		return err
	}
	steps := groupSteps(a.set, a.result.group, a.rule)
	for i, r := range a.flush(ctx, steps, nil) {
		if err = r.err; err == nil {
			err = a.result.addShared(steps[i], r.bytes, nil)
		}
	}
	return err
}
