package enforce

import (
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/enforce/compiled"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
)

// admit finds what holds for a call: the number of the plan for a caller without one of
// its own, 0 for an API key, and the route. It fails with ErrRefused for a caller who may
// not call at all, and for a call whose path is ambiguous; then rule is nil unless only
// the plan is missing.
func admit(set *compiled.Set, call Call) (plan int, rule *compiled.Route, err error) {
	if rule, err = set.RouteFor(call.Route, call.Address); err != nil {
		return 0, nil, err
	}
	plan, err = set.PlanFor(call.Kind, call.Plan)
	return plan, rule, err
}

// sharedSteps are the steps on the shared limits of a call.
func sharedSteps(set *compiled.Set, call Call, rule *compiled.Route, addresses policyset.AddressKey) []step {
	var steps []step
	add := func(s *compiled.SharedLimit, id, what string) {
		if s != nil {
			steps = append(steps, sharedStep(set, s, rule, id, what))
		}
	}
	if call.Network.IsValid() {
		id := addresses.ID(call.Network)
		add(set.SharedPerIP, id, "sp")
		add(rule.SharedPerIP, id, "s"+rule.Tag)
	}
	add(set.SharedGlobal, policy.GlobalID, "s")
	add(rule.SharedByAll, policy.RouteID(rule.Name), "s")
	return steps
}

func sharedStep(set *compiled.Set, s *compiled.SharedLimit, rule *compiled.Route, id, what string) step {
	keys := []string{keyspace.Of(id, what), policyset.CopyKey(keyspace.BucketOf(id))}
	args := stepArgs(s.Program, rule.Cost, time.Time{}, set.Version)
	args[2] = reserving(set, rule)
	return step{script: stepScript, keys: keys, args: args, shared: s}
}

// reserving is the argument by which a step knows whether some of its cost may be given
// back.
func reserving(set *compiled.Set, rule *compiled.Route) string {
	if set.Reserves(rule) {
		return strconv.Itoa(limiter.Reserving)
	}
	return "0"
}

// stepArgs are the arguments of stepScript.
func stepArgs(program limiter.Program, cost int64, taken time.Time, version int64) []string {
	at := "0"
	if cost < 0 {
		at = strconv.FormatInt(taken.UnixMicro(), 10)
	}
	return []string{valkey.BinaryString(program), strconv.FormatInt(cost, 10), at,
		strconv.FormatInt(version, 10)}
}
