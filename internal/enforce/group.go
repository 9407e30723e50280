package enforce

import (
	"context"

	"tidegate/internal/enforce/compiled"
	"tidegate/internal/policy"
)

// A plan can have limits on all its keys of one group together. They are shared limits
// whose subject is the group; the limits of each plan are counted apart, since a state
// holds what the limits of one list count. Only the caller's record says in which group
// it is. So the step on them follows the caller's own in a second round trip, or leaves
// with it on the group of the caller's last call. When the record says another group by
// then, what the former gave is given back.

// keyGroup is a group and the plan of a key in it; zero when no limit is on them.
type keyGroup struct {
	name string
	plan int // number
}

// groupOf returns the zero keyGroup when the plan has no limits on groups.
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

// addGroup adds the step on a group as the last of those on shared limits.
func (a *attempt) addGroup(g keyGroup) {
	a.shared = append(a.shared, groupSteps(a.set, g, a.rule)...)
}

// readMoved is readShared for a caller who is no longer in the group whose step was sent,
// or is in one now. It gives back what the former group gave, and asks the present one
// when the other limits allow the call.
func (a *attempt) readMoved(ctx context.Context, replies []stepReply, former keyGroup) error {
	replies = a.leases.complete(replies)
	if former != (keyGroup{}) {
		last := len(replies) - 1
		unused := a.unused(former)
		if replies[last].err == nil {
			_ = unused.addShared(a.shared[last], replies[last].bytes, nil) // the caller is not in it
		}
		a.giveBack(ctx, &unused)
		a.shared, replies = a.shared[:last], replies[:last]
	}
	err := a.countShared(&a.result, replies)
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
