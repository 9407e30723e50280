package compiled

import (
	"net/netip"
	"slices"

	"tidegate/internal/cause"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// RouteFor finds the route rule that holds for a call. It fails with ErrRefused for an
// address that may not call at all, and for a call whose path is ambiguous.
func (c *Set) RouteFor(call route.Call, address netip.Addr) (*Route, error) {
	i, matches, err := c.table.Find(call)
	switch {
	case err != nil:
		return nil, &policy.RefusedError{Cause: cause.Malformed}
	case c.Denies(address) || !c.Admits(address):
		return nil, &policy.RefusedError{Cause: cause.Address}
	case !matches:
		return c.Fallback, nil
	}
	return c.routes[i], nil
}

// PlanFor is the number of the plan for callers of a kind without one of their own, 0 for
// an API key; name is what comes with the call. It fails with ErrRefused when no plan is
// meant for them.
func (c *Set) PlanFor(kind policy.Kind, name string) (int, error) {
	switch {
	case kind == policy.APIKey:
		return 0, nil
	case kind == policy.Address:
		name = c.AddressPlan
	case name == "":
		name = c.TokenPlan
	}
	p, found := c.Plan(name)
	if !found {
		return 0, &policy.RefusedError{Cause: cause.Access}
	}
	return p.Number, nil
}

// Matches lists the routes that a call falls under; Index counts Set.Routes.
func (c *Set) Matches(call route.Call) []route.Match { return c.table.Explain(call) }

// Named returns the route of a name; nil when there is none.
func (c *Set) Named(name string) *Route {
	return c.find(func(r *Route) bool { return r.Name == name })
}

// Tagged returns the route with a tag; nil when it is gone.
func (c *Set) Tagged(tag string) *Route {
	return c.find(func(r *Route) bool { return r.Tag == tag })
}

func (c *Set) find(wanted func(*Route) bool) *Route {
	if i := slices.IndexFunc(c.routes, wanted); i >= 0 {
		return c.routes[i]
	}
	return nil
}

// Denies reports whether an address is in the list of those refused.
func (c *Set) Denies(a netip.Addr) bool { return within(c.Deny, a) }

// Admits reports whether an address is in the list of those admitted, if there is one.
func (c *Set) Admits(a netip.Addr) bool { return len(c.Allow) == 0 || within(c.Allow, a) }

// Exempts reports whether no limit holds for an address.
func (c *Set) Exempts(a netip.Addr) bool { return within(c.Exempt, a) }

func within(list []netip.Prefix, a netip.Addr) bool {
	a = a.Unmap()
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
}

// ClosedPlans are the numbers of the plans that do not open a route.
func (c *Set) ClosedPlans(call route.Call) []int {
	var closed []int
	for _, a := range c.access {
		if !a.list.Matches(call) {
			closed = append(closed, a.number)
		}
	}
	return closed
}

// Groups reports whether some plan has limits on groups.
func (c *Set) Groups() bool { return c.groups != nil }

// GroupLimit is what the keys of one group share under a plan; nil for nothing.
func (c *Set) GroupLimit(plan int) *SharedLimit { return c.groups[plan] }

// Reserves reports whether some of a call's cost may be given back: when it is settled,
// or when a limit on another subject denies the call.
func (c *Set) Reserves(r *Route) bool {
	return r.Settle || c.groups != nil || c.SharedPerIP != nil || c.SharedGlobal != nil || r.shares()
}
