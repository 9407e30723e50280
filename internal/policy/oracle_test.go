package policy

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

	"tidegate/internal/keyspace"
	"tidegate/internal/limiter"
)

// oracle answers checks as a Checker must: limiter.Models, one for each state, and in plain Go what is decided between them. Its clock stands while a
// check is made.
type oracle struct {
	set       *Set // in force
	keys      map[string]Key
	states    map[string]*replay
	bans      map[string]lockout
	addresses addressKey
	now       time.Time
	env       int // the environment whose check it is
	skew      []time.Duration
	lots      map[string]*modelLot
	met       map[string]int // how often what has to do with leases was met
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
		keys: map[string]Key{}, states: map[string]*replay{}, bans: map[string]lockout{}, addresses: w.checker.addresses,
		now: time.Unix(1_800_000_000, 0), lots: map[string]*modelLot{}, met: map[string]int{},
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

// take makes a step; cost 0 looks, which may carry a state over to other limits, below 0 gives back what was taken now.
func (o *oracle) take(name string, limits []limiter.Limit, cost int64) limiter.Decision {
	state, now := o.state(name, limits), o.now
	step := func(m *limiter.Model) limiter.Decision {
		switch {
		case cost < 0:
			return m.Refund(now, limits, -cost, now)
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
type held struct {
	name  string
	scope string
	mode  Mode
	cost  int64
	limiter.Decision
	lot *modelLot // that it came from
}

// denies tells whether the decision denies the call.
func (h held) denies() bool { return h.mode == Enforce && !h.Allowed }

func (o *oracle) hold(name, scope string, mode Mode, limits []limiter.Limit, cost int64) held {
	return held{name, scope, orEnforce(mode), cost, o.take(name, limits, cost), nil}
}

// giveBack returns to the states what they gave for a call that is denied.
func (o *oracle) giveBack(all []held) {
	for _, h := range all {
		if h.lot != nil {
			h.lot.left += h.cost
		} else if h.Allowed && h.cost > 0 {
			o.take(h.name, o.states[h.name].limits, -h.cost)
		}
	}
}

// restored are the limits as they are told when nothing was taken in the end.
func restored(all []held, given bool) []Applied {
	var limits []Applied
	for _, h := range all {
		for _, u := range h.Limits {
			if given && h.Allowed {
				u.Remaining = min(u.Remaining+h.cost, u.Limit.Requests)
			}
			limits = append(limits, Applied{u, h.scope, h.mode})
		}
	}
	return limits
}

// verdict is what a Check must return.
type verdict struct {
	unknown               bool
	allowed, would, trial bool
	banned                time.Time
	limits                []Applied
}

func (v verdict) String() string {
	words := []string{fmt.Sprintf("unknown %t, allowed %t, would %t, trial %t", v.unknown, v.allowed, v.would, v.trial)}
	if !v.banned.IsZero() {
		words = append(words, "banned until "+v.banned.Format(time.RFC3339Nano))
	}
	for _, l := range v.limits {
		words = append(words, fmt.Sprintf("%s %s %s: %d, reset %s, retry %s", l.Scope, l.Mode, l.Limit, l.Remaining, l.Reset, l.RetryAfter))
	}
	return strings.Join(words, "; ")
}

// check is Checker.Check of a call by an API key.
func (o *oracle) check(id string, address netip.Addr, path string) verdict {
	rule := ruleOf(o.set, path)
	free := rule.Cost == 0 || within(o.set.Exempt, address)
	own, v := o.own(id, rule, free)
	var others []held
	if !free {
		others = o.sides(o.set, rule, address)
	}
	v.allowed = !v.unknown && v.banned.IsZero()
	v.would = v.allowed
	for _, h := range slices.Concat(own, others) {
		v.allowed = v.allowed && !h.denies()
		v.would = v.would && h.Allowed
	}
	ownDenies := slices.ContainsFunc(own, held.denies)
	if !v.allowed && !ownDenies {
		o.giveBack(own)
	}
	if !v.allowed && !free {
		o.giveBack(others)
	}
	if free && !v.unknown && v.banned.IsZero() {
		v.allowed, v.would, v.trial = true, true, true
	}
	v.limits = append(restored(own, !v.allowed), restored(others, !v.allowed)...)
	return v
}

// own is what the caller's own limits say, all or nothing, and its bans.
func (o *oracle) own(id string, rule Route, free bool) (own []held, v verdict) {
	v.trial = true
	k := o.keys[id]
	if k.Status != Active || !k.Expires.IsZero() && !o.now.Before(k.Expires) {
		v.unknown = true
		return nil, v
	}
	if v.banned = k.Banned; o.now.Before(v.banned) {
		return nil, v
	}
	v.banned = time.Time{}
	if lock := o.bans[id]; o.set.Bans != nil && o.now.Before(lock.till) {
		v.banned = lock.till
		return nil, v
	}
	cost := rule.Cost
	if free {
		cost = 0
	}
	e, _ := o.set.Effective(k, o.now)
	if e.Mode != Off {
		own = append(own, o.hold(keyspace.State(id), ScopeKey, e.Mode, e.Limits, cost))
	}
	if len(rule.PerKey) > 0 && rule.Mode != Off && cost > 0 {
		own = append(own, o.hold(keyspace.Of(id, "s"+routeTag(rule.Name)), ScopeRoute, rule.Mode, rule.PerKey, cost))
	}
	denied := slices.ContainsFunc(own, held.denies)
	for _, h := range own {
		if denied && h.Allowed {
			o.undo(h.name)
		}
	}
	if e.Source == "plan" && len(e.Plan.Candidate) > 0 {
		v.trial = o.take(keyspace.Of(id, "sk"), e.Plan.Candidate, cost).Allowed
	}
	if denied && cost > 0 && o.bansNow(id) {
		return nil, verdict{banned: o.bans[id].till, trial: true}
	}
	return own, v
}

// bansNow counts a denial and tells whether it is one too many.
func (o *oracle) bansNow(id string) bool {
	b, name := o.set.Bans, keyspace.Of(id, "sd")
	if b == nil || o.take(name, []limiter.Limit{{Requests: b.Denials - 1, Window: time.Duration(b.Window)}}, 1).Allowed {
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

// sides are what limits on others than the caller say.
func (o *oracle) sides(s *Set, rule Route, address netip.Addr) (others []held) {
	if rule.Cost == 0 || within(s.Exempt, address) {
		return nil
	}
	network := o.addresses.id(netip.PrefixFrom(address, address.BitLen()))
	tag := "s" + routeTag(rule.Name)
	for _, side := range []struct {
		id, what, scope string
		mode            Mode
		limits          []limiter.Limit
		lease           Duration
	}{
		{network, "sp", ScopeIP, s.PerIP.Mode, s.PerIP.Limits, 0},
		{network, tag, ScopeRouteIP, rule.Mode, rule.PerIP, 0},
		{"global", "s", ScopeGlobal, s.Global.Mode, s.Global.Limits, s.Global.Lease},
		{RouteID(rule.Name), "s", ScopeRouteAll, rule.Mode, rule.Shared, rule.SharedLease},
	} {
		if len(side.limits) == 0 || side.mode == Off {
			continue
		}
		name := keyspace.Of(side.id, side.what)
		limits := lengthened(side.limits, o.longer(side.id, side.lease))
		h := held{name: name, scope: side.scope, mode: orEnforce(side.mode), cost: rule.Cost}
		if side.lease > 0 {
			h.Decision, h.lot = o.lease(side.id, name, limits, shortestWindow(side.limits), time.Duration(side.lease), rule.Cost)
		} else {
			h = o.hold(name, side.scope, side.mode, limits, rule.Cost)
			o.lapsing(h.Limits, side.id, side.lease)
		}
		for i := range h.Limits {
			h.Limits[i].Limit = side.limits[i]
		}
		others = append(others, h)
	}
	return others
}

// ruleOf finds the one route of a path, or what holds without.
func ruleOf(s *Set, path string) Route {
	for _, r := range s.Routes {
		if r.Pattern.Path == path {
			return r
		}
	}
	return Route{Cost: 1}
}

// virtualServer stands between the shipped scripts and the server: TIME is what the test put under the name clock, and keys expire by it, since
// virtual time runs ahead of the server's.
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
	for _, s := range []**script{&checkScript, &wideScript, &stepScript, &leaseScript, &settleScript, &chargeScript} {
		shipped := *s
		*s = newScript(func() string { return virtualServer + shipped.text() })
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
