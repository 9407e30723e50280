//go:build unix

package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/waiting"
)

// The load of the failover tests. Every caller makes more calls than its limit allows.
const (
	environments = 8
	callRate     = 2_000 // calls a second
	callerCount  = 60
	perSecond    = 10 // each caller's limit
)

// failover runs the load and calls harm after 2 s. It ends the load 9 s after the fault,
// or 3 s after harm has returned if that is later. at is the time of the fault.
func failover(t *testing.T, w *world, o fleetOptions, harm func(*load)) (outcomes []outcome,
	at time.Duration, f *fleet) {
	t.Helper()
	w.plans(t, fmt.Sprint(perSecond, " per second"))
	f = startFleet(t, w.url, o)
	l := &load{fleet: f, callers: w.callers(t, callerCount, "closed", "open", "local"), rate: callRate,
		workers: o.environments}
	l.begin(t)
	during(t, 2*time.Second)
	at = l.now()
	harm(l)
	during(t, max(3*time.Second, at+9*time.Second-l.now()))
	return l.end(), at, f
}

// takenOver waits until the first primary's replica has become a primary and every other
// server knows this. It returns the time since the start of the load.
func takenOver(t *testing.T, w *world, l *load) time.Duration {
	t.Helper()
	waiting.Until(t, "the replica takes over", func() bool {
		return strings.Contains(w.servers[shards].ask(t, "INFO", "replication"), "role:master")
	})
	w.settled(t, w.servers[0])
	return l.now()
}

// span returns the time from the fault to the last degraded answer, and the tally of all
// calls within that time.
func span(outcomes []outcome, at time.Duration) (time.Duration, tally) {
	last := at
	for _, o := range outcomes {
		if o.degraded && o.end > last {
			last = o.end
		}
	}
	var meanwhile []outcome
	for _, o := range outcomes {
		if o.end >= at && o.start <= last {
			meanwhile = append(meanwhile, o)
		}
	}
	return last - at, tallyOf(meanwhile)
}

func deployedFleet() fleetOptions { return fleetOptions{environments: environments, timeout: deployed} }

func rateOf(outcomes []outcome) int {
	if len(outcomes) == 0 {
		return 0
	}
	return int(float64(len(outcomes)) / outcomes[len(outcomes)-1].end.Seconds())
}

// Valkey must decide checks again failoverBound after the fault, or followBound after the
// cluster's recovery if that is later. On a busy machine the cluster recovers later.
const (
	failoverBound = 6 * time.Second
	followBound   = 2 * time.Second
)

// recovered fails the test if no call was degraded, or if calls were degraded for too
// long.
func recovered(t *testing.T, degraded, valkey time.Duration) {
	t.Helper()
	if most := max(failoverBound, valkey+followBound); degraded == 0 || degraded > most {
		t.Errorf("calls were degraded for %s, want more than 0 and at most %s; the cluster recovered "+
			"after %s", degraded, most, valkey)
	}
}

func TestPrimaryKilled(t *testing.T) {
	skipUnlessFaults(t)
	w := cluster(t)
	var whole time.Duration
	outcomes, at, f := failover(t, w, deployedFleet(), func(l *load) {
		w.servers[0].kill(t)
		whole = takenOver(t, w, l)
	})
	degraded, meanwhile := span(outcomes, at)
	all := tallyOf(outcomes)
	all.requireAnswered(t)
	recovered(t, degraded, whole-at)
	if meanwhile.p99 > 150*time.Millisecond {
		t.Errorf("got p99 %s during the failover, want at most 150 ms", meanwhile.p99)
	}
	most := bounded(t, outcomes, callerCount, 2*perSecond, time.Second)
	report(t, "primary killed (kill -9)", "0 client 5xx; degraded ≤ 6 s; p99 ≤ 150 ms", fmt.Sprintf(
		"%d of %s calls 5xx at %d/s; degraded for %s, Valkey whole after %s (%d calls, %d waited in vain); "+
			"p99 %s meanwhile; "+
			"at most %d of %d a second admitted",
		all.failed, thousands(all.calls), rateOf(outcomes), seconds(degraded), seconds(whole-at),
		all.degraded, f.failures(""),
		ms(meanwhile.p99), most, perSecond))
}

func TestPrimaryHung(t *testing.T) {
	skipUnlessFaults(t)
	w := cluster(t)
	var whole time.Duration
	outcomes, at, f := failover(t, w, deployedFleet(), func(l *load) {
		w.servers[0].freeze(t)
		whole = takenOver(t, w, l)
	})
	degraded, meanwhile := span(outcomes, at)
	all := tallyOf(outcomes)
	all.requireAnswered(t)
	recovered(t, degraded, whole-at)
	timeouts := f.failures("") / environments
	// The hung primary has up to 6 of the 16 sectors. In each of them 2 calls wait for
	// their time-out, and then one call every half second.
	if most := 6 * (2 + int(degraded/(500*time.Millisecond)) + 1); timeouts > most {
		t.Errorf("got %d time-outs in each environment, want at most %d", timeouts, most)
	}
	bounded(t, outcomes, callerCount, 2*perSecond, time.Second)
	report(t, "primary hung (kill -STOP)",
		"0 client 5xx; degraded ≤ 6 s; few time-outs an environment", fmt.Sprintf(
			"%d of %s calls 5xx at %d/s; degraded for %s, Valkey whole after %s (%d calls); %d time-outs "+
				"an environment; p99 %s meanwhile",
			all.failed, thousands(all.calls), rateOf(outcomes), seconds(degraded), seconds(whole-at),
			all.degraded, timeouts, ms(meanwhile.p99)))
}

func TestPlannedFailover(t *testing.T) {
	skipUnlessFaults(t)
	w := cluster(t)
	o := deployedFleet()
	o.timeout = calm
	outcomes, _, _ := failover(t, w, o, func(*load) {
		for _, replica := range w.servers[shards:] {
			replica.ask(t, "CLUSTER", "FAILOVER")
			during(t, time.Second)
		}
	})
	all := tallyOf(outcomes)
	all.requireUndegraded(t)
	most := bounded(t, outcomes, callerCount, perSecond, time.Second)
	report(t, "planned failover", "0 errors",
		fmt.Sprintf("3 failovers: %s; at most %d of %d a second admitted", all, most, perSecond))
}

// A failover to a replica that lags by a second loses at most the counts that the primary
// acknowledged in that second. The replica stops, its link is cut, and a second later the
// primary is killed.
func TestLaggingReplica(t *testing.T) {
	skipUnlessFaults(t)
	const limit = 400
	w := cluster(t)
	w.plans(t, fmt.Sprint(limit, " per hour"))
	f := startFleet(t, w.url, deployedFleet())
	callers := w.callers(t, 30, "closed")
	l := &load{fleet: f, callers: callers, rate: 1_000, workers: environments}
	l.begin(t)
	during(t, 2*time.Second)
	primary, replica := w.servers[0], w.servers[shards]
	cut := l.now()
	catchUp(t, primary, replica)
	replica.freeze(t)
	primary.ask(t, "CLIENT", "KILL", "TYPE", "REPLICA")
	if info := primary.ask(t, "INFO", "replication"); !strings.Contains(info, "connected_slaves:0") {
		t.Fatalf("want no connected replica in:\n%s", info)
	}
	during(t, time.Second)
	primary.kill(t)
	killed := l.now()
	replica.thaw(t)
	w.settled(t, primary)
	during(t, time.Second)
	outcomes := l.end()
	lost, acknowledged, worstKey := lostCounts(t, f, callers, outcomes, limit, cut, killed)
	all := tallyOf(outcomes)
	all.requireAnswered(t)
	if lost == 0 || worstKey > limit {
		t.Errorf("got %d lost counts, at most %d of a key, want some, and at most the limit %d of a key",
			lost, worstKey, limit)
	}
	report(t, "lagging replica, then death", "lost ≤ rate × 1 s, and ≤ the limit a key", fmt.Sprintf(
		"%d lost of %d that were acknowledged to the same keys in the %s; at most %d of one key, limit %d; "+
			"%d of %s calls 5xx",
		lost, acknowledged, seconds(killed-cut), worstKey, limit, all.failed, thousands(all.calls)))
}

// catchUp waits until the replica has everything that the primary acknowledged before the
// call.
func catchUp(t *testing.T, primary, replica *server) {
	t.Helper()
	written := integer(t, primary.ask(t, "INFO", "replication"), "master_repl_offset")
	waiting.Until(t, "the replica catches up", func() bool {
		return integer(t, replica.ask(t, "INFO", "replication"), "slave_repl_offset") >= written
	})
}

// lostCounts compares the calls that Valkey admitted with the counts that it still has.
// It fails the test if a key lost more counts than were acknowledged while the replica
// lagged, from cut to killed. acknowledged is the sum of these over the keys that lost
// counts.
func lostCounts(t *testing.T, f *fleet, callers []caller, outcomes []outcome, limit int,
	cut, killed time.Duration) (lost, acknowledged, worstKey int) {
	t.Helper()
	for i, c := range callers {
		admitted, within := 0, 0
		for _, o := range outcomes {
			if o.caller != i || !o.counted() {
				continue
			}
			admitted++
			if o.end >= cut && o.start <= killed {
				within++
			}
		}
		var now outcome
		waiting.Until(t, "the store answers", func() bool {
			now = f.call(t.Context(), c.secret.Reveal())
			return now.counted()
		})
		missing := admitted - (limit - int(now.remaining) - 1)
		if missing > within {
			t.Errorf("caller %d lost %d counts, want at most the %d acknowledged while the replica lagged",
				i, missing, within)
		}
		if missing > 0 {
			lost, acknowledged, worstKey = lost+missing, acknowledged+within, max(worstKey, missing)
		}
	}
	return lost, acknowledged, worstKey
}

func TestEverythingDown(t *testing.T) {
	skipUnlessFaults(t)
	w := cluster(t)
	w.plans(t, "50 per minute")
	f := startFleet(t, w.url, fleetOptions{environments: 1, timeout: deployed})
	known := w.callers(t, 3, "closed", "open", "local")
	unregistered, revoked := w.key(t, "open"), w.key(t, "open")
	for _, c := range append(known, revoked) {
		if o := f.call(t.Context(), c.secret.Reveal()); !o.counted() {
			t.Fatalf("call with plan %s: got %+v, want it admitted by Valkey", c.plan, o)
		}
	}
	if _, err := registrytest.Revoke(t.Context(), w.keys, revoked.key.ID, tester); err != nil {
		t.Fatal(err)
	}
	if o := f.call(t.Context(), revoked.secret.Reveal()); o.status != 401 {
		t.Fatalf("call with a revoked key: got %+v, want 401", o)
	}
	for _, s := range w.servers {
		s.kill(t)
	}
	callers := slices.Concat(known, []caller{unregistered, revoked})
	l := &load{fleet: f, callers: callers, rate: 300, workers: 1}
	l.begin(t)
	during(t, 5*time.Second)
	outcomes := l.end()
	all := tallyOf(outcomes)
	all.requireAnswered(t)
	admitted := make([]int, len(callers))
	for _, o := range outcomes {
		if o.status == 200 {
			admitted[o.caller]++
		}
	}
	if all.degraded != all.calls || admitted[0] != 0 || admitted[1] == 0 || admitted[2] != 10 ||
		admitted[3] != 0 || admitted[4] != 0 {
		t.Errorf("got %v of %d calls admitted, %d degraded; want all degraded, and admitted none, all, 10, "+
			"none, none", admitted, all.calls, all.degraded)
	}
	for _, bad := range []string{"", "nothing", unregistered.secret.Reveal() + "x"} {
		if o := f.call(t.Context(), bad); o.status != 401 {
			t.Errorf("call with a bad credential: got %+v, want 401", o)
		}
	}
	report(t, "everything down", "0 5xx; bad credentials still refused", fmt.Sprintf(
		"%s; %d of them waited in vain; admitted: open %d, local %d of its share of 10, closed, unknown "+
			"and revoked 0; malformed 401",
		all, f.failures(""), admitted[1], admitted[2]))
}
