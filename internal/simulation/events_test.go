package simulation

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/registrytest"
)

// caller is an API key, and what its limits admitted.
type caller struct {
	ledger
	reports  ledger // of the calls to reports
	key      policy.Key
	secret   string
	plan     int
	override *override // nil for none
	revoked  bool
	banned   time.Time
}

// override replaces limits of a caller, or of all in the group.
type override struct {
	limits []bound
	until  time.Time
}

// plan has the limits of a plan in force.
type plan struct{ limits, perGroup []bound }

// rule is the route rule of reports.
type rule struct {
	cost, most         int64 // of a call, now and ever
	perKey, perIP, all []bound
}

// target is what a call asks for, and from where.
type target struct {
	path    string
	address netip.Addr
}

var planNames = [...]string{"free", "pro"}

// groupOf names the ledger of a plan's limits per group.
func groupOf(group string, plan int) string { return fmt.Sprint("group ", group, plan) }

var addresses = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")}

const (
	everybody = "everybody"
	group     = "team"
	orders    = "/orders"
	reports   = "/reports" // has a route rule
)

// event plays one event.
func (w *world) event() {
	switch n := w.IntN(100); {
	case n < 46:
		w.call()
	case n < 53:
		w.burst(w.drawCall())
	case n < 54:
		w.flood()
	case n < 68:
		w.rest()
	case n < 73:
		w.savePlan()
	case n < 77:
		w.editOverride()
	case n < 80:
		w.editDuringBurst()
	case n < 83:
		w.editKey(w.drawCaller())
	case n < 85:
		w.stranger()
	case n < 88:
		w.envs[w.IntN(len(w.envs))] = w.newEnvironment()
		w.note("an environment ends, another begins")
	case n < 92:
		w.disturb()
	case n < 95:
		w.replicate(w.IntN(shards))
	case n < 97:
		w.failOver(w.IntN(shards))
	case n < 98 && w.IntN(3) == 0:
		w.lose()
	case w.IntN(4) == 0:
		w.stepClock()
	}
}

// setUp saves a plan and creates callers.
func (w *world) setUp() {
	w.rule.most = 1 + w.Int64N(3)
	subjects := apikey.NewKey(pepper)
	for _, a := range addresses {
		id := subjects.Network(netip.PrefixFrom(a, a.BitLen()))
		shard := shardOf(keyspace.BucketOf(id))
		w.shared[a.String()], w.shared[reports+a.String()] = &ledger{shard: shard}, &ledger{shard: shard}
	}
	w.shared[everybody] = &ledger{shard: shardOf(keyspace.BucketOf(policy.GlobalID))}
	w.shared[reports] = &ledger{shard: shardOf(keyspace.BucketOf(policy.RouteID(reports)))}
	for i := range w.plans {
		w.shared[groupOf(group, i)] = &ledger{shard: shardOf(keyspace.BucketOf(policy.GroupID(group)))}
		w.shared[groupOf("", i)] = &ledger{}
	}
	w.savePlan()
	for i := range 3 {
		value := fmt.Sprint("the-value-of-caller-", i) // made by hand, since a generated one is random
		k, _, err := w.store.Create(w.Context(),
			policy.NewKey{Name: fmt.Sprint("caller ", i), Env: "test", Plan: planNames[0], Group: group,
				Value: value}, byHand)
		if err != nil {
			w.Fatal(err)
		}
		c := &caller{key: k, secret: value}
		c.shard = shardOf(keyspace.BucketOf(k.ID))
		c.reports.shard = c.shard
		w.callers = append(w.callers, c)
	}
	for shard := range shards {
		w.replicate(shard)
	}
}

func (w *world) ledgers() []*ledger {
	var all []*ledger
	for _, c := range w.callers {
		all = append(all, &c.ledger, &c.reports)
	}
	for _, l := range w.shared {
		all = append(all, l)
	}
	return all
}

// limits draws 1 or 2 limits. All are logs, whose every decision follows from the list of
// calls.
func (w *world) limits(least, shadows int) (limits []limiter.Limit, bounds []bound) {
	for range 1 + w.IntN(2) {
		l := limiter.Limit{Requests: max(w.rule.most, int64(least+w.IntN(12))), Shadow: w.IntN(4) < shadows,
			Calls:  w.IntN(4) == 0,
			Window: []time.Duration{time.Second, 5 * time.Second, time.Minute, 10 * time.Minute}[w.IntN(4)]}
		limits = append(limits, l)
		bounds = append(bounds, bound{requests: l.Requests, window: l.Window, calls: l.Calls,
			shadow: l.Shadow})
	}
	return limits, bounds
}

// savePlan saves limits of the plan, of each address and of all calls.
func (w *world) savePlan() {
	set, err := w.store.Set(w.Context())
	if err != nil {
		set = &policy.Set{}
	}
	next := *set
	if len(next.Plans) == 0 {
		next.Plans = []policy.Plan{{Name: planNames[0]}, {Name: planNames[1]}}
	}
	next.Plans = slices.Clone(next.Plans)
	for i := range next.Plans {
		p := &next.Plans[i]
		p.Degraded = []policy.Degraded{policy.Open, policy.Closed}[w.IntN(2)]
		p.Limits, w.plans[i].limits = w.limits(1, 1)
		p.PerGroup, w.plans[i].perGroup = w.limits(4, 1)
		w.note("%s: %v, per group %v", p.Name, p.Limits, p.PerGroup)
	}
	next.PerIP.Limits, w.perIP = w.limits(5, 0)
	next.Global.Limits, w.global = w.limits(8, 0)
	r := policy.Route{Name: reports, Pattern: route.Pattern{Path: reports}, Cost: 1 + w.Int64N(w.rule.most)}
	w.rule.cost = r.Cost
	r.PerKey, w.rule.perKey = w.limits(3, 1)
	r.PerIP, w.rule.perIP = w.limits(4, 0)
	r.Shared, w.rule.all = w.limits(5, 1)
	next.Routes = []policy.Route{r}
	if _, err := w.store.SaveSet(w.Context(), next, byHand); err != nil {
		w.fail("save: %v", err)
	}
	w.note("saved plans, per address %v, all %v, %s %+v", next.PerIP.Limits,
		next.Global.Limits, reports, w.rule)
	w.edited = w.now
}

// editOverride sets or ends an override of a caller or of the group.
func (w *world) editOverride() {
	c := w.drawCaller()
	if w.IntN(3) > 0 || c.key.Group == "" {
		w.overrideKey(c)
		return
	}
	w.overrideGroup(w.drawOverride(w.team))
}

func (w *world) overrideGroup(o *override, stored *policy.Override) {
	err := w.store.OverrideGroup(w.Context(), group, stored, byHand)
	ended := stored == nil && w.teamEnded() && errors.Is(err, policy.ErrNotFound)
	if err != nil && !ended {
		w.fail("override of the group: %v", err)
	}
	w.team, w.edited = o, w.now
	w.note("group: override %+v", stored)
}

// teamEnded reports whether an override of the group ended by itself.
func (w *world) teamEnded() bool { return w.team != nil && !w.now.Before(w.team.until) }

func (w *world) overrideKey(c *caller) {
	var o *policy.Override
	c.override, o = w.drawOverride(c.override)
	w.update(c, audit.KeyEdit, func(k *policy.Key) { k.Override = o })
	w.note("%s: override %+v", c.key.Name, o)
}

// drawOverride draws what replaces an override: another one, or nothing.
func (w *world) drawOverride(before *override) (*override, *policy.Override) {
	if before != nil && w.IntN(3) == 0 {
		return nil, nil
	}
	limits, bounds := w.limits(1, 1)
	o := &override{bounds, w.now.Add(2 * hours)}
	stored := &policy.Override{Limits: limits, Reason: "simulation"}
	if w.IntN(2) == 0 {
		o.until = w.now.Add(time.Duration(1+w.IntN(300)) * time.Second)
		stored.Until = o.until.Add(w.ahead)
	}
	return o, stored
}

// editDuringBurst edits what limits a caller who calls before and after, while another
// caller goes on calling.
func (w *world) editDuringBurst() {
	c, e, t := w.drawCall()
	w.burst(c, e, t)
	switch w.IntN(3) {
	case 0:
		w.savePlan()
	case 1:
		w.overrideKey(c)
	default:
		w.editKey(c)
	}
	w.pass(denyCache)
	w.burst(w.drawCaller(), e, t)
	w.burst(c, e, t)
}

// editKey moves a key to the other plan, or into or out of the group, resets its counts,
// or blocks it.
func (w *world) editKey(c *caller) {
	switch w.IntN(6) {
	case 0:
		c.plan = 1 - c.plan
		w.update(c, audit.KeyEdit, func(k *policy.Key) { k.Plan = planNames[c.plan] })
		w.note("%s: %s", c.key.Name, c.key.Plan)
	case 1:
		w.update(c, audit.KeyEdit, func(k *policy.Key) {
			if k.Group = group; c.key.Group == group {
				k.Group = ""
			}
		})
		w.note("%s: group %q", c.key.Name, c.key.Group)
	case 2:
		w.reset(c)
	default:
		w.block(c)
	}
}

// reset deletes what a key's own limits count. The replica has it until it catches up,
// with the calls that perhaps count.
func (w *world) reset(c *caller) {
	k, err := w.store.Reset(w.Context(), c.key.ID, byHand)
	if err != nil {
		w.fail("reset: %v", err)
	}
	for _, l := range []*ledger{&c.ledger, &c.reports} {
		l.calls, l.known = nil, nil
	}
	c.key, w.edited = k, w.now
	w.note("%s: reset", c.key.Name)
}

// block revokes or bans a key, or takes that back.
func (w *world) block(c *caller) {
	for _, other := range w.callers {
		if other.revoked { // at most one, so that most calls say something
			c = other
		}
	}
	if !c.revoked && w.IntN(2) == 0 {
		c.banned = w.now.Add(time.Duration(w.IntN(300)) * time.Second)
		w.update(c, audit.KeyBan, func(k *policy.Key) { k.Banned = c.banned.Add(w.ahead) })
		w.note("%s: banned until %s", c.key.Name, c.banned.UTC().Format("15:04:05.000000"))
		return
	}
	c.revoked = !c.revoked
	action, status := audit.KeyEdit, policy.Active
	if c.revoked {
		action, status = audit.KeyRevoke, policy.Revoked
	}
	w.update(c, action, func(k *policy.Key) { k.Status = status })
	w.note("%s: revoked %t", c.key.Name, c.revoked)
}

func (w *world) update(c *caller, action string, change func(*policy.Key)) {
	k, err := w.store.Update(w.Context(), c.key.ID, c.key.Version, action, byHand, change)
	if err != nil {
		w.fail("update: %v", err)
	}
	c.key, w.edited = k, w.now
}

// disturb changes the state of the connections to Valkey.
func (w *world) disturb() {
	for shard := range w.link.down {
		w.link.down[shard] = w.IntN(5) == 0
	}
	w.link.shaky = w.IntN(3) == 0
	w.note("shards down %v, shaky %t", w.link.down, w.link.shaky)
}

// rest lets time pass: less than the deny cache, or more than any window.
func (w *world) rest() {
	rests := []time.Duration{time.Millisecond, denyCache, time.Second, 10 * time.Second, time.Minute,
		10 * time.Minute}
	d := rests[w.IntN(len(rests))]
	w.freeze(time.Duration(w.Int64N(int64(d) + 1)).Truncate(time.Microsecond))
}

// stepClock steps the server's clock, forward or back. A caller goes on calling.
func (w *world) stepClock() {
	most := []time.Duration{time.Second, 10 * time.Minute}[w.IntN(2)]
	by := (time.Duration(w.Int64N(int64(2*most))) - most).Truncate(time.Microsecond)
	c, e, t := w.drawCall()
	w.burst(c, e, t)
	if w.teamEnded() { // environments that saw its end keep to it
		registrytest.Save(w, w.store, byHand, func(*policy.Set) {})
		w.team = nil
	}
	w.ahead, w.late = w.ahead+by, w.late || by < 0
	w.edited = w.now
	w.setClock()
	for _, key := range w.server.Keys() { // Valkey keeps when a key expires
		if life := w.server.TTL(key); life > by && life > 0 {
			w.server.SetTTL(key, life-by)
		} else if life > 0 {
			w.server.Del(key)
		}
	}
	for _, l := range w.ledgers() {
		if by > 0 {
			l.age(by)
		} else {
			l.delay(-by)
		}
	}
	overrides := []*override{w.team}
	for _, c := range w.callers { // bans and overrides end by the server's clock
		c.banned = c.banned.Add(-by)
		overrides = append(overrides, c.override)
	}
	for _, o := range overrides {
		if o != nil {
			o.until = o.until.Add(-by)
		}
	}
	w.note("the server's clock steps by %s", by)
	w.pass(denyCache)
	w.burst(c, e, t)
	if a := w.callAs(c, e, t); a.status == http.StatusTooManyRequests && !a.degraded {
		w.obey(c, e, t, a)
	}
}

// stranger calls with values that are no keys.
func (w *world) stranger() {
	w.touched = nil
	for _, secret := range []string{"the-value-of-somebody-else", "", "tg_test_nothing"} {
		a := w.send(w.envs[w.IntN(len(w.envs))], secret, target{orders, addresses[0]})
		if a.status == http.StatusOK {
			w.fail("a stranger is admitted")
		}
	}
}

func (w *world) burst(c *caller, e *environment, t target) {
	for range 5 + w.IntN(15) {
		w.callAs(c, e, t)
	}
}

// flood makes calls of all callers, from all addresses and through two environments, of
// which one was frozen meanwhile.
func (w *world) flood() {
	thawed, other := w.envs[w.IntN(len(w.envs))], w.envs[w.IntN(len(w.envs))]
	for _, e := range []*environment{thawed, other, thawed} {
		for range 2 {
			for _, address := range addresses {
				for _, c := range w.callers {
					w.callAs(c, e, target{orders, address})
				}
			}
		}
		d := time.Duration(w.Int64N(int64(w.global[0].window))).Truncate(time.Microsecond)
		thawed.frozen += d
		w.pass(d)
	}
}

func (w *world) call() {
	c, e, t := w.drawCall()
	a := w.callAs(c, e, t)
	if a.status == http.StatusTooManyRequests && !a.degraded && !w.empty && w.IntN(4) == 0 {
		w.obey(c, e, t, a)
	}
}

func (w *world) drawCaller() *caller { return w.callers[w.IntN(len(w.callers))] }

func (w *world) drawCall() (*caller, *environment, target) {
	return w.drawCaller(), w.envs[w.IntN(len(w.envs))],
		target{[]string{orders, orders, reports}[w.IntN(3)], addresses[w.IntN(len(addresses))]}
}
