// Package compiled makes a policy set ready for checks: patterns become tables, limits
// become programs, and what every check asks of the set is known beforehand. Package
// enforce imports it. It knows neither Valkey nor the scripts.
package compiled

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/enforce/lease"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/route"
	"tidegate/internal/store/keyspace"
)

// Set is a policy set made ready for checks.
type Set struct {
	policy.Set
	Fallback     *Route       // of calls that match no route
	SharedPerIP  *SharedLimit // nil without, as is SharedGlobal
	SharedGlobal *SharedLimit
	Wide         bool      // every check needs wide.lua
	Leases       bool      // some limits are leased, or were lately
	Shares       bool      // some calls fall under shared limits
	BanArgs      [3]string // ARGV[6] to ARGV[8] of wide.lua
	Problem      error     // why it is not the Set of its version; nil if it is

	table  *route.Table
	routes []*Route
	access []planAccess
	groups map[int]*SharedLimit // by the number of the plan; nil when no plan has any
}

// Route is a route rule made ready for checks.
type Route struct {
	policy.Route
	Tag         string       // names its states; made from its name
	PerKeyEntry []byte       // entry of PerKey; empty without
	SharedPerIP *SharedLimit // nil without, as is SharedByAll
	SharedByAll *SharedLimit
}

func (r *Route) shares() bool { return r.SharedPerIP != nil || r.SharedByAll != nil }

// PerKeyProgram is the program of PerKey, of which there are some.
func (r *Route) PerKeyProgram() limiter.Program { return limiter.Program(r.PerKeyEntry[3:]) }

// State names what the route's limits on a caller count.
func (r *Route) State(id string) string { return keyspace.Of(id, "s"+r.Tag) }

// SharedLimit is a list of limits that callers share: of all calls, of a route, of an
// address, or of a plan's keys in one group.
type SharedLimit struct {
	Scope string
	Mode  policy.Mode // Enforce or Shadow
	lease.Limits
}

// planAccess is the routes that a plan opens.
type planAccess struct {
	number int
	list   *route.List
}

// New compiles a policy set.
func New(s *policy.Set) (*Set, error) {
	c := &Set{Set: *s, Wide: s.Bans != nil || s.HasCandidate(),
		Fallback: &Route{Route: policy.Route{Cost: 1}}}
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
	return c, errors.Join(c.compilePlans(), c.compileLeases(), c.compileBans())
}

func newRoute(r policy.Route) (*Route, error) {
	c := &Route{Route: r, Tag: policy.RouteTag(r.Name)}
	var err error
	if len(r.PerKey) > 0 {
		if c.PerKeyEntry, err = policyset.EncodeEntry(r.Mode, r.PerKey); err != nil {
			return nil, err
		}
		if policy.OrEnforce(r.Mode) == policy.Off {
			c.PerKeyEntry = nil
		}
	}
	if c.SharedPerIP, err = newSharedLimit(policy.ScopeRouteIP, r.Mode, r.PerIP); err != nil {
		return nil, err
	}
	c.SharedByAll, err = newSharedLimit(policy.ScopeRouteAll, r.Mode, r.Shared)
	return c, err
}

// newSharedLimit returns nil when there is nothing to count.
func newSharedLimit(scope string, mode policy.Mode, limits []limiter.Limit) (*SharedLimit, error) {
	if len(limits) == 0 || mode == policy.Off {
		return nil, nil
	}
	l, err := lease.NewLimits(limits)
	return &SharedLimit{Scope: scope, Mode: policy.OrEnforce(mode), Limits: l}, err
}

// compilePlans compiles what the script does not read of plans: which routes they open,
// and their limits on groups.
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

// compileLeases makes the pools that hold the Set's leases.
func (c *Set) compileLeases() error {
	err := c.lease(c.SharedGlobal, policy.GlobalID, c.Global.Lease)
	for _, r := range c.routes {
		err = errors.Join(err, c.lease(r.SharedByAll, policy.RouteID(r.Name), r.SharedLease))
	}
	return err
}

func (c *Set) lease(s *SharedLimit, id string, duration policy.Duration) error {
	if s == nil {
		return nil
	}
	if err := s.Lease(time.Duration(duration), c.ShrinkingLeases[id]); err != nil {
		return err
	}
	c.Leases = c.Leases || s.Leased()
	return nil
}

func (c *Set) compileBans() error {
	if c.Bans == nil {
		return nil
	}
	program, err := limiter.Compile([]limiter.Limit{
		{Requests: c.Bans.Denials - 1, Window: time.Duration(c.Bans.Window)}}, time.Now())
	if err != nil {
		return err
	}
	c.BanArgs = [3]string{valkey.BinaryString(program), micros(c.Bans.Base), micros(c.Bans.Cap)}
	return nil
}

func micros(d policy.Duration) string { return strconv.FormatInt(time.Duration(d).Microseconds(), 10) }
