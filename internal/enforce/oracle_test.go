package enforce

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/lua"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/route"
	"tidegate/internal/store/keyspace"
)

// oracle answers checks as a Checker must: limiter.Models, one for each state, and in
// plain Go what is decided between them. Its clock stands while a check is made.
type oracle struct {
	set       *policy.Set // in force
	keys      map[string]policy.Key
	states    map[string]*replay
	bans      map[string]lockout
	addresses policyset.AddressKey
	now       time.Time
	env       int // the environment whose check it is
	skew      []time.Duration
	leases    map[string]*modelLease
	recent    map[string]allowedCall // by environment, caller and route
	met       map[string]int         // how often rare cases were met
}

// replay is a state: the steps that were made on it, so that the last can be undone.
type replay struct {
	steps  []func(*limiter.Model) limiter.Decision
	limits []limiter.Limit // of the last
}

type lockout struct {
	level           int
	till, forgotten time.Time
}

func newOracle(w *world) *oracle {
	return &oracle{
		keys: map[string]policy.Key{}, states: map[string]*replay{}, bans: map[string]lockout{},
		addresses: w.checker.addresses,
		now:       time.Unix(1_800_000_000, 0), leases: map[string]*modelLease{},
		recent: map[string]allowedCall{}, met: map[string]int{},
	}
}

func (r *replay) model() *limiter.Model {
	var m limiter.Model
	for _, step := range r.steps {
		step(&m)
	}
	return &m
}

// state returns the state of this name, with these limits from now on.
func (o *oracle) state(name string, limits []limiter.Limit) *replay {
	if o.states[name] == nil {
		o.states[name] = &replay{}
	}
	o.states[name].limits = limits
	return o.states[name]
}

// take makes a step; cost 0 looks, which may carry a state over to other limits, below 0
// gives back what was taken now, but for some limits in shadow mode.
func (o *oracle) take(name string, limits []limiter.Limit, cost int64, spared ...byte) limiter.Decision {
	state, now := o.state(name, limits), o.now
	step := func(m *limiter.Model) limiter.Decision {
		switch {
		case cost < 0:
			return m.Refund(now, limits, -cost, now, spared[0])
		case cost == 0:
			return m.Peek(now, limits)
		}
		return must(m.Take(now, limits, cost))
	}
	m := state.model()
	state.steps = append(state.steps, step)
	return step(m)
}

func (o *oracle) undo(name string) {
	steps := o.states[name].steps
	o.states[name].steps = steps[:len(steps)-1]
}

// held is a decision on one state about a call.
type heldLimits struct {
	name  string
	scope string
	mode  policy.Mode
	cost  int64
	limiter.Decision
	lease *modelLease // that it came from
}

// denies reports whether the decision denies the call.
func (h heldLimits) denies() bool { return h.mode == policy.Enforce && !h.Allowed }

func (o *oracle) hold(name, scope string, mode policy.Mode, limits []limiter.Limit, cost int64) heldLimits {
	return heldLimits{name, scope, policy.OrEnforce(mode), cost, o.take(name, limits, cost), nil}
}

// giveBack returns to the states what they gave for a call that is denied.
func (o *oracle) giveBack(all []heldLimits) {
	for _, h := range all {
		if h.lease != nil {
			h.lease.left += h.cost
		} else if h.Allowed && h.cost > 0 {
			o.take(h.name, o.states[h.name].limits, -h.cost, limiter.Exceeded(h.Limits))
		}
	}
}

// restored are the limits as they are reported when nothing was taken in the end.
func restored(all []heldLimits, given bool) []LimitState {
	var limits []LimitState
	for _, h := range all {
		for _, u := range h.Limits {
			if given && h.Allowed && !u.Exceeded() {
				u.Remaining = min(u.Remaining+h.cost, u.Limit.Requests)
				if u.Remaining == u.Limit.Requests || u.Limit.Algorithm == limiter.Counter {
					u.Next = 0 // unknown
				}
			}
			mode := h.mode
			if u.Limit.Shadow {
				mode = policy.Shadow
			}
			limits = append(limits, LimitState{u, h.scope, mode})
		}
	}
	return limits
}

// verdict is what a Check must return.
type verdict struct {
	unknown, refused               bool
	allowed, wouldAllow, candidate bool
	banned                         time.Time
	limits                         []LimitState
}

func (v verdict) String() string {
	words := []string{fmt.Sprintf("unknown %t, refused %t, allowed %t, would %t, candidate %t",
		v.unknown, v.refused, v.allowed,
		v.wouldAllow, v.candidate)}
	if !v.banned.IsZero() {
		words = append(words, "banned until "+v.banned.Format(time.RFC3339Nano))
	}
	for _, l := range v.limits {
		words = append(words, fmt.Sprintf("%s %s %s: %d, next %s, reset %s, retry %s", l.Scope, l.Mode,
			l.Limit, l.Remaining, l.Next,
			l.Reset, l.RetryAfter))
	}
	return strings.Join(words, "; ")
}

func exempt(set *policy.Set, address netip.Addr) bool {
	return slices.ContainsFunc(set.Exempt, func(p netip.Prefix) bool { return p.Contains(address) })
}

// check is Checker.Check of a call by an API key. Shared limits are asked when the
// caller's own step allowed the call, or its last call was allowed in this environment
// lately and no list of routes is looked at.
func (o *oracle) check(id string, address netip.Addr, path string, lists bool) verdict {
	rule := ruleOf(o.set, path)
	free := rule.Cost == 0 || exempt(o.set, address)
	early := !free && !lists && o.allowedLately(id, rule)
	own, v := o.own(id, path, rule, free)
	may := !v.unknown && !v.refused && v.banned.IsZero()
	v.allowed = may && (free || !slices.ContainsFunc(own, heldLimits.denies))
	var others []heldLimits
	switch last := o.recent[o.recentNames(id, rule)[0]].group; {
	case !free && v.allowed:
		group := o.groupOf(id)
		others = o.shared(o.set, rule, address)
		if early && last != group {
			o.giveBack(o.group(last, rule))
			o.met["a caller who left or joined a group"]++
		}
		if !early || last == group || !slices.ContainsFunc(others, heldLimits.denies) {
			others = append(others, o.group(group, rule)...)
		}
		v.allowed = !slices.ContainsFunc(others, heldLimits.denies)
		if !v.allowed {
			o.giveBack(own)
			o.giveBack(others)
		}
	case early:
		o.giveBack(o.shared(o.set, rule, address))
		o.giveBack(o.group(last, rule))
		o.met["a caller allowed lately that is denied"]++
	}
	v.wouldAllow = may
	for _, h := range slices.Concat(own, others) {
		v.wouldAllow = v.wouldAllow && h.WouldAllow()
		if h.Allowed && !h.WouldAllow() {
			o.met["a call above a limit in shadow mode"]++
		}
	}
	if free && v.allowed {
		v.wouldAllow, v.candidate = true, true
	}
	o.learn(id, rule, own, v, free)
	v.limits = append(restored(own, !v.allowed), restored(others, !v.allowed)...)
	return v
}

// allowedCall is what an environment knows of the last call of a caller, which was
// allowed.
type allowedCall struct {
	version   int64
	at, until time.Time // by the environment's clock
	left      int64
	group     keyGroup
}

// allowedLately reports whether the caller may be expected to pass its own limits.
func (o *oracle) allowedLately(id string, rule policy.Route) bool {
	clock := o.now.Add(o.skew[o.env])
	for _, name := range o.recentNames(id, rule) {
		c, found := o.recent[name]
		if !found || c.version != o.set.Version || clock.Sub(c.at) >= 10*time.Second ||
			!clock.Before(c.until) || c.left < rule.Cost {
			return false
		}
	}
	o.met["a caller allowed lately"]++
	return true
}

func (o *oracle) recentNames(id string, rule policy.Route) []string {
	names := []string{fmt.Sprintf("%d %s", o.env, id)}
	if len(rule.PerKey) > 0 && rule.Mode != policy.Off {
		names = append(names, names[0]+" "+rule.Name)
	}
	return names
}

// learn notes what a call says of the next by the same caller in this environment.
func (o *oracle) learn(id string, rule policy.Route, own []heldLimits, v verdict, free bool) {
	clock, k := o.now.Add(o.skew[o.env]), o.keys[id]
	for i, name := range o.recentNames(id, rule) {
		if !v.allowed {
			delete(o.recent, name)
			continue
		}
		if i > 0 && free {
			continue
		}
		c := allowedCall{version: o.set.Version, at: clock, until: clock.Add(time.Hour), left: 1 << 40,
			group: o.groupOf(id)}
		ends := []time.Time{k.Expires}
		if k.Override != nil {
			ends = append(ends, k.Override.Until)
		}
		for _, end := range ends {
			if end.After(o.now) && end.Sub(o.now) < time.Hour {
				c.until = clock.Add(min(c.until.Sub(clock), end.Sub(o.now)))
			}
		}
		for _, h := range own {
			if h.mode == policy.Enforce && (h.scope == policy.ScopeRoute) == (i > 0) {
				c.left = min(c.left, leastRemaining(h.Limits))
			}
		}
		o.recent[name] = c
	}
}

// own is what the caller's own limits say, all or nothing, and its bans.
func (o *oracle) own(id, path string, rule policy.Route, free bool) (own []heldLimits, v verdict) {
	v.candidate = true
	k := o.keys[id]
	if k.Status != policy.Active || !k.Expires.IsZero() && !o.now.Before(k.Expires) {
		v.unknown = true
		return nil, v
	}
	if v.refused = !opened(k.Allow, path); v.refused {
		return nil, v
	}
	if v.banned = k.Banned; o.now.Before(v.banned) {
		return nil, v
	}
	v.banned = time.Time{}
	plan, _ := o.set.Plan(k.Plan)
	if v.refused = !opened(plan.Allow, path); v.refused {
		return nil, v
	}
	if lock := o.bans[id]; o.set.Bans != nil && o.now.Before(lock.till) {
		v.banned = lock.till
		return nil, v
	}
	cost := rule.Cost
	if free {
		cost = 0
	}
	e, _ := o.set.Effective(k, o.now)
	if e.Mode != policy.Off {
		own = append(own, o.hold(keyspace.State(id), policy.ScopeKey, e.Mode, e.Limits, cost))
	}
	if len(rule.PerKey) > 0 && rule.Mode != policy.Off && cost > 0 {
		own = append(own, o.hold(keyspace.Of(id, "s"+policy.RouteTag(rule.Name)), policy.ScopeRoute,
			rule.Mode, rule.PerKey, cost))
	}
	denied := slices.ContainsFunc(own, heldLimits.denies)
	for _, h := range own {
		if denied && h.Allowed {
			o.undo(h.name)
		}
	}
	if e.Source == "plan" && len(e.Plan.Candidate) > 0 {
		v.candidate = o.take(keyspace.Of(id, "sk"), e.Plan.Candidate, cost).Allowed
	}
	if denied && cost > 0 && o.bansNow(id) {
		return nil, verdict{banned: o.bans[id].till, candidate: true}
	}
	return own, v
}

// bansNow counts a denial and reports whether it is one too many.
func (o *oracle) bansNow(id string) bool {
	b, name := o.set.Bans, keyspace.Of(id, "sd")
	if b == nil || o.take(name, []limiter.Limit{{Requests: b.Denials - 1, Window: time.Duration(b.Window)}},
		1).Allowed {
		return false
	}
	delete(o.states, name)
	level := 1
	if last := o.bans[id]; o.now.Before(last.forgotten) {
		level += last.level
	}
	length := time.Duration(b.Base)
	for range level - 1 {
		length = min(2*length, time.Duration(b.Cap))
	}
	o.bans[id] = lockout{level, o.now.Add(length), o.now.Add(length + time.Duration(b.Cap))}
	return true
}

// shared are what shared limits say.
func (o *oracle) shared(s *policy.Set, rule policy.Route, address netip.Addr) (others []heldLimits) {
	if rule.Cost == 0 || exempt(s, address) {
		return nil
	}
	network := o.addresses.ID(netip.PrefixFrom(address, address.BitLen()))
	tag := "s" + policy.RouteTag(rule.Name)
	for _, shared := range []struct {
		id, what, scope string
		mode            policy.Mode
		limits          []limiter.Limit
		lease           policy.Duration
	}{
		{network, "sp", policy.ScopeIP, s.PerIP.Mode, s.PerIP.Limits, 0},
		{network, tag, policy.ScopeRouteIP, rule.Mode, rule.PerIP, 0},
		{"global", "s", policy.ScopeGlobal, s.Global.Mode, s.Global.Limits, s.Global.Lease},
		{policy.RouteID(rule.Name), "s", policy.ScopeRouteAll, rule.Mode, rule.Shared, rule.SharedLease},
	} {
		if len(shared.limits) == 0 || shared.mode == policy.Off {
			continue
		}
		name := keyspace.Of(shared.id, shared.what)
		limits := lengthened(shared.limits, o.longer(shared.id, shared.lease))
		h := heldLimits{name: name, scope: shared.scope, mode: policy.OrEnforce(shared.mode), cost: rule.Cost}
		if shared.lease > 0 {
			h.Decision, h.lease = o.lease(shared.id, name, limits, time.Duration(shared.lease), rule.Cost)
		} else {
			h = o.hold(name, shared.scope, shared.mode, limits, rule.Cost)
			o.shortened(h.Limits, shared.id, shared.lease)
		}
		for i := range h.Limits {
			h.Limits[i].Limit = shared.limits[i]
		}
		others = append(others, h)
	}
	return others
}

// opened reports whether a list of routes, when there is one, has the path.
func opened(list []route.Pattern, path string) bool {
	return len(list) == 0 || slices.ContainsFunc(list, func(p route.Pattern) bool { return p.Path == path })
}

// groupOf is the group whose limits a key falls under; zero for none.
func (o *oracle) groupOf(id string) keyGroup {
	k := o.keys[id]
	p, _ := o.set.Plan(k.Plan)
	if k.Group == "" || len(p.PerGroup) == 0 || p.Mode == policy.Off {
		return keyGroup{}
	}
	return keyGroup{k.Group, p.Number}
}

// group is what the limits on a group say.
func (o *oracle) group(g keyGroup, rule policy.Route) []heldLimits {
	if g == (keyGroup{}) {
		return nil
	}
	p, _ := o.set.PlanByNumber(g.plan)
	name := keyspace.Of("group-"+policy.RouteTag(g.name), fmt.Sprintf("s%d", g.plan))
	o.met["limits on a group"]++
	return []heldLimits{o.hold(name, "group", p.Mode, p.PerGroup, rule.Cost)}
}

// ruleOf finds the one route of a path, or what holds without.
func ruleOf(s *policy.Set, path string) policy.Route {
	for _, r := range s.Routes {
		if r.Pattern.Path == path {
			return r
		}
	}
	return policy.Route{Cost: 1}
}

// virtualServer stands between the shipped scripts and the server: TIME is what the test
// put under the name clock, and keys expire by it, since virtual time runs ahead of the
// server's.
const virtualServer = `local server = redis
local clock = tonumber(server.call('GET', 'clock'))
local redis = {error_reply = server.error_reply, call = function(command, ...)
  local words = {...}
  if command == 'TIME' then
    return {string.format('%.0f', math.floor(clock / 1000000)), string.format('%.0f', clock % 1000000)}
  end
  local life, note = nil, 'expiry:' .. words[1]
  local expiry = server.call('GET', note)
  if expiry and clock >= tonumber(expiry) then
    server.call('DEL', words[1], note)
  end
  if command == 'PTTL' and expiry then
    return math.ceil((tonumber(expiry) - clock) / 1000)
  elseif command == 'SET' and words[3] == 'PX' then
    life, words[4] = words[4], '600000'
  elseif command == 'PEXPIRE' then
    life, words[2] = words[2], '600000'
  end
  if life then
    server.call('SET', note, string.format('%.0f', clock + life * 1000))
  end
  return server.call(command, unpack(words))
end}
`

// onVirtualTime puts the scripts of checks behind virtualServer.
func onVirtualTime(t *testing.T) {
	t.Helper()
	for _, s := range []**lua.Script{&checkScript, &wideScript, &stepScript, &leaseScript, &settleScript,
		&chargeScript} {
		shipped := *s
		*s = lua.New(func() string { return virtualServer + shipped.Text() })
		t.Cleanup(func() { *s = shipped })
	}
}

// setClock sets the virtual time.
func (w *world) setClock(t tester, now time.Time) {
	t.Helper()
	set := w.client.B().Set().Key("clock").Value(strconv.FormatInt(now.UnixMicro(), 10)).Build()
	if err := w.client.Do(t.Context(), set).Error(); err != nil {
		t.Fatal(err)
	}
}

// tester is what testing.T and rapid.T have in common.
type tester interface {
	Helper()
	Context() context.Context
	Fatal(args ...any)
}

// names of the states, in order.
func (o *oracle) names() []string { return slices.Sorted(maps.Keys(o.states)) }
