package enforce

import (
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/cause"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/route"
	"tidegate/internal/store/keyspace"
)

// compiledSet is a Set made ready for checks.
type compiledSet struct {
	policy.Set
	table    *route.Table
	routes   []*compiledRoute
	fallback *compiledRoute // of calls that match no route
	access   []planAccess
	perIP    *sharedLimit
	global   *sharedLimit
	groups   map[int]*sharedLimit // by the number of the plan; nil when no plan has any
	wide     bool                 // every check needs wide.lua
	leases   bool                 // some limits are leased, or were lately
	shares   bool                 // some calls fall under shared limits
	banArgs  [3]string            // its ARGV[6] to ARGV[8]
	problem  error                // why it is not the Set of its version; see keepLastGood
}

type compiledRoute struct {
	policy.Route
	tag    string // names its states; made from its name
	perKey []byte // entry of PerKey; empty without
	perIP  *sharedLimit
	shared *sharedLimit
}

func (r *compiledRoute) shares() bool { return r.perIP != nil || r.shared != nil }

func (r *compiledRoute) perKeyProgram() limiter.Program { return limiter.Program(r.perKey[3:]) }

// sharedLimit is a list of limits that callers share: of all calls, of a route, of an
// address, or of a plan's keys in one group.
type sharedLimit struct {
	scope  string
	mode   policy.Mode
	limits []limiter.Limit
	counting
	pool      *leasePool      // nil unless the limits are leased
	shrinking *shrinkingLease // nil unless a longer lease ended lately
}

func compileSet(s *policy.Set) (*compiledSet, error) {
	c := &compiledSet{Set: *s, wide: s.Bans != nil || s.HasCandidate(),
		fallback: &compiledRoute{Route: policy.Route{Cost: 1}}}
	patterns := make([]route.Pattern, len(s.Routes))
	for i, r := range s.Routes {
		patterns[i] = r.Pattern
		compiled, err := compileRoute(r)
		if err != nil {
			return nil, err
		}
		c.routes = append(c.routes, compiled)
	}
	var err error
	if c.table, err = route.NewTable(patterns); err != nil {
		return nil, err
	}
	if c.access, err = compileAccess(s.Plans); err != nil {
		return nil, err
	}
	if c.perIP, err = newSharedLimit(policy.ScopeIP, s.PerIP.Mode, s.PerIP.Limits); err != nil {
		return nil, err
	}
	if c.global, err = newSharedLimit(policy.ScopeGlobal, s.Global.Mode, s.Global.Limits); err != nil {
		return nil, err
	}
	if err := c.compileGroups(); err != nil {
		return nil, err
	}
	c.shares = c.perIP != nil || c.global != nil || slices.ContainsFunc(c.routes, (*compiledRoute).shares)
	if err := c.compileLeases(); err != nil {
		return nil, err
	}
	return c, c.compileBans()
}

// compileLeases makes the pools that hold the Set's leases.
func (c *compiledSet) compileLeases() error {
	err := c.lease(c.global, policy.GlobalID, c.Global.Lease)
	for _, r := range c.routes {
		err = errors.Join(err, c.lease(r.shared, policy.RouteID(r.Name), r.SharedLease))
	}
	return err
}

func (c *compiledSet) lease(s *sharedLimit, id string, lease policy.Duration) error {
	if s == nil {
		return nil
	}
	if err := s.setLease(time.Duration(lease), c.ShrinkingLeases[id]); err != nil {
		return err
	}
	c.leases = c.leases || s.leases()
	return nil
}

func (c *compiledSet) compileBans() error {
	if c.Bans == nil {
		return nil
	}
	program, err := limiter.Compile([]limiter.Limit{
		{Requests: c.Bans.Denials - 1, Window: time.Duration(c.Bans.Window)}}, time.Now())
	if err != nil {
		return err
	}
	c.banArgs = [3]string{valkey.BinaryString(program), micros(c.Bans.Base), micros(c.Bans.Cap)}
	return nil
}

func micros(d policy.Duration) string { return strconv.FormatInt(time.Duration(d).Microseconds(), 10) }

func compileRoute(r policy.Route) (*compiledRoute, error) {
	c := &compiledRoute{Route: r, tag: policy.RouteTag(r.Name)}
	var err error
	if len(r.PerKey) > 0 {
		if c.perKey, err = policyset.EncodeEntry(r.Mode, r.PerKey); err != nil {
			return nil, err
		}
		if policy.OrEnforce(r.Mode) == policy.Off {
			c.perKey = nil
		}
	}
	if c.perIP, err = newSharedLimit(policy.ScopeRouteIP, r.Mode, r.PerIP); err != nil {
		return nil, err
	}
	c.shared, err = newSharedLimit(policy.ScopeRouteAll, r.Mode, r.Shared)
	return c, err
}

// newSharedLimit returns nil when there is nothing to count.
func newSharedLimit(scope string, mode policy.Mode, limits []limiter.Limit) (*sharedLimit, error) {
	if len(limits) == 0 || mode == policy.Off {
		return nil, nil
	}
	count, err := newCounting(limits, 0)
	return &sharedLimit{scope: scope, mode: policy.OrEnforce(mode), limits: limits, counting: count}, err
}

// admit finds what holds for a call: the number of the plan for a caller without one of
// its own, 0 for an API key, and the route. It fails with ErrRefused for a caller who may
// not call at all, and for a call whose path is ambiguous.
func (c *compiledSet) admit(call Call) (plan int, rule *compiledRoute, err error) {
	i, matches, err := c.table.Find(call.Route)
	switch {
	case err != nil:
		return 0, nil, &policy.RefusedError{Cause: cause.Malformed}
	case c.refuses(call.Address):
		return 0, nil, &policy.RefusedError{Cause: cause.Address}
	}
	if rule = c.fallback; matches {
		rule = c.routes[i]
	}
	plan, err = c.planFor(call.Kind, call.Plan)
	return plan, rule, err
}

// planFor is the number of the plan for callers of a kind without one of their own; name
// is what comes with the call. It fails with ErrRefused when no plan is meant for them.
func (c *compiledSet) planFor(kind policy.Kind, name string) (int, error) {
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

func (c *compiledSet) refuses(a netip.Addr) bool {
	return within(c.Deny, a) || len(c.Allow) > 0 && !within(c.Allow, a)
}

func (c *compiledSet) exempts(a netip.Addr) bool { return within(c.Exempt, a) }

func within(list []netip.Prefix, a netip.Addr) bool {
	a = a.Unmap()
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
}

// sharedSteps are the steps on the shared limits of a call.
func (c *compiledSet) sharedSteps(call Call, rule *compiledRoute, addresses policyset.AddressKey) []step {
	var steps []step
	add := func(s *sharedLimit, id, what string) {
		if s != nil {
			steps = append(steps, c.sharedStep(s, rule, id, what))
		}
	}
	if call.Network.IsValid() {
		id := addresses.ID(call.Network)
		add(c.perIP, id, "sp")
		add(rule.perIP, id, "s"+rule.tag)
	}
	add(c.global, policy.GlobalID, "s")
	add(rule.shared, policy.RouteID(rule.Name), "s")
	return steps
}

func (c *compiledSet) sharedStep(s *sharedLimit, rule *compiledRoute, id, what string) step {
	keys := []string{keyspace.Of(id, what), policyset.CopyKey(keyspace.BucketOf(id))}
	args := stepArgs(s.program, rule.Cost, time.Time{}, c.Version)
	args[2] = c.reserving(rule)
	return step{script: stepScript, keys: keys, args: args, shared: s}
}

// reserving is the argument by which a step knows whether some of its cost may be given
// back: when it is settled, or when a limit on another subject denies the call.
func (c *compiledSet) reserving(rule *compiledRoute) string {
	if rule.Settle || c.groups != nil || c.perIP != nil || rule.perIP != nil || c.global != nil ||
		rule.shared != nil {
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
