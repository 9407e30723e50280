//go:build unix

package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tidegate/internal/testing/valkeytest"
)

// allowance is a limit that no test reaches.
const allowance = 100_000

// oneServer returns a single server and a caller with the limit allowance.
func oneServer(t *testing.T, settings ...string) (*world, caller) {
	t.Helper()
	w := single(t, settings...)
	w.plans(t, fmt.Sprint(allowance, " per day"))
	return w, w.key(t, "open")
}

// The first call after a thaw succeeds and counts once, although the server closed every
// connection while the function was frozen.
func TestThaw(t *testing.T) {
	skipUnlessFaults(t)
	w, c := oneServer(t)
	f := startFleet(t, w.url, fleetOptions{environments: 1, timeout: calm, freeze: true})
	const thaws, long = 100, 10
	failed := 0
	for i := range thaws {
		if o := f.call(t.Context(), c.secret.Reveal()); !o.counted() || o.remaining != allowance-int64(i)-1 {
			failed++
		}
		w.servers[0].cutClients(t)
		if i < long { // a pause after which the function probes its connection
			during(t, 1100*time.Millisecond)
		}
	}
	if failed > 0 {
		t.Errorf("got %d of %d first calls that failed or did not count once, want none", failed, thaws)
	}
	report(t, "thaw after the server closed connections", "0 of 100 first calls fail",
		fmt.Sprintf("%d of %d fail, each counts once (%d after more than 1 s)", failed, thaws, long))
}

// At most one call is decided without Valkey when the network silently drops the packets
// of open connections.
func TestBlackHoledFlows(t *testing.T) {
	skipUnlessFaults(t)
	w, c := oneServer(t)
	proxy := valkeytest.StartProxy(t, w.url, nil)
	f := startFleet(t, proxy.URL(), fleetOptions{environments: 1, timeout: deployed, freeze: true})
	const rounds = 10
	worstFailed, slowest, failedIdle := 0, time.Duration(0), 0
	for range rounds {
		for range 5 {
			f.call(t.Context(), c.secret.Reveal())
		}
		proxy.Silence()
		failed, began := 0, time.Now()
		for !f.call(t.Context(), c.secret.Reveal()).counted() {
			failed++
		}
		worstFailed, slowest = max(worstFailed, failed), max(slowest, time.Since(began))
	}
	proxy.Silence()
	during(t, 1100*time.Millisecond)
	if !f.call(t.Context(), c.secret.Reveal()).counted() {
		failedIdle++
	}
	if worstFailed > 1 || slowest > 300*time.Millisecond || failedIdle > 0 {
		t.Errorf("got %d failed calls in %s, and %d after a pause; want at most 1 in 300ms, and none",
			worstFailed, slowest, failedIdle)
	}
	report(t, "old flows black-holed", "≤ 1 call decided without Valkey, ≤ 0.3 s", fmt.Sprintf(
		"%d rounds: at most %d, %s; after a pause of 1 s %d", rounds, worstFailed,
		seconds(slowest), failedIdle))
}

// A call succeeds and counts at most twice if its connection ends after the script has
// run and before the reply arrives.
func TestLostReply(t *testing.T) {
	skipUnlessFaults(t)
	w, c := oneServer(t)
	proxy := valkeytest.StartProxy(t, w.url, nil)
	f := startFleet(t, proxy.URL(), fleetOptions{environments: 1, timeout: calm})
	left := f.call(t.Context(), c.secret.Reveal()).remaining
	const rounds = 20
	most := int64(0)
	for range rounds {
		proxy.DropReplies("EVALSHA", 1)
		o := f.call(t.Context(), c.secret.Reveal())
		if !o.counted() {
			t.Errorf("got %+v, want it admitted by Valkey", o)
		}
		most, left = max(most, left-o.remaining), o.remaining
	}
	if most > 2 {
		t.Errorf("a call with a lost reply counted %d times, want at most 2", most)
	}
	report(t, "reply lost after execution", "counts ≤ 2",
		fmt.Sprintf("%d lost replies: each counts %d at most, 0 calls fail", rounds, most))
}

func TestLatencyAndResets(t *testing.T) {
	skipUnlessFaults(t)
	const deadline = 150 * time.Millisecond // 3/2 of VALKEY_TIMEOUT
	w, _ := oneServer(t)
	var figures []string
	for _, c := range []struct {
		name  string
		fault valkeytest.Fault
	}{
		{"30 ms", valkeytest.Fault{Delay: 30 * time.Millisecond, Jitter: 10 * time.Millisecond}},
		{"1 s", valkeytest.Fault{Delay: time.Second}},
		{"RST after 5 ms", valkeytest.Fault{Delay: 5 * time.Millisecond, Reset: true}},
		{"no answer at all", valkeytest.Fault{Silent: true}},
		{"1 kB/s", valkeytest.Fault{Rate: 1000}},
	} {
		p := valkeytest.StartProxy(t, w.url, nil)
		f := startFleet(t, p.URL(), fleetOptions{environments: 2, timeout: deployed})
		l := &load{fleet: f, callers: w.callers(t, 10, "open", "closed"), rate: 50, workers: 2}
		l.begin(t)
		during(t, time.Second)
		p.SetFault(c.fault)
		harmed := l.now()
		during(t, 3*time.Second)
		p.SetFault(valkeytest.Fault{})
		cured := l.now()
		during(t, 2*time.Second)
		outcomes := l.end()
		var meanwhile, after []outcome
		for _, o := range outcomes {
			switch {
			case o.start >= harmed && o.end <= cured:
				meanwhile = append(meanwhile, o)
			case o.start > cured+time.Second:
				after = append(after, o)
			}
		}
		tallyOf(outcomes).requireAnswered(t)
		tallyOf(after).requireUndegraded(t)
		m := tallyOf(meanwhile)
		if m.p99 > deadline+10*time.Millisecond {
			t.Errorf("%s: got p99 %s, want at most %s", c.name, m.p99, deadline+10*time.Millisecond)
		}
		figures = append(figures, fmt.Sprintf("%s: p99 %s, %d of %d degraded", c.name, ms(m.p99),
			m.degraded, m.calls))
	}
	report(t, "latency, RST, silence, 1 kB/s", "p99 ≤ deadline + 10 ms = 160 ms; 0 5xx",
		strings.Join(figures, "; ")+"; 0 5xx")
}
