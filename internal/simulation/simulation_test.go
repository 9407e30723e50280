package simulation

import (
	"cmp"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidegate/internal/policy"
	"tidegate/internal/testing/tier"
)

var (
	seed  = flag.Int64("seed", 0, "replay the history of this seed; 0 plays many")
	fresh = flag.Int("fresh", 0, "number of histories of random seeds; 0 for the commit's seeds")
)

const (
	hours  = 6 * time.Hour // virtual time of a history
	events = 300           // most events of a history
)

// seeds has a seed at the begin of each line, and then what it once found.
const seeds = "testdata/seeds"

// Nobody gets more than the limits admit in any window, whatever happens: edits,
// overrides, failovers, a lost Valkey, lost and late replies, environments that begin,
// freeze and end, clocks that step. Denials have a reason, and a client that waits for
// Retry-After is admitted. What remains is exact. Only callers with a key in force are
// admitted, without Valkey only those that it accepted. Every call gets an answer.
func TestSimulation(t *testing.T) {
	if *seed != 0 {
		play(t, *seed)
		return
	}
	kept, err := os.ReadFile(seeds)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Split(strings.TrimSpace(string(kept)), "\n")
	for _, line := range all[:tier.Histories(len(all))] {
		text, _, _ := strings.Cut(line, " ")
		s, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", seeds, err)
		}
		t.Run("kept "+text, func(t *testing.T) { play(t, s) })
	}
	next := rand.Int64
	if *fresh == 0 {
		next = seedsOf(commit(t))
	}
	for range cmp.Or(*fresh, tier.Histories(100)) {
		s := next()
		t.Run(fmt.Sprint("seed ", s), func(t *testing.T) {
			defer keep(t, s)
			play(t, s)
		})
	}
}

// commit returns what identifies the files of the commit that is tested. Every commit
// plays histories that nobody played before, and plays the same again.
func commit(t *testing.T) []byte {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tree, err := exec.CommandContext(ctx, "git", "rev-parse", "HEAD^{tree}").Output()
	if err != nil {
		t.Log("seeds of no commit:", err)
	}
	return tree
}

func seedsOf(tree []byte) func() int64 {
	return rand.New(rand.NewChaCha8(sha256.Sum256(tree))).Int64
}

// keep adds the seed of a failed history to those that are always played.
func keep(t *testing.T, s int64) {
	if !t.Failed() {
		return
	}
	f, err := os.OpenFile(seeds, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Log(err) // the history says the seed too
		return
	}
	defer func() { _ = f.Close() }()
	if _, err := fmt.Fprintln(f, s, "found in", time.Now().Format(time.DateOnly)); err != nil {
		t.Log(err)
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

// limitsOf returns the limits that decide about the caller's calls, and those that only
// count them.
func (w *world) limitsOf(c *caller) (deciding, counting []bound) {
	if o := w.overridden(c); o != nil {
		return o.limits, w.plans[c.plan].limits
	}
	return w.plans[c.plan].limits, nil
}

// scopes are those of the limits on the ledgers that a call touches, in order.
var scopes = [...]string{policy.ScopeKey, policy.ScopeRoute, policy.ScopeGroup, policy.ScopeIP,
	policy.ScopeRouteIP, policy.ScopeGlobal, policy.ScopeRouteAll}

// lists has the limits on these ledgers.
type lists [len(scopes)][]bound

// touch sets the ledgers that a call touches. It returns the limits on them.
func (w *world) touch(c *caller, own []bound, t target) lists {
	b, address := lists{0: own, 3: w.perIP, 5: w.global}, t.address.String()
	if c.key.Group != "" {
		b[2] = w.plans[c.plan].perGroup
	}
	if w.cost = 1; t.path == reports {
		w.cost, b[1], b[4], b[6] = w.rule.cost, w.rule.perKey, w.rule.perIP, w.rule.all
	}
	w.touched = []*ledger{&c.ledger, &c.reports, w.shared[groupOf(c.key.Group, c.plan)], w.shared[address],
		w.shared[reports+address], w.shared[everybody], w.shared[reports]}
	return b
}

// outdated reports whether a denial may be one from before a change, repeated.
func (w *world) outdated(a answer) bool { return a.repeated && w.now.Sub(w.edited) <= denyCache }

// overridden returns the override in force for the caller; nil for none.
func (w *world) overridden(c *caller) *override {
	for _, o := range []*override{c.override, w.team} {
		if o != nil && w.now.Before(o.until) && (o != w.team || c.key.Group != "") {
			return o
		}
	}
	return nil
}

// obey waits until the call is admitted, with nobody else about and Valkey well. It is
// denied a microsecond before that, and by no limit twice, unless an override has ended,
// or the denial was a repeated one: that may be from before a change, and does not know
// how long the environment was frozen. A denial by one limit hides that of the next.
func (w *world) obey(c *caller, e *environment, t target, a answer) {
	w.link.down, w.link.shaky = [shards]bool{}, false
	var seen []string
	keep := func(by []string) { // other limits may not get the call back
		if !slices.Contains(by, policy.ScopeKey) {
			seen = slices.DeleteFunc(seen, func(s string) bool { return !slices.Contains(by, s) })
		}
	}
	overridden := w.overridden(c)
	for range 6 {
		changed := w.outdated(a)
		if overridden != w.overridden(c) || changed {
			seen, overridden = nil, w.overridden(c)
		}
		by := w.deniers(a)
		keep(by)
		for _, by := range by {
			if slices.Contains(seen, by) {
				w.fail("%s waited for Retry-After, and is denied by %s again", c.key.Name, by)
			}
			if !changed {
				seen = append(seen, by)
			}
		}
		w.pass(max(0, a.wait-a.took-time.Microsecond))
		early := w.callAs(c, e, t)
		if early.status == http.StatusOK && !early.degraded && overridden == w.overridden(c) && !changed &&
			!a.repeated {
			w.fail("%s is admitted before Retry-After", c.key.Name)
		}
		if w.late {
			keep(w.deniers(early))
		}
		w.pass(a.took + time.Microsecond)
		a = w.callAs(c, e, t)
		if early.status == http.StatusOK || a.status != http.StatusTooManyRequests {
			w.answers["waited for"]++
			return
		}
	}
	w.fail("%s waited for Retry-After six times, and is denied", c.key.Name)
}

// deniers returns what denied a call: scopes of limits, or a ban.
func (w *world) deniers(a answer) (by []string) {
	if a.degraded {
		return nil
	}
	if !a.BannedUntil.IsZero() {
		return []string{"a ban"}
	}
	for _, l := range a.Limits {
		if l.Denies() && !slices.Contains(by, l.Scope) {
			by = append(by, l.Scope)
		}
	}
	return by
}

// callAs makes a call and compares the answer with the lists of calls.
func (w *world) callAs(c *caller, e *environment, t target) answer {
	own, counting := w.limitsOf(c)
	bounds, began := w.touch(c, own, t), w.now
	a := w.send(e, c.secret, t)
	a.took = w.now.Sub(began)
	w.note("%s to %s from %s: %d, degraded %t, wait %s", c.key.Name, t.path, t.address, a.status,
		a.degraded, a.wait)
	w.answers[fmt.Sprintf("%d degraded %t", a.status, a.degraded)]++
	if a.degraded {
		w.withoutValkey(c, e, a)
		return a
	}
	e.refused[c] = a.status == http.StatusUnauthorized || !a.BannedUntil.IsZero()
	if !e.refused[c] && !a.Unverified {
		e.verified[c] = w.now
	}
	switch {
	case c.revoked && slices.Contains(w.deniers(a), policy.ScopeKey) && !w.outdated(a):
		w.fail("a revoked key is denied by its limits")
	case c.revoked && a.status == http.StatusOK:
		w.fail("a revoked key is admitted")
	case w.now.Before(c.banned) && a.status == http.StatusOK:
		w.fail("a banned key is admitted")
	case !c.revoked && a.status == http.StatusUnauthorized && w.link.well() && !w.empty:
		w.fail("a good key is refused")
	case a.status == http.StatusTooManyRequests:
		w.denied(c, bounds, a, began)
	case a.status == http.StatusOK:
		w.admitted(call{began: began, ended: w.now, cost: w.cost}, bounds, counting, a)
	}
	return a
}

// withoutValkey checks an answer that an environment gave without Valkey.
func (w *world) withoutValkey(c *caller, e *environment, a answer) {
	at, found := e.verified[c]
	switch {
	case a.status != http.StatusOK:
	case !found || w.now.Sub(at) > callerCache:
		w.fail("%s is admitted without Valkey by an environment that does not know it", c.key.Name)
	case e.refused[c]:
		w.fail("%s is admitted without Valkey by an environment that saw it refused", c.key.Name)
	}
}

// admitted fails if a limit admitted too much, or counts what it should not.
func (w *world) admitted(made call, bounds lists, counting []bound, a answer) {
	for i, limits := range bounds {
		if b, found := w.touched[i].admit(made, limits, counting); found {
			w.fail("more than %d are admitted within %s", b.requests, b.window)
		}
		counting = nil
	}
	var n [len(scopes)]int
	for _, state := range a.Limits {
		i := slices.Index(scopes[:], state.Scope)
		if n[i] >= len(bounds[i]) || state.Scope == policy.ScopeGlobal {
			continue
		}
		l := w.touched[i]
		b := l.known[n[i]]
		n[i]++
		used, least, most := b.requests-state.Remaining, int64(0), l.most(b, made.began)
		if !b.shadow {
			least = l.counted(b, w.now)
		}
		if used < least || used > most {
			w.fail("%d of %d within %s of the scope %s are used, want %d to %d", used, b.requests, b.window,
				state.Scope, least, most)
		}
	}
}

// mayCount adds the present call, that limits perhaps count: after an error, and if other
// limits denied it. A log does not give a call back that it cannot tell from older ones:
// if it dropped calls lately, or the server's clock stepped back.
func (w *world) mayCount(ledgers []*ledger, began time.Time) {
	for _, l := range ledgers {
		l.ghosts = append(l.ghosts, call{began: began, ended: w.now, cost: w.cost})
	}
}

// denied fails if nothing has a reason to deny the call.
func (w *world) denied(c *caller, bounds lists, a answer, began time.Time) {
	if a.wait == 0 {
		w.fail("a denial without Retry-After")
	}
	if a.retryAfter < a.wait || a.retryAfter > a.wait+time.Minute+time.Second {
		w.fail("Retry-After is %s, want %s rounded up and spread", a.retryAfter, a.wait)
	}
	by := w.deniers(a)
	if given := w.touched; !a.repeated {
		if slices.Contains(by, policy.ScopeKey) {
			given = given[1:]
		}
		defer w.mayCount(given, began)
	}
	if w.outdated(a) || began.Before(c.banned) {
		return
	}
	for i, limits := range bounds {
		if slices.Contains(by, scopes[i]) && !w.touched[i].full(began, limits, w.cost) {
			w.fail("%s is denied by limits of the scope %s, which are not full", c.key.Name, scopes[i])
		}
	}
	if len(by) == 0 {
		w.fail("%s is denied by nothing", c.key.Name)
	}
}
