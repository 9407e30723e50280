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

	"tidegate/internal/apikey"
	"tidegate/internal/limiter"
	"tidegate/internal/lua"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/store/keyspace"
)

// oracle returns the result that a Checker must return. It has a limiter.Model for each
// state, and combines their decisions in Go. Its clock does not advance during a check.
type oracle struct {
	set      *policy.Set // in force
	keys     map[string]policy.Key
	states   map[string]*modelState
	subjects apikey.Key
	now      time.Time
	env      int                    // index of the checking environment
	skew     []time.Duration        // by environment: how far its clock is ahead of now
	recent   map[string]allowedCall // by environment, caller and route
	cases    map[string]int         // how often rare cases were met
}

// modelState models a state by the steps made on it, so that the last one can be undone.
type modelState struct {
	steps  []limiter.Step
	limits []limiter.Limit // of the last step
}

func newOracle(w *world) *oracle {
	return &oracle{
		keys: map[string]policy.Key{}, states: map[string]*modelState{},
		subjects: w.checker.subjects,
		now:      time.Unix(1_800_000_000, 0),
		recent:   map[string]allowedCall{}, cases: map[string]int{},
	}
}

func (r *modelState) model() *limiter.Model {
	var m limiter.Model
	for _, step := range r.steps {
		m.Step(step)
	}
	return &m
}

// state returns the state with this name, and sets its limits.
func (o *oracle) state(name string, limits []limiter.Limit) *modelState {
	if o.states[name] == nil {
		o.states[name] = &modelState{}
	}
	o.states[name].limits = limits
	return o.states[name]
}

// take makes a step on a state. Cost 0 takes nothing. A cost below 0 gives back what was
// taken now; spared masks the shadow limits that gave nothing.
func (o *oracle) take(name string, limits []limiter.Limit, cost int64, spared ...byte) limiter.Decision {
	step := limiter.Step{Now: o.now, Limits: limits, Cost: cost}
	if cost < 0 {
		step.Calls, step.Taken, step.Spared = 1, o.now, spared[0]
	}
	return o.step(name, step)
}

func (o *oracle) step(name string, step limiter.Step) limiter.Decision {
	state := o.state(name, step.Limits)
	if step.Cost < 0 && len(state.steps) > 0 { // an override counts what it gives back too
		step.Counted = state.steps[len(state.steps)-1].Counted
	}
	m := state.model()
	state.steps = append(state.steps, step)
	return m.Step(step)
}

func (o *oracle) undo(name string) {
	steps := o.states[name].steps
	o.states[name].steps = steps[:len(steps)-1]
}

// stateDecision is the decision of one state about a call.
type stateDecision struct {
	name  string
	scope string
	mode  policy.Mode
	cost  int64
	limiter.Decision
}

// denies reports whether the decision denies the call.
func (h stateDecision) denies() bool { return h.mode == policy.Enforce && !h.Allowed }

// decide takes a cost from a state and returns the decision.
func (o *oracle) decide(name, scope string, mode policy.Mode, limits []limiter.Limit,
	cost int64) stateDecision {
	return stateDecision{name, scope, policy.OrEnforce(mode), cost, o.take(name, limits, cost)}
}

// giveBack returns the cost of a denied call to the states that gave it.
func (o *oracle) giveBack(all []stateDecision) {
	for _, h := range all {
		if h.Allowed && h.cost > 0 {
			o.take(h.name, o.states[h.name].limits, -h.cost, limiter.Exceeded(h.Limits))
		}
	}
}

// reportedLimits returns the limits as a Result reports them. givenBack means that the
// costs were given back.
func reportedLimits(all []stateDecision, givenBack bool) []LimitState {
	var limits []LimitState
	for _, h := range all {
		for _, u := range h.Limits {
			if givenBack && h.Allowed && !u.Exceeded() {
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

// verdict is the result that a Check must return.
type verdict struct {
	unknown, refused    bool
	allowed, wouldAllow bool
	banned              time.Time
	limits              []LimitState
}

func (v verdict) String() string {
	words := []string{fmt.Sprintf("unknown %t, refused %t, allowed %t, would %t",
		v.unknown, v.refused, v.allowed, v.wouldAllow)}
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

// check predicts Checker.Check for a call with an API key. Shared limits are checked if
// the caller's own limits allow the call. They are also checked if the caller was allowed
// here lately and no access list applies (lists is false).
func (o *oracle) check(id string, address netip.Addr, path string, lists bool) verdict {
	rule := ruleOf(o.set, path)
	free := rule.Cost == 0 || exempt(o.set, address)
	early := !free && !lists && o.allowedLately(id, rule)
	own, v := o.own(id, path, rule, free)
	mayCall := !v.unknown && !v.refused && v.banned.IsZero()
	v.allowed = mayCall && (free || !slices.ContainsFunc(own, stateDecision.denies))
	var others []stateDecision
	switch last := o.recent[o.recentKeys(id, rule)[0]].group; {
	case !free && v.allowed:
		group := o.groupOf(id)
		others = o.shared(o.set, rule, address)
		if early && last != group {
			o.giveBack(o.group(last, rule))
			o.cases["a caller who left or joined a group"]++
		}
		if !early || last == group || !slices.ContainsFunc(others, stateDecision.denies) {
			others = append(others, o.group(group, rule)...)
		}
		v.allowed = !slices.ContainsFunc(others, stateDecision.denies)
		if !v.allowed {
			o.giveBack(own)
			o.giveBack(others)
		}
	case early:
		o.giveBack(o.shared(o.set, rule, address))
		o.giveBack(o.group(last, rule))
		o.cases["a caller allowed lately that is denied"]++
	}
	v.wouldAllow = mayCall
	for _, h := range slices.Concat(own, others) {
		v.wouldAllow = v.wouldAllow && h.WouldAllow()
		if h.Allowed && !h.WouldAllow() {
			o.cases["a call above a limit in shadow mode"]++
		}
	}
	if free && v.allowed {
		v.wouldAllow = true
	}
	o.learn(id, rule, own, v, free)
	v.limits = append(reportedLimits(own, !v.allowed), reportedLimits(others, !v.allowed)...)
	return v
}

// allowedCall is what an environment remembers of a caller's last call, which was
// allowed.
type allowedCall struct {
	version   int64
	at, until time.Time // by the environment's clock
	left      int64     // least that remained of the enforced limits
	group     keyGroup
}

// allowedLately reports whether the caller is expected to pass its own limits.
func (o *oracle) allowedLately(id string, rule policy.Route) bool {
	clock := o.now.Add(o.skew[o.env])
	for _, name := range o.recentKeys(id, rule) {
		c, found := o.recent[name]
		if !found || c.version != o.set.Version || clock.Sub(c.at) >= 10*time.Second ||
			!clock.Before(c.until) || c.left < rule.Cost {
			return false
		}
	}
	o.cases["a caller allowed lately"]++
	return true
}

// recentKeys returns the keys of recent for a call: that of the caller's own limits, and
// that of the route's limits on it, if any.
func (o *oracle) recentKeys(id string, rule policy.Route) []string {
	names := []string{fmt.Sprintf("%d %s", o.env, id)}
	if len(rule.PerKey) > 0 {
		names = append(names, names[0]+" "+rule.Name)
	}
	return names
}

// learn records a call for the caller's next call in this environment.
func (o *oracle) learn(id string, rule policy.Route, own []stateDecision, v verdict, free bool) {
	clock, k := o.now.Add(o.skew[o.env]), o.keys[id]
	for i, name := range o.recentKeys(id, rule) {
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
		if override, _ := o.set.OverrideOf(k, o.now); override != nil {
			ends = append(ends, override.Until)
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

// own predicts the caller's own step: access, bans, and the caller's own limits, which
// are taken all or none.
func (o *oracle) own(id, path string, rule policy.Route, free bool) (own []stateDecision, v verdict) {
	k := o.keys[id]
	if k.Status != policy.Active || !k.Expires.IsZero() && !o.now.Before(k.Expires) {
		v.unknown = true
		return nil, v
	}
	if v.refused = !opens(k.Allow, path); v.refused {
		return nil, v
	}
	if v.banned = k.Banned; o.now.Before(v.banned) {
		return nil, v
	}
	v.banned = time.Time{}
	plan, _ := o.set.Plan(k.Plan)
	if v.refused = !opens(plan.Allow, path); v.refused {
		return nil, v
	}
	cost := rule.Cost
	if free {
		cost = 0
	}
	e, _ := o.set.Effective(k, o.now)
	step := limiter.Step{Now: o.now, Limits: e.Limits, Cost: cost}
	if e.Source != "plan" {
		step.Counted = e.Plan.Limits // the plan's limits go on counting
	}
	if len(step.Limits)+len(step.Counted) > 0 {
		name := keyspace.State(id)
		own = append(own, stateDecision{name, policy.ScopeKey, policy.OrEnforce(e.Mode), cost,
			o.step(name, step)})
	}
	if len(rule.PerKey) > 0 && cost > 0 {
		own = append(own, o.decide(keyspace.Of(id, "s"+policy.RouteTag(rule.Name)), policy.ScopeRoute,
			rule.Mode, rule.PerKey, cost))
	}
	denied := slices.ContainsFunc(own, stateDecision.denies)
	for _, h := range own {
		if denied && h.Allowed {
			o.undo(h.name)
		}
	}
	return own, v
}

// shared returns the decisions of the shared limits that apply to a call, except a
// group's.
func (o *oracle) shared(s *policy.Set, rule policy.Route, address netip.Addr) (others []stateDecision) {
	if rule.Cost == 0 || exempt(s, address) {
		return nil
	}
	network := o.subjects.Network(netip.PrefixFrom(address, address.BitLen()))
	tag := "s" + policy.RouteTag(rule.Name)
	for _, shared := range []struct {
		id, what, scope string
		mode            policy.Mode
		limits          []limiter.Limit
	}{
		{network, "sp", policy.ScopeIP, s.PerIP.Mode, s.PerIP.Limits},
		{network, tag, policy.ScopeRouteIP, rule.Mode, rule.PerIP},
		{"global", "s", policy.ScopeGlobal, s.Global.Mode, s.Global.Limits},
		{policy.RouteID(rule.Name), "s", policy.ScopeRouteAll, rule.Mode, rule.Shared},
	} {
		if len(shared.limits) == 0 {
			continue
		}
		name := keyspace.Of(shared.id, shared.what)
		others = append(others, o.decide(name, shared.scope, shared.mode, shared.limits, rule.Cost))
	}
	return others
}

// leastRemaining returns the least that remains of the limits that are not in shadow
// mode.
func leastRemaining(limits []limiter.Usage) int64 {
	least := int64(1 << 40)
	for _, u := range limits {
		if !u.Limit.Shadow {
			least = min(least, u.Remaining)
		}
	}
	return least
}

// opens reports whether a list of routes is empty or has the path.
func opens(list []route.Pattern, path string) bool {
	return len(list) == 0 || slices.ContainsFunc(list, func(p route.Pattern) bool { return p.Path == path })
}

// groupOf returns the group whose limits apply to a key; zero for none.
func (o *oracle) groupOf(id string) keyGroup {
	k := o.keys[id]
	p, _ := o.set.Plan(k.Plan)
	if k.Group == "" || len(p.PerGroup) == 0 {
		return keyGroup{}
	}
	return keyGroup{k.Group, p.Number}
}

// group returns the decision of the limits on a group; none for the zero group.
func (o *oracle) group(g keyGroup, rule policy.Route) []stateDecision {
	if g == (keyGroup{}) {
		return nil
	}
	p, _ := o.set.PlanByNumber(g.plan)
	name := keyspace.Of("group-"+policy.RouteTag(g.name), fmt.Sprintf("s%d", g.plan))
	o.cases["limits on a group"]++
	return []stateDecision{o.decide(name, "group", p.Mode, p.PerGroup, rule.Cost)}
}

// ruleOf returns the route of a path, or the fallback for calls that match none.
func ruleOf(s *policy.Set, path string) policy.Route {
	for _, r := range s.Routes {
		if r.Pattern.Path == path {
			return r
		}
	}
	return policy.Route{Cost: 1}
}

// virtualServer precedes the scripts and replaces redis.call. TIME returns the value of
// the key "clock", in microseconds since 1970, and keys expire by it. Virtual time runs
// ahead of the server's.
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
    if words[3] == 'GT' and expiry then life = math.max(life, (tonumber(expiry) - clock) / 1000) end
  end
  if life then
    server.call('SET', note, string.format('%.0f', clock + life * 1000))
  end
  return server.call(command, unpack(words))
end}
`

// onVirtualTime makes all scripts run behind virtualServer until the test ends.
func onVirtualTime(t *testing.T) {
	t.Helper()
	for _, s := range []**lua.Script{&checkScript, &wideScript, &stepScript, &settleScript, &chargeScript} {
		shipped := *s
		*s = lua.New(func() string { return virtualServer + shipped.Text() })
		t.Cleanup(func() { *s = shipped })
	}
}

// setClock sets the time of virtualServer.
func (w *world) setClock(t tester, now time.Time) {
	t.Helper()
	set := w.client.B().Set().Key("clock").Value(strconv.FormatInt(now.UnixMicro(), 10)).Build()
	if err := w.client.Do(t.Context(), set).Error(); err != nil {
		t.Fatal(err)
	}
}

// tester has the methods of testing.T and rapid.T that setClock needs.
type tester interface {
	Helper()
	Context() context.Context
	Fatal(args ...any)
}

// stateNames returns the names of all states, sorted.
func (o *oracle) stateNames() []string { return slices.Sorted(maps.Keys(o.states)) }
