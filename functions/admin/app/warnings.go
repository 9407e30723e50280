package app

import (
	"context"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// manyKeys is the number of keys from which on an edit of their plan needs confirmation.
const manyKeys = 1000

// MootWarnings returns a warning for each limit that never denies a call, since another
// of the list is stricter. prefix begins each warning.
func MootWarnings(prefix string, limits []limiter.Limit) []string {
	var all []string
	for _, m := range limiter.RedundantLimits(limits) {
		limit, by := policydoc.LimitText(limits[m.Limit]), policydoc.LimitText(limits[m.By])
		if limit == by {
			all = append(all, prefix+limit+" is listed twice.")
			continue
		}
		all = append(all, prefix+limit+" never denies a call: "+by+" is stricter.")
	}
	return all
}

// UnconfirmedError means that nothing was saved, because the author of a save has not
// confirmed its warnings.
type UnconfirmedError struct{ Warnings []string }

// Error implements error.
func (e *UnconfirmedError) Error() string {
	return "app: not confirmed: " + strings.Join(e.Warnings, " ")
}

// Accepts reports whether the author of a save confirms its warnings.
type Accepts func(warnings []string) bool

// confirmOverride returns an *UnconfirmedError if an override has warnings that accepts
// does not confirm. A nil override has none.
func confirmOverride(o *policy.Override, accepts Accepts) error {
	if o == nil || accepts == nil {
		return nil
	}
	if warnings := MootWarnings("", o.Limits); len(warnings) > 0 && !accepts(warnings) {
		return &UnconfirmedError{warnings}
	}
	return nil
}

// JudgePolicy returns the warnings about a save of next in place of before, without those
// about parts that the save does not change. It returns the *policy.InvalidError that the
// save would get.
func (r *Registry) JudgePolicy(ctx context.Context, before *policy.Set, next policy.Set) ([]string, error) {
	after, err := r.store.CheckSet(ctx, next, before)
	if err != nil {
		return nil, err
	}
	counts, err := r.PlanCounts(ctx, before)
	if err != nil {
		return nil, err
	}
	all := planWarnings(before, after, counts)
	all = append(all, routeWarnings(before, after)...)
	all = append(all, changedMoot("Limits per address: ", before.PerIP.Limits, after.PerIP.Limits)...)
	all = append(all, changedMoot("Global limits: ", before.Global.Limits, after.Global.Limits)...)
	return append(all, refusalWarnings(before, after)...), nil
}

// changedMoot returns MootWarnings of a list that a save changes.
func changedMoot(prefix string, before, after []limiter.Limit) []string {
	if slices.Equal(before, after) {
		return nil
	}
	return MootWarnings(prefix, after)
}

// planWarnings returns warnings about new and changed plans.
func planWarnings(before, after *policy.Set, counts map[int]int64) []string {
	var all []string
	for _, p := range after.Plans {
		old, existed := before.PlanByNumber(p.Number)
		if existed && reflect.DeepEqual(old, p) {
			continue
		}
		name := "Plan " + p.Name + ": "
		if n := counts[p.Number]; existed && n >= manyKeys {
			all = append(all, name+"this affects "+policydoc.Number(n)+" keys at once.")
		}
		all = append(all, changedMoot(name, old.Limits, p.Limits)...)
		all = append(all, changedMoot(name+"limits per group: ", old.PerGroup, p.PerGroup)...)
	}
	return all
}

// routeWarnings returns warnings about new and changed route rules.
func routeWarnings(before, after *policy.Set) []string {
	var all []string
	for _, r := range after.Routes {
		var old policy.Route
		for _, b := range before.Routes {
			if b.Name == r.Name {
				old = b
			}
		}
		name := "Route rule " + r.Name + ": "
		all = append(all, changedMoot(name, old.PerKey, r.PerKey)...)
		all = append(all, changedMoot(name, old.PerIP, r.PerIP)...)
		all = append(all, changedMoot(name, old.Shared, r.Shared)...)
	}
	return all
}

// refusalWarnings names the callers that are refused after a save and were not before.
func refusalWarnings(before, after *policy.Set) []string {
	var all []string
	changed := !slices.Equal(before.Allow, after.Allow) || !slices.Equal(before.Deny, after.Deny)
	open := slices.ContainsFunc(after.Allow, func(p netip.Prefix) bool { return !covered(p, after.Deny) })
	removed := slices.DeleteFunc(slices.Clone(before.Allow), func(p netip.Prefix) bool {
		return covered(p, after.Allow)
	})
	switch {
	case !changed:
	case refusesAll(after.Deny) || len(after.Allow) > 0 && !open:
		all = append(all, "Every call is refused: no address is allowed.")
	case len(before.Allow) == 0 && len(after.Allow) > 0:
		all = append(all, "Calls from all addresses except "+networks(after.Allow)+" are refused.")
	case len(removed) > 0 && len(after.Allow) > 0:
		all = append(all, "Calls from "+networks(removed)+" are refused.")
	}
	if before.TokenPlan != "" && after.TokenPlan == "" {
		all = append(all, "JWTs without a plan are refused.")
	}
	if before.AddressPlan != "" && after.AddressPlan == "" {
		all = append(all, "Callers identified by their address are refused.")
	}
	return all
}

// covered reports whether one network of a list contains all of p.
func covered(p netip.Prefix, list []netip.Prefix) bool {
	return slices.ContainsFunc(list, func(q netip.Prefix) bool {
		return q.Bits() <= p.Bits() && q.Contains(p.Addr())
	})
}

// refusesAll reports whether a list contains every address.
func refusesAll(deny []netip.Prefix) bool {
	for _, all := range []string{"0.0.0.0/1", "128.0.0.0/1", "::/1", "8000::/1"} {
		if !covered(netip.MustParsePrefix(all), deny) {
			return false
		}
	}
	return true
}

// maxNetworks is the number of networks that a warning names.
const maxNetworks = 3

func networks(list []netip.Prefix) string {
	texts := make([]string, 0, maxNetworks+1)
	for i, p := range list {
		if i == maxNetworks {
			texts = append(texts, policydoc.Number(int64(len(list)-i))+" more")
			break
		}
		texts = append(texts, p.Masked().String())
	}
	return strings.Join(texts, ", ")
}
