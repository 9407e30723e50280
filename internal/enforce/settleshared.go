package enforce

import (
	"context"
	"slices"
	"strconv"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/enforce/compiled"
	"tidegate/internal/enforce/reservation"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
)

// settleShared settles the shared limits that took the reserved cost. The reservation
// already counts as settled, so a limit that cannot be reached keeps that cost.
func (c *Checker) settleShared(ctx context.Context, set *compiled.Set, r *reservation.Reservation,
	s *Settlement) {
	if s.sharedDifference() == 0 {
		return
	}
	open := sharedStates(set, r)
	for range maxReloads {
		if open = c.chargeAll(ctx, set, open, s); len(open) == 0 {
			return
		}
		if c.Load(ctx) != nil {
			break
		}
		set = c.set.Load()
		open = slices.DeleteFunc(sharedStates(set, r), func(now settledState) bool {
			return !slices.ContainsFunc(open, func(before settledState) bool {
				return before.keys[0] == now.keys[0]
			})
		})
	}
	s.Partial = s.Partial || len(open) > 0
}

// chargeAll settles states, and returns those whose bucket has a newer policy set.
func (c *Checker) chargeAll(ctx context.Context, set *compiled.Set, states []settledState,
	s *Settlement) (stale []settledState) {
	difference := s.sharedDifference()
	for _, state := range states {
		args := []string{
			valkey.BinaryString(state.program), strconv.FormatInt(difference, 10),
			strconv.FormatInt(state.at.UnixMicro(), 10),
			strconv.FormatInt(set.Version, 10),
		}
		switch reply, err := chargeScript.Do(ctx, c.client, state.keys, args).AsBytes(); {
		case err == nil && string(reply) == "S":
			stale = append(stale, state)
		case err != nil:
			s.Partial = true
		default:
			if _, err := s.addCharge(state, difference, reply); err != nil {
				s.Partial = true
			}
		}
	}
	return stale
}

// sharedStates lists the states of shared limits that took the reserved cost.
func sharedStates(set *compiled.Set, r *reservation.Reservation) (states []settledState) {
	add := func(s *compiled.SharedLimit, id, what string) {
		state := reservation.StateOf(s.Scope)
		if !r.Has(state) {
			return
		}
		settled := settledState{
			keys:    []string{keyspace.Of(id, what), policyset.CopyKey(keyspace.BucketOf(id))},
			program: s.Program.Sparing(r.Spared(state)),
			limits:  s.Limits, scope: s.Scope, subject: id, at: r.At(state),
		}
		states = append(states, settled)
	}
	rule := set.Tagged(r.Rule)
	if rule == nil { // the call matched no rule, or the rule is gone
		rule = set.Fallback
	}
	eachShared(set, rule, r.Network, add)
	if group := set.GroupLimit(r.GroupPlan); group != nil {
		add(group, r.Group, policy.GroupState(r.GroupPlan))
	}
	return states
}

// sharedDifference returns what a settlement takes from shared limits, at most up to
// SettleMax. A negative difference is given back.
func (s *Settlement) sharedDifference() int64 {
	return min(s.Actual, s.SettleMax) - s.Reserved
}
