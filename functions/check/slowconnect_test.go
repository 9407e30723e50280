package main

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/decide"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

// deployed are the default time-outs.
var deployed = settings{
	ValkeyTimeout: 100 * time.Millisecond, ValkeyConnectTimeout: 5 * time.Second,
	ReservationLease: 10 * time.Minute,
}

// network is Valkey behind proxies that tests slow down.
type network struct {
	url     string
	proxies []*valkeytest.Proxy
	keys    environment
	secrets []apikey.Secret
}

// newNetwork is one node, or a cluster of three with keys on each.
func newNetwork(t *testing.T, clustered bool) *network {
	t.Helper()
	n := &network{}
	if clustered {
		n.proxies = valkeytest.StartProxiedCluster(t, 3)
		n.url = n.proxies[0].URL() + "?cluster=true"
	} else {
		n.proxies = []*valkeytest.Proxy{valkeytest.StartProxy(t, valkeytest.Start(t), nil)}
		n.url = n.proxies[0].URL()
	}
	n.keys.connector = newConnector(settings{pepper: apikey.Pepper("only for this test, and long enough")})
	n.keys.prepare(t, n.url)
	for range 8 {
		n.secrets = append(n.secrets, n.keys.newKey(t))
	}
	return n
}

func (n *network) each(do func(*valkeytest.Proxy)) {
	for _, p := range n.proxies {
		do(p)
	}
}

// start is the check function of one environment, which connects from its start.
func (n *network) start(t *testing.T, c settings) (*checker, *strings.Builder) {
	t.Helper()
	log := &strings.Builder{}
	c.ValkeyURL, c.pepper, c.CallerCache = n.url, n.keys.config.pepper, time.Hour
	handler := slog.New(slog.NewTextHandler(log, nil))
	metrics, err := newCallMetrics(log, "", handler, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	f := newChecker(c, handler, metrics)
	go f.connectInBackground(t.Context())
	return f, log
}

// denied is how many of the keys' calls were not allowed by Valkey.
func (n *network) denied(t *testing.T, f *checker) int {
	t.Helper()
	denied := 0
	for _, secret := range n.secrets {
		checked, err := f.Check(t.Context(),
			enforce.Call{Kind: policy.APIKey, Subject: secret.ID(), Secret: secret})
		if err != nil || !checked.Allowed || checked.Degraded {
			denied++
		}
	}
	return denied
}

// calm repeats a run until none of its calls is denied: with the default time-outs, a
// machine that stands still for 100 ms denies some. It fails when every run denied calls.
func calm(t *testing.T, run func() (denied int, log string)) {
	t.Helper()
	for began := time.Now(); time.Since(began) < waiting.Timeout; {
		denied, log := run()
		if denied == 0 {
			return
		}
		t.Logf("%d calls denied:\n%s", denied, log)
	}
	t.Error("good calls were denied in every run")
}

// No call is denied because a log-in takes longer than an answer may take: not the first
// ones of an environment, nor those after Valkey closed the connections.
func TestSlowLogIns(t *testing.T) {
	for _, clustered := range []bool{false, true} {
		t.Run(map[bool]string{false: "node", true: "cluster"}[clustered], func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t, clustered)
			for _, delay := range []time.Duration{60 * time.Millisecond, 120 * time.Millisecond,
				time.Second} {
				n.each(func(p *valkeytest.Proxy) { p.DelayFirstReplies(delay) })
				calm(t, func() (int, string) {
					f, log := n.start(t, deployed)
					defer f.Close()
					denied := n.denied(t, f)
					n.each((*valkeytest.Proxy).Cut)
					return denied + n.denied(t, f), fmt.Sprintf("log-ins take %s\n%s", delay, log)
				})
			}
		})
	}
}

// The first connection of an environment may fail.
func TestFirstConnectionIsDropped(t *testing.T) {
	for _, clustered := range []bool{false, true} {
		n := newNetwork(t, clustered)
		calm(t, func() (int, string) {
			n.proxies[0].DropReplies("HELLO", 1)
			f, log := n.start(t, deployed)
			defer f.Close()
			return n.denied(t, f), log.String()
		})
	}
}

// A connection that went silent while nobody called is replaced by one with a slow
// log-in.
func TestSlowLogInAfterAThaw(t *testing.T) {
	n := newNetwork(t, false)
	calm(t, func() (int, string) {
		n.each(func(p *valkeytest.Proxy) { p.DelayFirstReplies(0) })
		f, log := n.start(t, deployed)
		defer f.Close()
		denied := n.denied(t, f)
		<-time.After(idleLimit + 2*deployed.ValkeyTimeout) // so long that silence says nothing about Valkey
		n.each(func(p *valkeytest.Proxy) { p.DelayFirstReplies(500 * time.Millisecond) })
		n.each((*valkeytest.Proxy).Silence)
		return denied + n.denied(t, f), log.String()
	})
}

// When nobody answers, the first call of an environment waits for a connection in vain.
// The later ones are decided within their time for answers, and then without asking.
func TestNobodyAnswers(t *testing.T) {
	n := newNetwork(t, false)
	working := n.url
	n.url = valkeytest.StartSilent(t)
	c := deployed
	c.ValkeyConnectTimeout = 2 * time.Second
	f, log := n.start(t, c)
	var waited []time.Duration
	for range 4 {
		began := time.Now()
		if denied := n.denied(t, f); denied != len(n.secrets) {
			t.Errorf("%d calls were allowed", len(n.secrets)-denied)
		}
		waited = append(waited, time.Since(began))
	}
	if waited[0] < c.ValkeyConnectTimeout || max(waited[1], waited[2], waited[3]) > c.ValkeyConnectTimeout {
		t.Errorf("waited %s", waited)
	}
	if !f.connectTimedOut.Load() || !strings.Contains(log.String(), "decided without the store") {
		t.Errorf("log: %s", log)
	}
	n.url = working
	calm(t, func() (int, string) {
		healthy, log := n.start(t, deployed)
		return n.denied(t, healthy), log.String()
	})
}

// Where connections are refused, calls of an environment that was connected are decided
// at once, as their plan says, and with Valkey as soon as it is back.
func TestRefusedAfterAConnection(t *testing.T) {
	f := newFunction(t, policy.Plan{Name: "open", Limits: tenADay(), Degraded: policy.Open})
	secret := f.key(t, "open")
	if checked := f.call(t, secret); !checked.Allowed || checked.Degraded {
		t.Fatalf("%+v", checked)
	}
	// The connection ends with the server.
	_ = f.admin.Do(t.Context(), f.admin.B().Arbitrary("SHUTDOWN", "NOSAVE", "NOW").Build())
	began := time.Now()
	for range 3 {
		if checked := f.call(t, secret); !checked.Allowed || !checked.Degraded {
			t.Errorf("%+v", checked)
		}
		f.freeze(decide.Pause)
	}
	if took := time.Since(began); took > waiting.Timeout/2 {
		t.Errorf("decided after %s", took)
	}
}
