package simulation

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
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

	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/store/keyspace"
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
	// A history takes some 3 s, most of it in the Lua of the embedded server.
	for range cmp.Or(*fresh, tier.Histories(40)) {
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
// denied a microsecond before that, and neither by its own limits twice nor by shared ones,
// unless an override has ended, or the denial was a repeated one: that may be from before a
// change, and does not know how long the environment was frozen. A denial by its own limits
// hides that of shared ones.
func (w *world) obey(c *caller, e *environment, t target, a answer) {
	well := w.link.well()
	w.link.down, w.link.shaky = [shards]bool{}, false
	var seen []string
	overridden := w.overridden(c)
	for range 6 {
		changed := a.repeated // its time is from before a change, and of another cost
		if overridden != w.overridden(c) || changed {
			seen, overridden = nil, w.overridden(c)
		}
		by := w.deniers(a)
		if slices.Contains(seen, by) && by != "" {
			w.fail("%s waited for Retry-After, and is denied by %s again", c.key.Name, by)
		}
		if !changed && well { // else other limits may not have got the call back
			seen = append(seen, by)
		}
		well = true
		w.pass(max(0, a.wait-a.took-time.Microsecond))
		early := w.callAs(c, e, t)
		if early.status == http.StatusOK && !early.degraded && overridden == w.overridden(c) && !changed &&
			!a.repeated {
			w.fail("%s is admitted before Retry-After", c.key.Name)
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

// deniers returns what denied a call: own or shared limits, or a ban.
func (w *world) deniers(a answer) string {
	switch i := slices.IndexFunc(a.Limits, enforce.LimitState.Denies); {
	case a.degraded:
		return ""
	case !a.BannedUntil.IsZero():
		return "a ban"
	case i < 0:
		return ""
	case a.Limits[i].Shared():
		return "shared limits"
	}
	return "its own limits"
}

// callAs makes a call and compares the answer with the lists of calls.
func (w *world) callAs(c *caller, e *environment, t target) answer {
	bounds, began := w.applying(c, t), w.now
	w.touched, w.number, w.costs = touched(bounds), w.number+1, map[*ledger]int64{}
	for _, b := range bounds {
		w.costs[b.count] = b.cost
	}
	learned := e.learns(c)
	a := w.send(e, c.secret, t)
	a.took = w.now.Sub(began)
	w.highest = later(w.highest, w.serverTime())
	w.note("%s to %s from %s: %d %v, degraded %t, wait %s", c.key.Name, t.path, t.address, a.status, a.full(),
		a.degraded, a.wait)
	w.answers[fmt.Sprintf("%d degraded %t", a.status, a.degraded)]++
	if a.degraded {
		learned()
		w.withoutValkey(c, e, a)
		return a
	}
	e.refused[c] = a.status == http.StatusUnauthorized || !a.BannedUntil.IsZero()
	if !e.refused[c] && !a.repeated {
		e.verified[c] = w.now
	}
	switch {
	case c.revoked && a.deniedByOwn() && !w.outdated(a):
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
		w.admitted(w.made(began), bounds, a)
		if a.Settlement != "" {
			w.open = append(w.open, settleable{a.Settlement, w.number, bounds, c, e})
		}
	}
	return a
}

// full lists the limits that denied the call.
func (a *answer) full() (texts []string) {
	for _, l := range a.Limits {
		if l.Denies() {
			texts = append(texts, l.String())
		}
	}
	return texts
}

func (a *answer) deniedByOwn() bool {
	return slices.ContainsFunc(a.Limits, func(l enforce.LimitState) bool { return l.Denies() && !l.Shared() })
}

// lead returns how far the server's clock is behind the latest call, after it stepped back.
// Counts take a call for at most as late as that: all of its counts take the same instant.
func (w *world) lead() time.Duration { return max(0, w.highest.Sub(w.serverTime())) }

// made returns the present call.
func (w *world) made(began time.Time) call {
	return call{number: w.number, began: began, ended: w.now, late: w.lead()}
}

// learns returns a function that notes that the environment knows a caller, if Valkey replied
// from the caller's shard since.
func (e *environment) learns(c *caller) func() {
	answered := &e.world.link.answered[shardOf(keyspace.BucketOf(c.key.ID))]
	before := *answered
	return func() {
		if *answered > before {
			e.verified[c] = e.world.now
			delete(e.refused, c)
		}
	}
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

// stateOf returns the limit that a state is of.
func (w *world) stateOf(l *enforce.LimitState, bounds []bound) *bound {
	sources := map[limits.Source]string{limits.FromPlan: "plan", limits.FromPolicy: "policy"}
	source := cmp.Or(sources[l.Source], "override")
	for i := range bounds {
		b := &bounds[i]
		if b.Equal(l.Limit) && b.replaced == l.CountsOnly && b.source == source {
			if b.count.shard < 0 {
				b.count.shard = shardOfKey(l.CountKey)
			}
			return b
		}
	}
	w.fail("the limit %s, replaced: %t, does not apply", l.Limit, l.CountsOnly)
	return nil
}

// admitted fails if a limit admitted too much, or counts what it should not.
func (w *world) admitted(made call, bounds []bound, a answer) {
	if len(a.Limits) != len(bounds) {
		w.fail("%d limits apply, want %d", len(a.Limits), len(bounds))
	}
	for _, count := range w.touched {
		var windows []time.Duration
		var numbers []int64
		for _, b := range bounds {
			if b.count == count {
				windows, numbers = append(windows, b.Window), append(numbers, b.Requests)
				made.least, made.most = b.cost, b.cost
			}
		}
		count.admit(made, windows, numbers)
	}
	for i := range a.Limits {
		state := &a.Limits[i]
		b := w.stateOf(state, bounds)
		if b.replaced {
			continue
		}
		used, least, most := state.Used(), int64(0), b.count.possible(b.Window, made.began)
		if !b.Shadow {
			least = b.count.certain(b.Window, w.now.Add(w.lead()))
		}
		if least > b.Requests {
			w.fail("%s: %d are admitted", b.Limit, least)
		}
		if used < least || used > most {
			w.fail("%s: %d are used, want %d to %d", b.Limit, used, least, most)
		}
	}
}

// mayCount adds the present call, that limits perhaps count, after an error. An environment
// with an older policy asks shared limits of that policy too, and may not get the call back.
func (w *world) mayCount(began time.Time) {
	for identity, count := range w.counts {
		c := w.made(began)
		if c.most = w.costs[count]; !slices.Contains(w.touched, count) {
			if c.most = w.dearest; w.ofCaller(identity) {
				continue
			}
		}
		count.calls = append(count.calls, c)
	}
}

// ofCaller reports whether an identity is of one caller, whose counts only the newest policy
// reaches.
func (w *world) ofCaller(identity string) bool {
	return slices.ContainsFunc(w.callers, func(c *caller) bool {
		return strings.HasPrefix(identity, c.key.ID)
	})
}

// denied fails if nothing has a reason to deny the call.
func (w *world) denied(c *caller, bounds []bound, a answer, began time.Time) {
	if a.wait == 0 {
		w.fail("a denial without Retry-After")
	}
	if a.retryAfter < a.wait || a.retryAfter > a.wait+time.Minute+time.Second {
		w.fail("Retry-After is %s, want %s rounded up and spread", a.retryAfter, a.wait)
	}
	if w.outdated(a) || began.Before(c.banned) {
		return
	}
	for i := range a.Limits {
		if l := &a.Limits[i]; l.Denies() {
			if b := w.stateOf(l, bounds); b.count.possible(b.Window, began)+b.cost <= b.Requests {
				w.fail("%s is denied by %s, which is not full", c.key.Name, b.Limit)
			}
		}
	}
	if w.deniers(a) == "" {
		w.fail("%s is denied by nothing", c.key.Name)
	}
}

// settleable is an admitted call whose cost can be settled.
type settleable struct {
	text   string
	number int
	bounds []bound
	*caller
	*environment
}

// settle settles a call, perhaps a second time.
func (w *world) settle() {
	if len(w.open) == 0 {
		return
	}
	i := w.IntN(len(w.open))
	s := w.open[i]
	cost := w.Int64N(12)
	w.touched = nil
	began, learned := w.now, s.learns(s.caller)
	result, err := s.checker.Settle(w.Context(), s.text,
		limits.Costs{Units: map[string]int64{limits.Cost: cost}})
	w.note("settle call %d to %d: %+v, %v", s.number, cost, result, err)
	learned()
	w.highest = later(w.highest, w.serverTime())
	switch {
	case errors.Is(err, enforce.ErrSettled), errors.Is(err, enforce.ErrExpired):
		w.open = slices.Delete(w.open, i, i+1)
		return
	case err == nil:
		w.open = slices.Delete(w.open, i, i+1)
		w.answers["settled"]++
	case w.link.well() && !w.empty:
		w.fail("settle: %v", err)
	}
	done := map[*ledger]bool{}
	for _, b := range s.bounds {
		actual := cost
		if b.Who == limits.EachGroup {
			actual = min(cost, enforce.MaxSettle*b.cost)
		}
		if !b.settles || done[b.count] {
			continue
		}
		done[b.count] = true
		charged := w.made(began)
		charged.number, charged.kept = 0, w.now.Add(b.Window)
		b.count.settle(s.number, b.cost, actual, err == nil && !result.Partial, charged)
	}
}
