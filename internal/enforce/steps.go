package enforce

import (
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/enforce/compiled"
	"tidegate/internal/limiter"
	"tidegate/internal/lua"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
)

// step is one script run on one subject.
type step struct {
	script *lua.Script
	keys   []string
	args   []string
	shared *compiled.SharedLimit // nil for the caller's own
	known  *knownCaller          // that args have; nil for none
	guard  *guard                // of access, that args have; nil for none
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

func (c *Checker) ownStep(set *compiled.Set, call Call, rule *compiled.Route, plan int) step {
	hash := call.hash
	if call.Kind == policy.APIKey && hash == "" {
		sum := c.pepper.Hash(call.Secret)
		hash = string(sum[:])
	}
	id := call.Subject
	bucket := keyspace.BucketOf(id)
	cost := rule.Cost
	if set.Exempts(call.Address) {
		cost = 0
	}
	s := step{
		script: checkScript,
		keys:   []string{keyspace.Record(id), keyspace.State(id), policyset.CopyKey(bucket)},
		args: []string{hash, strconv.FormatInt(cost, 10), strconv.FormatInt(set.Version, 10),
			strconv.Itoa(plan), reserving(set, rule)},
		guard: c.guard(set, call),
	}
	if set.Wide || len(rule.PerKeyEntry) > 0 && cost > 0 || s.guard != nil {
		return s.widened(set, id, rule, cost)
	}
	if s.known = c.known.find(id, hash, set.Version); s.known != nil {
		s.args = append(s.args, s.known.args...)
	}
	return s
}

// ownArgs is how many arguments the scripts of a check share.
const ownArgs = 5

// wideStep is ownStep in the script that reports each limit.
func (c *Checker) wideStep(set *compiled.Set, call Call, rule *compiled.Route, plan int) step {
	s := c.ownStep(set, call, rule, plan)
	if s.script == wideScript {
		return s
	}
	s.args, s.known = s.args[:ownArgs], nil
	return s.widened(set, call.Subject, rule, rule.Cost)
}

func (s step) widened(set *compiled.Set, id string, rule *compiled.Route, cost int64) step {
	perKey := valkey.BinaryString(rule.PerKeyEntry)
	if cost == 0 {
		perKey = ""
	}
	s.script = wideScript
	s.keys = append(s.keys, keyspace.Of(id, "sb"), keyspace.Of(id, "sd"), rule.State(id),
		keyspace.Of(id, "sk"))
	s.args = append(s.args, set.BanArgs[0], set.BanArgs[1], set.BanArgs[2], perKey)
	if s.guard != nil {
		s.args = append(s.args, s.guard.args()...)
	}
	return s
}
