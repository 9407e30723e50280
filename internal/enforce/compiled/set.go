// Package compiled prepares a policy set for checks: it compiles route patterns to a
// table and limits to programs, and computes what every check needs to know of the set.
// Package enforce imports it. It knows neither Valkey nor the scripts.
package compiled

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/cause"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/route"
	"tidegate/internal/store/keyspace"
)

// Set is a policy set prepared for checks.
type Set struct {
	policy.Set
	Fallback     *Route       // for calls that match no route rule
	SharedPerIP  *SharedLimit // limits on each address; nil for none
	SharedGlobal *SharedLimit // limits on all calls; nil for none
	Shares       bool         // some calls fall under shared limits
	Problem      error        // why this is an older set under the version in force; nil if it is not

	table  *route.Table
	routes []*Route
	access []planAccess
	groups map[int]*SharedLimit // by the number of the plan; nil when no plan has any
}

// Route is a route rule prepared for checks.
type Route struct {
	policy.Route
	Tag         string       // policy.RouteTag of the name; part of the names of the rule's states
	PerKeyEntry []byte       // PerKey as policyset.EncodeEntry encodes it; empty for none
	SharedPerIP *SharedLimit // limits on each address; nil for none
	SharedByAll *SharedLimit // limits on all callers together; nil for none
}

func (r *Route) shares() bool { return r.SharedPerIP != nil || r.SharedByAll != nil }

// PerKeyProgram returns the program of PerKey. PerKeyEntry must not be empty.
func (r *Route) PerKeyProgram() limiter.Program { return limiter.Program(r.PerKeyEntry[3:]) }

// State returns the key of the state of the route's limits on a caller.
func (r *Route) State(id string) string { return keyspace.Of(id, "s"+r.Tag) }

// SharedLimit is a list of limits that callers share: of all calls, of a route, of an
// address, or of a plan's keys in one group.
type SharedLimit struct {
	Scope   string
	Mode    policy.Mode // Enforce or Shadow
	Limits  []limiter.Limit
	Program limiter.Program
}

// planAccess has the routes that a plan opens.
type planAccess struct {
	number int
	list   *route.List
}

// New compiles a policy set.
func New(s *policy.Set) (*Set, error) {
	c := &Set{Set: *s, Fallback: &Route{Route: policy.Route{Cost: 1}}}
	patterns := make([]route.Pattern, len(s.Routes))
	for i, r := range s.Routes {
		patterns[i] = r.Pattern
		compiled, err := newRoute(r)
		if err != nil {
			return nil, err
		}
		c.routes = append(c.routes, compiled)
	}
	var err error
	if c.table, err = route.NewTable(patterns); err != nil {
		return nil, err
	}
	if c.SharedPerIP, err = newSharedLimit(policy.ScopeIP, s.PerIP.Mode, s.PerIP.Limits); err != nil {
		return nil, err
	}
	if c.SharedGlobal, err = newSharedLimit(policy.ScopeGlobal, s.Global.Mode, s.Global.Limits); err != nil {
		return nil, err
	}
	c.Shares = c.SharedPerIP != nil || c.SharedGlobal != nil || slices.ContainsFunc(c.routes, (*Route).shares)
	return c, c.compilePlans()
}

func newRoute(r policy.Route) (*Route, error) {
	c := &Route{Route: r, Tag: policy.RouteTag(r.Name)}
	var err error
	if len(r.PerKey) > 0 {
		if c.PerKeyEntry, err = policyset.EncodeEntry(r.Mode, r.PerKey); err != nil {
			return nil, err
		}
	}
	if c.SharedPerIP, err = newSharedLimit(policy.ScopeRouteIP, r.Mode, r.PerIP); err != nil {
		return nil, err
	}
	c.SharedByAll, err = newSharedLimit(policy.ScopeRouteAll, r.Mode, r.Shared)
	return c, err
}

// newSharedLimit returns nil if there are no limits.
func newSharedLimit(scope string, mode policy.Mode, limits []limiter.Limit) (*SharedLimit, error) {
	if len(limits) == 0 {
		return nil, nil
	}
	program, err := limiter.Compile(limits, time.Now())
	return &SharedLimit{Scope: scope, Mode: policy.OrEnforce(mode), Limits: limits, Program: program}, err
}

// compilePlans compiles the parts of plans that the script does not read: the routes that
// they open, and their limits on groups.
func (c *Set) compilePlans() error {
	for _, p := range c.Plans {
		if len(p.Allow) > 0 {
			list, err := route.NewList(p.Allow)
			if err != nil {
				return fmt.Errorf("routes of plan %q: %w", p.Name, err)
			}
			c.access = append(c.access, planAccess{p.Number, list})
		}
		s, err := newSharedLimit(policy.ScopeGroup, p.Mode, p.PerGroup)
		if err != nil {
			return err
		}
		if s != nil {
			if c.groups == nil {
				c.groups = map[int]*SharedLimit{}
			}
			c.groups[p.Number] = s
		}
	}
	return nil
}

// RouteFor finds the route rule that applies to a call. It returns policy.ErrRefused for
// an ambiguous path.
func (c *Set) RouteFor(call route.Call) (*Route, error) {
	i, matches, err := c.table.Find(call)
	switch {
	case err != nil:
		return nil, &policy.RefusedError{Cause: cause.Malformed}
	case !matches:
		return c.Fallback, nil
	}
	return c.routes[i], nil
}

// CheckAddress returns policy.ErrRefused unless the address may call the route. It also
// refuses a call without an address, if lists or limits of addresses decide its fate:
// what cannot be read passes no list and is counted nowhere.
func (c *Set) CheckAddress(r *Route, a netip.Addr) error {
	switch {
	case !a.IsValid() && c.decidesByAddress(r):
		return &policy.RefusedError{Cause: cause.Address,
			Reason: "the event has no address that can be read, and the policy decides by address"}
	case c.Denies(a) || !c.Admits(a):
		return &policy.RefusedError{Cause: cause.Address}
	}
	return nil
}

// decidesByAddress reports whether the address matters to calls of a route. Limits in
// shadow mode never deny, so they decide nothing.
func (c *Set) decidesByAddress(r *Route) bool {
	return len(c.Deny)+len(c.Allow)+len(c.Exempt) > 0 || c.SharedPerIP.denies() || r.SharedPerIP.denies()
}

// denies reports whether there is a limit, and it denies calls.
func (s *SharedLimit) denies() bool { return s != nil && s.Mode == policy.Enforce }

// PlanFor returns the number of the plan for callers whose record has none; 0 for an API
// key. name is the plan that the call names. It returns policy.ErrRefused if there is no
// plan for such callers.
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
		return 0, &policy.RefusedError{Cause: cause.Access, Reason: noPlan(kind, name, c.TokenPlan)}
	}
	return p.Number, nil
}

// noPlan says why a caller without a record has no plan.
func noPlan(kind policy.Kind, name, tokenPlan string) string {
	switch {
	case kind == policy.Address:
		return "the policy has no addressPlan"
	case name == tokenPlan:
		return "the token names no plan, and the policy has no tokenPlan"
	}
	return "the plan that the token names does not exist"
}

// Matches lists the route rules that match a call; Index is that in Set.Routes.
func (c *Set) Matches(call route.Call) []route.Match { return c.table.Explain(call) }

// Rules returns every route rule, in the order of Set.Routes.
func (c *Set) Rules() []*Route { return c.routes }

// Named returns the route rule with a name; nil for none.
func (c *Set) Named(name string) *Route {
	return c.find(func(r *Route) bool { return r.Name == name })
}

// Tagged returns the route rule with a tag; nil for none.
func (c *Set) Tagged(tag string) *Route {
	return c.find(func(r *Route) bool { return r.Tag == tag })
}

func (c *Set) find(wanted func(*Route) bool) *Route {
	if i := slices.IndexFunc(c.routes, wanted); i >= 0 {
		return c.routes[i]
	}
	return nil
}

// Denies reports whether an address is in the deny list.
func (c *Set) Denies(a netip.Addr) bool { return within(c.Deny, a) }

// Admits reports whether an address is in the allow list, or there is no such list.
func (c *Set) Admits(a netip.Addr) bool { return len(c.Allow) == 0 || within(c.Allow, a) }

// Exempts reports whether no limit applies to an address.
func (c *Set) Exempts(a netip.Addr) bool { return within(c.Exempt, a) }

func within(list []netip.Prefix, a netip.Addr) bool {
	a = a.Unmap()
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
}

// ClosedPlans returns the numbers of the plans that do not open a call's route.
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

// GroupLimit returns the limits of a plan on the keys of one group; nil for none.
func (c *Set) GroupLimit(plan int) *SharedLimit { return c.groups[plan] }

// Reserves reports whether some of a call's cost may be given back: because the call is
// settled, or because a shared limit may deny it.
func (c *Set) Reserves(r *Route) bool {
	return r.Settle || c.groups != nil || c.SharedPerIP != nil || c.SharedGlobal != nil || r.shares()
}
