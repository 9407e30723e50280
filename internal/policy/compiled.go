package policy

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/keyspace"
	"tidegate/internal/limiter"
	"tidegate/internal/route"
)

// compiledSet is a Set made ready for checks.
type compiledSet struct {
	Set
	table    *route.Table
	routes   []*compiledRoute
	fallback *compiledRoute // of calls that match no route
	perIP    *side
	global   *side
	wide     bool      // every check needs wide.lua
	leases   bool      // some limits are leased, or were lately
	banArgs  [3]string // its ARGV[5] to ARGV[7]
	problem  error     // why it is not the Set of its version; see outlive
}

type compiledRoute struct {
	Route
	tag    string // names its states; made from its name
	perKey []byte // entry of PerKey; empty without
	perIP  *side
	shared *side
}

func (r *compiledRoute) perKeyProgram() limiter.Program { return limiter.Program(r.perKey[3:]) }

// side is a list of limits on another subject than the caller.
type side struct {
	scope  string
	mode   Mode
	limits []limiter.Limit
	counting
	share *share // nil unless the limits are leased
	lapse *lapse // nil unless a longer lease ended lately
}

func compileSet(s *Set) (*compiledSet, error) {
	c := &compiledSet{Set: *s, wide: s.Bans != nil || s.hasCandidate(), fallback: &compiledRoute{Route: Route{Cost: 1}}}
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
	if c.perIP, err = newSide(ScopeIP, s.PerIP.Mode, s.PerIP.Limits); err != nil {
		return nil, err
	}
	if c.global, err = newSide(ScopeGlobal, s.Global.Mode, s.Global.Limits); err != nil {
		return nil, err
	}
	if err := c.compileLeases(); err != nil {
		return nil, err
	}
	return c, c.compileBans()
}

// compileLeases makes the shares that the Set's leases are held in.
func (c *compiledSet) compileLeases() error {
	err := c.lease(c.global, globalID, c.Global.Lease)
	for _, r := range c.routes {
		err = errors.Join(err, c.lease(r.shared, RouteID(r.Name), r.SharedLease))
	}
	return err
}

func (c *compiledSet) lease(s *side, id string, lease Duration) error {
	if s == nil {
		return nil
	}
	if err := s.leased(time.Duration(lease), c.Lapses[id]); err != nil {
		return err
	}
	c.leases = c.leases || s.leases()
	return nil
}

func (c *compiledSet) compileBans() error {
	if c.Bans == nil {
		return nil
	}
	program, err := limiter.Compile([]limiter.Limit{{Requests: c.Bans.Denials - 1, Window: time.Duration(c.Bans.Window)}}, time.Now())
	if err != nil {
		return err
	}
	c.banArgs = [3]string{valkey.BinaryString(program), micros(c.Bans.Base), micros(c.Bans.Cap)}
	return nil
}

func micros(d Duration) string { return strconv.FormatInt(time.Duration(d).Microseconds(), 10) }

func compileRoute(r Route) (*compiledRoute, error) {
	c := &compiledRoute{Route: r, tag: routeTag(r.Name)}
	var err error
	if len(r.PerKey) > 0 {
		if c.perKey, err = encodeEntry(r.Mode, r.PerKey); err != nil {
			return nil, err
		}
		if orEnforce(r.Mode) == Off {
			c.perKey = nil
		}
	}
	if c.perIP, err = newSide(ScopeRouteIP, r.Mode, r.PerIP); err != nil {
		return nil, err
	}
	c.shared, err = newSide(ScopeRouteAll, r.Mode, r.Shared)
	return c, err
}

// globalID is the subject of the limits of all callers.
const globalID = "global"

// RouteID is the id under which the usage of a route is recorded.
func RouteID(name string) string { return "route-" + routeTag(name) }

func routeTag(name string) string {
	sum := sha256.Sum256([]byte(name))
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}

// newSide returns nil when there is nothing to count.
func newSide(scope string, mode Mode, limits []limiter.Limit) (*side, error) {
	if len(limits) == 0 || mode == Off {
		return nil, nil
	}
	count, err := newCounting(limits, 0)
	return &side{scope: scope, mode: orEnforce(mode), limits: limits, counting: count}, err
}

// admit finds what holds for a call: the number of the plan for a caller without one of its own, 0 for an API key, and the route. It fails with
// ErrRefused for a caller who may not call at all, and for a call whose path is ambiguous.
func (c *compiledSet) admit(call Call) (plan int, rule *compiledRoute, err error) {
	i, matches, err := c.table.Find(call.Route)
	if err != nil || c.refuses(call.Address) {
		return 0, nil, ErrRefused
	}
	if rule = c.fallback; matches {
		rule = c.routes[i]
	}
	plan, err = c.planFor(call.Kind, call.Plan)
	return plan, rule, err
}

// planFor is the number of the plan for callers of a kind without one of their own; name is what comes with the call. It fails with ErrRefused when
// no plan is meant for them.
func (c *compiledSet) planFor(kind Kind, name string) (int, error) {
	switch {
	case kind == APIKey:
		return 0, nil
	case kind == Address:
		name = c.AddressPlan
	case name == "":
		name = c.TokenPlan
	}
	p, found := c.Plan(name)
	if !found {
		return 0, ErrRefused
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

// sideSteps are the steps on other subjects than the caller.
func (c *compiledSet) sideSteps(call Call, rule *compiledRoute, addresses addressKey) []step {
	var steps []step
	add := func(s *side, id, what string) {
		if s != nil {
			keys := []string{keyspace.Of(id, what), copyKey(keyspace.BucketOf(id))}
			steps = append(steps, step{stepScript, keys, stepArgs(s.program, rule.Cost, time.Time{}, c.Version), s})
		}
	}
	if call.Network.IsValid() {
		id := addresses.id(call.Network)
		add(c.perIP, id, "sp")
		add(rule.perIP, id, "s"+rule.tag)
	}
	add(c.global, globalID, "s")
	add(rule.shared, RouteID(rule.Name), "s")
	return steps
}

// stepArgs are the arguments of stepScript.
func stepArgs(program limiter.Program, cost int64, taken time.Time, version int64) []string {
	at := "0"
	if cost < 0 {
		at = strconv.FormatInt(taken.UnixMicro(), 10)
	}
	return []string{valkey.BinaryString(program), strconv.FormatInt(cost, 10), at, strconv.FormatInt(version, 10)}
}

// addressKey is what the subject ids of addresses are made with: whoever sees one in Valkey cannot find out the address by trying all.
type addressKey []byte

func newAddressKey(pepper apikey.Pepper) addressKey { return pepper.Derive("addresses") }

// id is the subject id of a client network.
func (k addressKey) id(p netip.Prefix) string {
	mac := hmac.New(sha256.New, k)
	mac.Write([]byte(p.Masked().String()))
	return "ip-" + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}
