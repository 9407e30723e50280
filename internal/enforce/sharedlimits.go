package enforce

import (
	"context"
	"time"

	"tidegate/internal/enforce/compiled"
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

// readShared adds the replies of the steps on shared limits to a result, and returns the
// first error.
func (a *round) readShared(result *Result, replies []stepReply) (failed error) {
	for i, r := range replies {
		err := r.err
		if err == nil {
			err = result.addShared(a.shared[i], r.bytes)
		}
		if failed == nil {
			failed = err
		}
	}
	return failed
}

// addShared adds the decision of a shared limit.
func (c *Result) addShared(s step, reply []byte) error {
	if string(reply) == "S" {
		return ErrStale
	}
	return c.add(s.shared.Scope, s.shared.Mode, s.shared.Limits, reply, s.keys, s.shared.Program, nil)
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
	if expected != (keyGroup{}) {
		last := len(replies) - 1
		unused := a.unused(expected)
		if replies[last].err == nil {
			_ = unused.addShared(a.shared[last], replies[last].bytes) // the group decides nothing
		}
		a.giveBack(ctx, &unused)
		a.shared, replies = a.shared[:last], replies[:last]
	}
	err := a.readShared(&a.result, replies)
	if err != nil || !a.result.Allowed {
		return err
	}
	steps := groupSteps(a.set, a.result.group, a.rule)
	for i, r := range a.flush(ctx, steps, nil) {
		if err = r.err; err == nil {
			err = a.result.addShared(steps[i], r.bytes)
		}
	}
	return err
}
