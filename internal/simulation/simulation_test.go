package simulation

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/testing/histories"
)

var seed = flag.Int64("seed", 0, "replay the history of this seed; 0 plays fresh ones")

const (
	hours  = 6 * time.Hour // virtual time of a history
	events = 600           // most events of a history
)

// caller is an API key, and what its limits admitted.
type caller struct {
	ledger
	key      policy.Key
	secret   string
	override []bound // nil for none
	until    time.Time
	revoked  bool
}

// limitsOf returns the limits that decide about the caller's calls, and those that only
// count them.
func (w *world) limitsOf(c *caller) (deciding, counting []bound) {
	if w.overridden(c) {
		return c.override, w.plan
	}
	return w.plan, nil
}

// justChanged reports whether a denial may be one from before a change, repeated.
func (w *world) justChanged() bool { return w.now.Sub(w.edited) <= denyCache }

func (w *world) overridden(c *caller) bool { return c.override != nil && w.now.Before(c.until) }

var addresses = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")}

const everybody = "everybody"

// Nobody gets more than the limits admit in any window, whatever happens: edits,
// overrides, failovers, lost and late replies, environments that begin, rest and end,
// clocks that step. Denials have a reason, and a client that waits for Retry-After is
// admitted. Only callers with a key in force are. Every call gets an answer.
func TestSimulation(t *testing.T) {
	if *seed != 0 {
		play(t, *seed)
		return
	}
	for range histories.N(30) {
		s := rand.Int64()
		t.Run(fmt.Sprint("seed ", s), func(t *testing.T) { play(t, s) })
	}
}

func play(t *testing.T, s int64) {
	t.Helper()
	w := newWorld(t, s)
	start, i := w.now, 0
	for ; i < events && w.now.Sub(start) < hours; i++ {
		w.event()
	}
	t.Logf("%d events in %s: %v", i, w.now.Sub(start), w.answers)
}

// event plays one event.
func (w *world) event() {
	switch n := w.IntN(100); {
	case n < 55:
		w.call()
	case n < 62:
		w.burst()
	case n < 78:
		w.rest()
	case n < 84:
		w.editPlan()
	case n < 88:
		w.editOverride()
	case n < 90:
		w.editKey()
	case n < 92:
		w.stranger()
	case n < 94:
		w.envs[w.IntN(len(w.envs))] = w.newEnvironment()
		w.note("an environment ends, another begins")
	case n < 96:
		w.link.down, w.link.shaky = w.IntN(3) == 0, w.IntN(2) == 0
		w.note("Valkey down %t, shaky %t", w.link.down, w.link.shaky)
	case n < 97:
		w.replicate()
	case n < 98:
		w.failOver()
		w.note("failover, loses everything since %s", w.replicated.UTC().Format("15:04:05.000000"))
	default:
		w.stepClock()
	}
}

// setUp saves a plan and creates callers.
func (w *world) setUp() {
	w.link.ghost = func() {
		for _, l := range w.touched {
			l.ghosts = append(l.ghosts, call{w.now, w.now})
		}
	}
	for _, a := range addresses {
		w.shared[a.String()] = &ledger{}
	}
	w.shared[everybody] = &ledger{}
	w.savePlan()
	for i := range 3 {
		value := fmt.Sprint("the-value-of-caller-", i) // made by hand, since a generated one is random
		k, _, err := w.store.Create(w.Context(),
			policy.NewKey{Name: fmt.Sprint("caller ", i), Env: "test", Plan: "plan", Value: value}, byHand)
		if err != nil {
			w.Fatal(err)
		}
		c := &caller{key: k, secret: value}
		w.callers = append(w.callers, c)
	}
	w.replicate()
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
func (w *world) limits(least int) (limits []limiter.Limit, bounds []bound) {
	for range 1 + w.IntN(2) {
		l := limiter.Limit{Requests: int64(least + w.IntN(12)),
			Window: []time.Duration{time.Second, 5 * time.Second, time.Minute, 10 * time.Minute}[w.IntN(4)]}
		limits = append(limits, l)
		bounds = append(bounds, bound{requests: l.Requests, window: l.Window})
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
	next.Plans[0].Degraded = []policy.Degraded{policy.Open, policy.Closed}[w.IntN(2)]
	limits, bounds := w.limits(1)
	next.Plans[0].Limits = limits
	w.plan = bounds
	next.PerIP.Limits, w.perIP = w.limits(5)
	next.Global.Limits, w.global = w.limits(10)
	if _, err := w.store.SaveSet(w.Context(), next, byHand); err != nil {
		w.Fatal(err)
	}
	w.note("saved %v, per address %v, all %v", limits, next.PerIP.Limits, next.Global.Limits)
	w.edited = w.now
}

func (w *world) editPlan() {
	w.savePlan()
	w.replicate() // the journal restores what was acknowledged
}

func (w *world) editOverride() {
	c := w.callers[w.IntN(len(w.callers))]
	var o *policy.Override
	if c.override == nil || w.IntN(3) > 0 {
		limits, bounds := w.limits(1)
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
	w.update(c, func(k *policy.Key) { k.Override = o })
	w.note("%s: override %+v", c.key.Name, o)
}

// editKey revokes a key, or takes that back.
func (w *world) editKey() {
	c := w.callers[w.IntN(len(w.callers))]
	for _, other := range w.callers {
		if other.revoked { // at most one, so that most calls say something
			c = other
		}
	}
	c.revoked = !c.revoked
	w.update(c, func(k *policy.Key) {
		k.Status = policy.Active
		if c.revoked {
			k.Status = policy.Revoked
		}
	})
	w.note("%s: revoked %t", c.key.Name, c.revoked)
}

func (w *world) update(c *caller, change func(*policy.Key)) {
	k, err := w.store.Update(w.Context(), c.key.ID, c.key.Version, "key.update", byHand, change)
	if err != nil {
		w.Fatal(err)
	}
	c.key, w.edited = k, w.now
	w.replicate()
}

// rest lets time pass: less than the deny cache, or more than any window.
func (w *world) rest() {
	rests := []time.Duration{time.Millisecond, denyCache, time.Second, 10 * time.Second, time.Minute,
		10 * time.Minute}
	d := rests[w.IntN(len(rests))]
	w.pass(time.Duration(w.Int64N(int64(d) + 1)))
}

// stepClock steps the server's clock, forward or back by up to a second.
func (w *world) stepClock() {
	by := (time.Duration(w.Int64N(int64(2*time.Second))) - time.Second).Truncate(time.Microsecond)
	w.ahead += by
	w.edited = w.now
	w.setClock()
	if by > 0 {
		for _, l := range w.ledgers() {
			l.age(by)
		}
	} else {
		w.back -= by
	}
	for _, c := range w.callers {
		c.until = c.until.Add(-by) // an override ends by the server's clock
	}
	w.note("the server's clock steps by %s", by)
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

func (w *world) burst() {
	c, e, address := w.drawCall()
	for range 5 + w.IntN(15) {
		w.callAs(c, e, address)
	}
}

func (w *world) call() {
	c, e, address := w.drawCall()
	a := w.callAs(c, e, address)
	if a.status == http.StatusTooManyRequests && !a.degraded && w.IntN(4) == 0 {
		w.obey(c, e, address, a)
	}
}

func (w *world) drawCall() (*caller, *environment, netip.Addr) {
	return w.callers[w.IntN(len(w.callers))], w.envs[w.IntN(len(w.envs))], addresses[w.IntN(len(addresses))]
}

// obey waits until the call is admitted, with nobody else about and Valkey well. It is
// denied a microsecond before that, unless an override has ended, or the denial was a
// repeated one from before a change. A denial by one limit hides that of the next.
func (w *world) obey(c *caller, e *environment, address netip.Addr, a answer) {
	w.link.down, w.link.shaky = false, false
	for range 5 {
		overridden, changed := w.overridden(c), w.justChanged()
		w.pass(max(0, a.wait-a.took-time.Microsecond))
		if early := w.callAs(c, e, address); early.status == http.StatusOK && !early.degraded &&
			overridden == w.overridden(c) && !changed {
			w.fail("%s is admitted before Retry-After", c.key.Name)
		}
		w.pass(a.took + time.Microsecond)
		if a = w.callAs(c, e, address); a.status != http.StatusTooManyRequests {
			w.answers["waited for"]++
			return
		}
	}
	w.fail("%s waited for Retry-After five times, and is denied", c.key.Name)
}

// callAs makes a call and compares the answer with the lists of calls.
func (w *world) callAs(c *caller, e *environment, address netip.Addr) answer {
	w.touched = []*ledger{&c.ledger, w.shared[address.String()], w.shared[everybody]}
	own, counting := w.limitsOf(c)
	began := w.now
	a := w.send(e, c.secret, address)
	a.took = w.now.Sub(began)
	w.note("%s from %s: %d, degraded %t, wait %s", c.key.Name, address, a.status, a.degraded, a.wait)
	w.answers[fmt.Sprintf("%d degraded %t", a.status, a.degraded)]++
	switch {
	case a.degraded:
		return a
	case c.revoked && a.status == http.StatusOK:
		w.fail("a revoked key is admitted")
	case !c.revoked && a.status == http.StatusUnauthorized && !w.link.down && !w.link.shaky:
		w.fail("a good key is refused")
	case a.status == http.StatusTooManyRequests:
		w.denied(c, own, a)
	case a.status == http.StatusOK:
		for i, limits := range [][]bound{own, w.perIP, w.global} {
			if b, found := w.touched[i].admit(call{began, w.now}, limits, counting); found {
				w.fail("more than %d are admitted within %s", b.requests, b.window)
			}
			counting = nil
		}
	}
	return a
}

// denied fails if no limit has a reason to deny the call.
func (w *world) denied(c *caller, own []bound, a answer) {
	if a.wait == 0 {
		w.fail("a denial without Retry-After")
	}
	full := w.justChanged()
	for i, limits := range [][]bound{own, w.perIP, w.global} {
		full = full || w.touched[i].full(w.now, limits, w.back)
	}
	if !full {
		w.fail("%s is denied, and no limit is full", c.key.Name)
	}
}
