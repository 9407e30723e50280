package simulation

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/enforce/lease"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
)

func init() { lease.MaxPart = 2 } // the limits are small

// caller is an API key, and what its limits admitted.
type caller struct {
	ledger
	key      policy.Key
	secret   string
	override []bound // nil for none
	until    time.Time
	revoked  bool
	banned   time.Time
}

var addresses = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")}

const everybody = "everybody"

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
		w.editOverride(w.drawCaller())
	case n < 80:
		w.editDuringBurst()
	case n < 83:
		w.editKey()
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
	subjects := apikey.NewKey(pepper)
	for _, a := range addresses {
		id := subjects.Network(netip.PrefixFrom(a, a.BitLen()))
		w.shared[a.String()] = &ledger{shard: shardOf(keyspace.BucketOf(id))}
	}
	w.shared[everybody] = &ledger{shard: shardOf(keyspace.BucketOf(policy.GlobalID))}
	w.savePlan()
	for i := range 3 {
		value := fmt.Sprint("the-value-of-caller-", i) // made by hand, since a generated one is random
		k, _, err := w.store.Create(w.Context(),
			policy.NewKey{Name: fmt.Sprint("caller ", i), Env: "test", Plan: "plan", Value: value}, byHand)
		if err != nil {
			w.Fatal(err)
		}
		c := &caller{key: k, secret: value}
		c.shard = shardOf(keyspace.BucketOf(k.ID))
		w.callers = append(w.callers, c)
	}
	for shard := range shards {
		w.replicate(shard)
	}
}

func (w *world) ledgers() []*ledger {
	var all []*ledger
	for _, c := range w.callers {
		all = append(all, &c.ledger)
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
		l := limiter.Limit{Requests: int64(least + w.IntN(12)), Shadow: w.IntN(4) < shadows,
			Window: []time.Duration{time.Second, 5 * time.Second, time.Minute, 10 * time.Minute}[w.IntN(4)]}
		limits = append(limits, l)
		bounds = append(bounds, bound{requests: l.Requests, window: l.Window, shadow: l.Shadow})
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
		next.Plans = []policy.Plan{{Name: "plan"}}
	}
	next.Plans = slices.Clone(next.Plans)
	next.Plans[0].Degraded = []policy.Degraded{policy.Open, policy.Closed}[w.IntN(2)]
	limits, bounds := w.limits(1, 1)
	next.Plans[0].Limits = limits
	w.plan = bounds
	next.PerIP.Limits, w.perIP = w.limits(5, 0)
	next.Global.Limits, w.global = w.limits(8, 0)
	next.Global.Lease = 0
	if w.lease > 0 {
		w.unusedUntil = w.now.Add(30 * time.Minute) // windows are longer by the lease meanwhile
	}
	if w.lease = 0; w.IntN(6) == 0 {
		w.lease = (policy.ShortestWindow(next.Global.Limits) / 5).Truncate(time.Millisecond)
		next.Global.Lease = policy.Duration(w.lease)
	}
	if _, err := w.store.SaveSet(w.Context(), next, byHand); err != nil {
		w.fail("save: %v", err)
	}
	w.note("saved %v, per address %v, all %v, leased for %s", limits, next.PerIP.Limits, next.Global.Limits,
		w.lease)
	w.edited = w.now
}

// forgetLeases records that Valkey no longer knows, or as older, what leases admit.
func (w *world) forgetLeases() {
	if longest := 10 * time.Minute / 5; w.leased() {
		w.blind = w.now.Add(longest)
	}
}

// leased reports whether unused calls of leases may count.
func (w *world) leased() bool { return w.lease > 0 || w.now.Before(w.unusedUntil) }

func (w *world) editOverride(c *caller) {
	var o *policy.Override
	if c.override == nil || w.IntN(3) > 0 {
		limits, bounds := w.limits(1, 1)
		o = &policy.Override{Limits: limits, Reason: "simulation"}
		c.until = w.now.Add(2 * hours)
		if w.IntN(2) == 0 {
			c.until = w.now.Add(time.Duration(1+w.IntN(300)) * time.Second)
			o.Until = c.until.Add(w.ahead)
		}
		c.override = bounds
	} else {
		c.override = nil
	}
	w.update(c, audit.KeyEdit, func(k *policy.Key) { k.Override = o })
	w.note("%s: override %+v", c.key.Name, o)
}

// editDuringBurst edits limits of a caller who calls before and after.
func (w *world) editDuringBurst() {
	c, e, address := w.drawCall()
	w.burst(c, e, address)
	if w.IntN(2) == 0 {
		w.savePlan()
	} else {
		w.editOverride(c)
	}
	w.pass(denyCache)
	w.burst(c, e, address)
}

// editKey revokes or bans a key, or takes that back.
func (w *world) editKey() {
	c := w.drawCaller()
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
	c, e, address := w.drawCall()
	w.burst(c, e, address)
	w.ahead += by
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
	for _, c := range w.callers { // bans, overrides and longer windows end by the server's clock
		c.until, c.banned = c.until.Add(-by), c.banned.Add(-by)
	}
	w.unusedUntil = w.unusedUntil.Add(-by)
	w.forgetLeases()
	w.note("the server's clock steps by %s", by)
	w.pass(denyCache)
	w.burst(c, e, address)
	if a := w.callAs(c, e, address); a.status == http.StatusTooManyRequests && !a.degraded {
		w.obey(c, e, address, a)
	}
}

// stranger calls with values that are no keys.
func (w *world) stranger() {
	w.touched = nil
	for _, secret := range []string{"the-value-of-somebody-else", "", "tg_test_nothing"} {
		if a := w.send(w.envs[w.IntN(len(w.envs))], secret, addresses[0]); a.status == http.StatusOK {
			w.fail("a stranger is admitted")
		}
	}
}

func (w *world) burst(c *caller, e *environment, address netip.Addr) {
	for range 5 + w.IntN(15) {
		w.callAs(c, e, address)
	}
}

// flood makes calls of all callers, from all addresses and through two environments, of
// which one was frozen meanwhile for about as long as a lease.
func (w *world) flood() {
	thawed, other := w.envs[w.IntN(len(w.envs))], w.envs[w.IntN(len(w.envs))]
	for _, e := range []*environment{thawed, other, thawed} {
		for range 2 {
			for _, address := range addresses {
				for _, c := range w.callers {
					w.callAs(c, e, address)
				}
			}
		}
		d := w.lease + time.Duration(w.Int64N(int64(w.global[0].window))).Truncate(time.Microsecond)
		thawed.frozen += d
		w.pass(d)
	}
}

func (w *world) call() {
	c, e, address := w.drawCall()
	a := w.callAs(c, e, address)
	if a.status == http.StatusTooManyRequests && !a.degraded && !w.empty && w.IntN(4) == 0 {
		w.obey(c, e, address, a)
	}
}

func (w *world) drawCaller() *caller { return w.callers[w.IntN(len(w.callers))] }

func (w *world) drawCall() (*caller, *environment, netip.Addr) {
	return w.drawCaller(), w.envs[w.IntN(len(w.envs))], addresses[w.IntN(len(addresses))]
}
