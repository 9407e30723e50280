package changes

import (
	"context"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// ManyKeys is from how many keys on an edit of their plan is to be confirmed.
const ManyKeys = 1000

// MootWarnings says which limits of a list never deny. of names the list, and ends in ":
// " unless it is empty.
func MootWarnings(of string, limits []limiter.Limit) []string {
	var all []string
	for _, m := range limiter.MootLimits(limits) {
		limit, by := policydoc.LimitText(limits[m.Limit]), policydoc.LimitText(limits[m.By])
		if limit == by {
			all = append(all, of+limit+" is listed twice.")
			continue
		}
		all = append(all, of+limit+" never denies a call: "+by+" is stricter.")
	}
	return all
}

// PolicyWarnings says what harm a save of the policy may do, as far as it is of this
// save.
func (c *Changes) PolicyWarnings(ctx context.Context, before, after *policy.Set) ([]string, error) {
	counts, err := c.keys.PlanCounts(ctx, before)
	if err != nil {
		return nil, err
	}
	all := planWarnings(before, after, counts)
	all = append(all, routeWarnings(before, after)...)
	for _, s := range []struct {
		name          string
		before, after policy.Scope
	}{
		{"Limits per address: ", before.PerIP, after.PerIP}, {"Global limits: ", before.Global, after.Global},
	} {
		if !reflect.DeepEqual(s.before.Limits, s.after.Limits) {
			all = append(all, MootWarnings(s.name, s.after.Limits)...)
		}
	}
	return append(all, refusalWarnings(before, after)...), nil
}

// planWarnings are those of plans that exist and change, and of new ones.
func planWarnings(before, after *policy.Set, counts map[int]int64) []string {
	var all []string
	for _, p := range after.Plans {
		old, existed := before.Numbered(p.Number)
		if existed && reflect.DeepEqual(old, p) {
			continue
		}
		name := "Plan " + page.Clip(p.Name, page.MaxName) + ": "
		if n := counts[p.Number]; existed && n >= ManyKeys {
			all = append(all, name+"this acts on "+page.Number(n)+" keys at once.")
		}
		if !reflect.DeepEqual(old.Limits, p.Limits) {
			all = append(all, MootWarnings(name, p.Limits)...)
		}
		if !reflect.DeepEqual(old.PerGroup, p.PerGroup) {
			all = append(all, MootWarnings(name+"limits per group: ", p.PerGroup)...)
		}
	}
	return all
}

// routeWarnings are those of route rules that change, and of new ones.
func routeWarnings(before, after *policy.Set) []string {
	var all []string
	for _, r := range after.Routes {
		i := slices.IndexFunc(before.Routes, func(old policy.Route) bool { return old.Name == r.Name })
		var old policy.Route
		if i >= 0 {
			old = before.Routes[i]
		}
		name := "Route rule " + page.Clip(r.Name, page.MaxName) + ": "
		for _, l := range [][2][]limiter.Limit{
			{old.PerKey, r.PerKey}, {old.PerIP, r.PerIP}, {old.Shared, r.Shared},
		} {
			if !reflect.DeepEqual(l[0], l[1]) {
				all = append(all, MootWarnings(name, l[1])...)
			}
		}
	}
	return all
}

// refusalWarnings say who is refused from this save on.
func refusalWarnings(before, after *policy.Set) []string {
	var all []string
	changed := !slices.Equal(before.Allow, after.Allow) || !slices.Equal(before.Deny, after.Deny)
	open := slices.ContainsFunc(after.Allow, func(p netip.Prefix) bool { return !covered(p, after.Deny) })
	gone := slices.DeleteFunc(slices.Clone(before.Allow), func(p netip.Prefix) bool {
		return covered(p, after.Allow)
	})
	switch {
	case !changed:
	case refusesAll(after.Deny) || len(after.Allow) > 0 && !open:
		all = append(all, "Every call is refused: no address is left that may call.")
	case len(before.Allow) == 0 && len(after.Allow) > 0:
		all = append(all, "Calls from everywhere but "+networks(after.Allow)+" are refused.")
	case len(gone) > 0 && len(after.Allow) > 0:
		all = append(all, "Calls from "+networks(gone)+" are refused.")
	}
	if before.TokenPlan != "" && after.TokenPlan == "" {
		all = append(all, "JWTs that name no plan are refused.")
	}
	if before.AddressPlan != "" && after.AddressPlan == "" {
		all = append(all, "Callers known by their address are refused.")
	}
	return all
}

// covered reports whether one network of a list holds all of p.
func covered(p netip.Prefix, list []netip.Prefix) bool {
	return slices.ContainsFunc(list, func(q netip.Prefix) bool {
		return q.Bits() <= p.Bits() && q.Contains(p.Addr())
	})
}

// refusesAll reports whether a list holds every address there is.
func refusesAll(deny []netip.Prefix) bool {
	for _, all := range []string{"0.0.0.0/1", "128.0.0.0/1", "::/1", "8000::/1"} {
		if !covered(netip.MustParsePrefix(all), deny) {
			return false
		}
	}
	return true
}

// maxNetworks is how many networks a warning names.
const maxNetworks = 3

func networks(list []netip.Prefix) string {
	texts := make([]string, 0, maxNetworks+1)
	for i, p := range list {
		if i == maxNetworks {
			texts = append(texts, page.Number(int64(len(list)-i))+" more")
			break
		}
		texts = append(texts, p.Masked().String())
	}
	return strings.Join(texts, ", ")
}
