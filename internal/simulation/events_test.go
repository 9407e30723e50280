package simulation

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"tidegate/internal/changes"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/testing/registrytest"
)

// caller is an API key.
type caller struct {
	key      policy.Key
	secret   string
	plan     int
	override *override // nil for none
	revoked  bool
	banned   time.Time
}

// override replaces limits of a caller, or of all in the group.
type override struct {
	limits []limits.Limit
	until  time.Time
}

// target is what a call asks for, under which route, and from where.
type target struct {
	path, route string
	address     netip.Addr
}

var planNames = [...]string{"free", "pro"}

var addresses = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")}

const (
	group   = "team"
	reports = "reports" // a route that costs more, and is settled
	items   = "items"   // a route with a parameter
)

// targets are the paths of calls with their routes.
var targets = [...]target{{path: "/orders"}, {path: "/orders"}, {path: "/reports", route: reports},
	{path: "/reports", route: reports}, {path: "/items/a", route: items}, {path: "/items/b", route: items}}

// event plays one event.
func (w *world) event() {
	switch n := w.IntN(100); {
	case n < 46:
		w.call()
	case n < 53:
		w.burst(w.drawCall())
	case n < 54:
		w.flood()
	case n < 58:
		w.settle()
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
	case n < 98 && w.IntN(2) == 0:
		w.minute()
	case n < 98 && w.IntN(3) == 0:
		w.lose()
	case w.IntN(4) == 0:
		w.stepClock()
	}
}

// setUp saves a plan and creates callers.
func (w *world) setUp() {
	w.most = 1 + w.Int64N(3)
	w.savePlan()
	for i := range 3 {
		value := fmt.Sprint("the-value-of-caller-", i) // made by hand, since a generated one is random
		k, _, err := w.store.Create(w.Context(),
			policy.NewKey{Name: fmt.Sprint("caller ", i), Env: "test", Plan: planNames[0], Group: group,
				Value: value}, byHand)
		if err != nil {
			w.Fatal(err)
		}
		w.callers = append(w.callers, &caller{key: k, secret: value})
	}
	for shard := range shards {
		w.replicate(shard)
	}
}

// limits draws up to n limits with these marks. All are logs, whose every decision follows
// from the list of calls.
func (w *world) limits(list []limits.Limit, n, least int, marks string) []limits.Limit {
	for range w.IntN(n + 1) {
		text := fmt.Sprintf("%d%s per %s%s%s", max(w.most, int64(least+w.IntN(12))),
			[]string{"", "", "", " calls"}[w.IntN(4)],
			[]string{"second", "5 seconds", "minute", "10 minutes"}[w.IntN(4)], marks,
			[]string{"", "", "", "", "", ", shadow"}[w.IntN(6)])
		l, err := limits.Parse(text)
		if err != nil {
			w.fail("%s: %v", text, err)
		}
		if !slices.ContainsFunc(list, l.Equal) {
			list = append(list, l)
		}
	}
	return list
}

// savePlan saves limits of plans and of all callers, and what reports cost. A set that
// cannot be saved is drawn again.
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
		p.Limits = w.limits(nil, 2, 1, "")
		p.Limits = w.limits(p.Limits, 1, 2, ", on reports")
		p.Limits = w.limits(p.Limits, 1, 2, ", on items, each caller and {item}")
		p.Limits = w.limits(p.Limits, 1, 4, ", each group")
		p.Limits = w.limits(p.Limits, 1, 8, ", together")
	}
	next.Limits = w.limits(nil, 1, 5, ", each address")
	next.Limits = w.limits(next.Limits, 1, 8, ", together")
	next.Limits = w.limits(next.Limits, 1, 3, ", on reports, each caller")
	next.Limits = w.limits(next.Limits, 1, 4, ", on reports, each address")
	next.Limits = w.limits(next.Limits, 1, 5, ", on reports, together")
	next.Limits = w.limits(next.Limits, 1, 4, ", on items, each {item}")
	cost := 1 + w.Int64N(w.most)
	route := registrytest.Route(reports, cost, "/reports")
	route.Settle = true
	next.Routes = []limits.Route{route, registrytest.Route(items, 1, "/items/{item}")}
	for i, old := range set.Routes {
		next.Routes[i].ID = old.ID
	}
	if _, err := w.store.SaveSet(w.Context(), next, byHand); invalid(err) {
		w.savePlan()
		return
	} else if err != nil {
		w.fail("save: %v", err)
	}
	w.cost, w.policy, w.edited = cost, next.Limits, w.now
	w.dearest = max(w.dearest, cost)
	for i, p := range next.Plans {
		w.plans[i] = p.Limits
		w.note("%s: %v", p.Name, p.Limits)
	}
	w.note("policy: %v, reports cost %d", w.policy, cost)
}

// invalid reports whether an edit was refused, because a call would take from too many
// counts.
func invalid(err error) bool {
	_, found := errors.AsType[*policy.InvalidError](err)
	return found
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
	_, err := w.store.OverrideGroup(w.Context(), group, stored, byHand)
	ended := stored == nil && w.teamEnded() && errors.Is(err, policy.ErrNotFound)
	if invalid(err) {
		return
	}
	if err != nil && !ended {
		w.fail("override of the group: %v", err)
	}
	w.team, w.edited = o, w.now
	w.note("group: override %+v", stored)
}

// teamEnded reports whether an override of the group ended by itself.
func (w *world) teamEnded() bool { return w.team != nil && !w.now.Before(w.team.until) }

func (w *world) overrideKey(c *caller) {
	o, stored := w.drawOverride(c.override)
	if w.update(c, registry.KeyEdit, func(k *policy.Key) { k.Override = stored }) {
		c.override = o
		w.note("%s: override %+v", c.key.Name, stored)
	}
}

// drawOverride draws what replaces an override: another one, or nothing.
func (w *world) drawOverride(before *override) (*override, *policy.Override) {
	if before != nil && w.IntN(3) == 0 {
		return nil, nil
	}
	o := &override{w.limits(w.limits(nil, 2, 1, ""), 1, 2, ", on reports"), w.now.Add(2 * hours)}
	if w.IntN(6) == 0 {
		o.limits = append(o.limits, limits.Limit{Lifted: true, On: items, Who: limits.CallerParam,
			Param: "item"})
	}
	stored := &policy.Override{Limits: o.limits, Reason: "simulation"}
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
		if w.update(c, registry.KeyEdit, func(k *policy.Key) { k.Plan = planNames[1-c.plan] }) {
			c.plan = 1 - c.plan
		}
		w.note("%s: %s", c.key.Name, c.key.Plan)
	case 1:
		w.update(c, registry.KeyEdit, func(k *policy.Key) {
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

// reset resets a key: what its own limits counted up to now does not count.
func (w *world) reset(c *caller) {
	k, err := w.store.Reset(w.Context(), c.key.ID, byHand)
	if err != nil {
		w.fail("reset: %v", err)
	}
	for identity, l := range w.counts {
		if strings.HasPrefix(identity, k.ID) {
			l.reset()
		}
	}
	c.key, w.edited, w.highest = k, w.now, later(w.highest, w.serverTime().Add(time.Microsecond))
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
		w.log.gone = w.IntN(3) == 0
		w.update(c, registry.KeyBan, func(k *policy.Key) { k.Banned = c.banned.Add(w.ahead) })
		w.log.gone = false
		w.note("%s: banned until %s", c.key.Name, c.banned.UTC().Format("15:04:05.000000"))
		return
	}
	c.revoked = !c.revoked
	action, status := registry.KeyEdit, policy.Active
	if c.revoked {
		action, status = registry.KeyRevoke, policy.Revoked
		w.log.gone = w.IntN(3) == 0
	}
	w.update(c, action, func(k *policy.Key) { k.Status = status })
	w.log.gone = false
	w.note("%s: revoked %t", c.key.Name, c.revoked)
}

// update edits a key, and reports whether that is valid.
func (w *world) update(c *caller, action string, change func(*policy.Key)) bool {
	k, err := registrytest.Update(w.Context(), w.store, c.key.ID, action, byHand, change)
	if w.log.gone && errors.Is(err, changes.ErrStore) { // it gives rights, such as a shorter ban
		w.log.gone = false
	}
	// Marks of the key are stored first, and a bucket that was behind has an older version.
	for range 2 {
		if !w.log.gone && err != nil {
			k, err = registrytest.Update(w.Context(), w.store, c.key.ID, action, byHand, change)
		}
	}
	if invalid(err) {
		return false
	}
	if w.log.gone && errors.Is(err, registry.ErrNotStored) {
		err = nil
	}
	if err != nil {
		w.fail("update: %v", err)
	}
	c.key, w.edited = k, w.now
	return true
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
	for _, c := range w.callers {
		w.end(c)
	}
	w.ahead, w.edited = w.ahead+by, w.now
	w.setClock()
	for _, key := range w.server.Keys() { // Valkey keeps when a key expires
		if life := w.server.TTL(key); life > by && life > 0 {
			w.server.SetTTL(key, life-by)
		} else if life > 0 {
			w.server.Del(key)
		}
	}
	for _, l := range w.counts {
		l.age(by)
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

// end takes away what ended by itself: environments that saw its end keep to it.
func (w *world) end(c *caller) {
	over := c.override != nil && !w.now.Before(c.override.until)
	w.update(c, registry.KeyEdit, func(k *policy.Key) {
		if over {
			k.Override = nil
		}
		if !w.now.Before(c.banned) {
			k.Banned = time.Time{}
		}
	})
	if over {
		c.override = nil
	}
	if !w.now.Before(c.banned) {
		c.banned = time.Time{}
	}
}

// stranger calls with values that are no keys.
func (w *world) stranger() {
	w.touched = nil
	for _, secret := range []string{"the-value-of-somebody-else", "", "tg_test_nothing"} {
		a := w.send(w.envs[w.IntN(len(w.envs))], secret, target{path: "/orders", address: addresses[0]})
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
					w.callAs(c, e, target{path: "/orders", address: address})
				}
			}
		}
		d := time.Duration(w.Int64N(int64(time.Minute))).Truncate(time.Microsecond)
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
	t := targets[w.IntN(len(targets))]
	t.address = addresses[w.IntN(len(addresses))]
	return w.drawCaller(), w.envs[w.IntN(len(w.envs))], t
}
