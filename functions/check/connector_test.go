package main

import (
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/decide"
	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
	"tidegate/internal/usage"
)

// allowance is small enough for every call to be kept, so that counts are exact.
const allowance = 200

// environment is a connector as a function has one, with a key that may call, and a way
// to the server past its connection.
type environment struct {
	*connector
	admin  valkey.Client
	secret apikey.Secret
	clock  atomic.Int64 // nanoseconds that passed in a freeze
}

// newEnvironment has a connector for url, which leads to the server.
func newEnvironment(t *testing.T, server, url string, timeout time.Duration) *environment {
	t.Helper()
	pepper, err := apikey.NewPepper(strings.Repeat("pepper!!", 4))
	if err != nil {
		t.Fatal(err)
	}
	e := &environment{connector: newConnector(settings{
		ValkeyURL: url, ValkeyTimeout: timeout, ValkeyConnectTimeout: timeout, pepper: pepper,
	}, time.Now)}
	e.now = func() time.Time { return time.Unix(1_800_000_000, e.clock.Load()) }
	e.prepare(t, server)
	return e
}

// prepare connects to the server and makes a key.
func (e *environment) prepare(t *testing.T, server string) {
	t.Helper()
	e.admin = storetest.Connect(t, server)
	e.secret = e.newKey(t)
}

func (e *environment) newKey(t *testing.T) apikey.Secret {
	t.Helper()
	keys, edit := registry.NewStore(e.admin, e.config.pepper),
		registry.Edit{By: audit.Actor{Kind: "user", Name: "tester"}}
	set, err := keys.Set(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Plans) == 0 {
		set.Plans = []policy.Plan{{Name: "free",
			Limits: []limiter.Limit{{Requests: allowance, Window: 24 * time.Hour}}}}
		if _, err := keys.SaveSet(t.Context(), *set, edit); err != nil {
			t.Fatal(err)
		}
	}
	_, secret, err := keys.Create(t.Context(), policy.NewKey{Name: "caller", Env: "test", Plan: "free"}, edit)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// freeze lets the clock of the function jump.
func (e *environment) freeze(d time.Duration) { e.clock.Add(int64(d)) }

// take makes a call and returns how many have been counted.
func (e *environment) take(t *testing.T) (int64, error) {
	t.Helper()
	checked, err := e.Check(t.Context(),
		enforce.Call{Kind: policy.APIKey, Subject: e.secret.ID(), Secret: e.secret})
	if err != nil {
		return 0, err
	}
	return allowance - checked.Limits[0].Remaining, nil
}

func (e *environment) ask(t *testing.T, words ...string) string {
	t.Helper()
	message, err := e.admin.Do(t.Context(), e.admin.B().Arbitrary(words...).Build()).ToMessage()
	if err != nil {
		t.Fatalf("%s: %v", words[0], err)
	}
	text, _ := message.ToString() // Not every reply is a text.
	return text
}

var getCalls = regexp.MustCompile(`cmdstat_get:calls=(\d+)`)

// reads counts what GET was called for: once in every check, and once in every probe.
func (e *environment) reads(t *testing.T) int {
	t.Helper()
	match := getCalls.FindStringSubmatch(e.ask(t, "INFO", "commandstats"))
	if match == nil {
		return 0
	}
	n, err := strconv.Atoi(match[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The first call after a freeze in which the server closed the connections succeeds, and
// no call counts twice.
func TestFirstCallAfterAThaw(t *testing.T) {
	server := valkeytest.Start(t)
	e := newEnvironment(t, server, server, 5*time.Second)
	for i := int64(1); i <= 100; i++ {
		if counted, err := e.take(t); err != nil || counted != i {
			t.Fatalf("call %d: %d counted, %v", i, counted, err)
		}
		e.ask(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		e.freeze(2 * time.Second)
	}
}

// In a cluster the probe replaces the connection to one shard; the calls of other shards
// find theirs closed, and are tried again.
func TestFirstCallsAfterAThawInACluster(t *testing.T) {
	nodes := valkeytest.StartCluster(t, 3, 0)
	url := nodes[0] + "?cluster=true"
	e := newEnvironment(t, url, url, 5*time.Second)
	secrets := []apikey.Secret{e.secret}
	for range 5 {
		secrets = append(secrets, e.newKey(t))
	}
	var doors []valkey.Client
	for _, node := range nodes {
		doors = append(doors, storetest.Connect(t, node))
	}
	for i := int64(1); i <= 20; i++ {
		for _, e.secret = range secrets {
			if counted, err := e.take(t); err != nil || counted != i {
				t.Fatalf("call %d: %d counted, %v", i, counted, err)
			}
		}
		for _, door := range doors {
			if err := door.Do(t.Context(), door.B().Arbitrary("CLIENT", "KILL", "TYPE", "normal", "SKIPME",
				"yes").Build()).Error(); err != nil {
				t.Fatal(err)
			}
		}
		e.freeze(2 * time.Second)
	}
}

// When the network forgot the connections in a freeze, so that nobody says that they are
// gone, the probe finds out and not the check, which could not be tried again.
func TestThawWithSilentConnections(t *testing.T) {
	server := valkeytest.Start(t)
	proxy := valkeytest.StartProxy(t, server, nil)
	e := newEnvironment(t, server, proxy.URL(), 6*time.Second)
	if _, err := e.take(t); err != nil {
		t.Fatal(err)
	}
	proxy.Silence()
	e.freeze(time.Hour)
	if counted, err := e.take(t); err != nil || counted != 2 {
		t.Errorf("%d counted, %v", counted, err)
	}
}

// A busy function does not pay for probes; one whose clock was set back probes, as it
// knows no better.
func TestProbesOnlyAfterAPause(t *testing.T) {
	server := valkeytest.Start(t)
	e := newEnvironment(t, server, server, 5*time.Second)
	if _, err := e.take(t); err != nil { // connects, and reads the policy set
		t.Fatal(err)
	}
	for _, c := range []struct {
		pause  time.Duration
		probes int // GETs: the check of a known caller makes none
	}{{0, 0}, {0, 0}, {time.Second, 0}, {time.Second + time.Nanosecond, 1}, {0, 0}, {-time.Hour, 1}, {0, 0}} {
		before := e.reads(t)
		e.freeze(c.pause)
		if _, err := e.take(t); err != nil {
			t.Fatal(err)
		}
		if probes := e.reads(t) - before; probes != c.probes {
			t.Errorf("after %s: %d probes, want %d", c.pause, probes, c.probes)
		}
	}
}

// A lost reply costs the caller one extra count and no error.
func TestLostReply(t *testing.T) {
	server := valkeytest.Start(t)
	proxy := valkeytest.StartProxy(t, server, nil)
	e := newEnvironment(t, server, proxy.URL(), 5*time.Second)
	if _, err := e.take(t); err != nil {
		t.Fatal(err)
	}
	proxy.DropReplies("EVALSHA", 1)
	if counted, err := e.take(t); err != nil || counted != 3 {
		t.Errorf("%d counted, %v; want the first call's, the lost one and the second try", counted, err)
	}
}

// A function that starts while Valkey is unavailable fails its calls, and serves them as
// soon as Valkey is there.
func TestStartsWhileValkeyIsUnavailable(t *testing.T) {
	server := valkeytest.Start(t)
	e := newEnvironment(t, server, server, 5*time.Second)
	// The connection ends with the server.
	_ = e.admin.Do(t.Context(), e.admin.B().Arbitrary("SHUTDOWN", "NOSAVE", "NOW").Build())
	for range 2 {
		if _, err := e.take(t); err == nil {
			t.Fatal("a call without Valkey was answered")
		}
	}
	_, port, err := net.SplitHostPort(strings.TrimPrefix(server, "valkey://"))
	if err != nil {
		t.Fatal(err)
	}
	valkeytest.StartWith(t, "--port", port)
	e.prepare(t, server)
	if counted, err := e.take(t); err != nil || counted != 1 {
		t.Errorf("%d counted, %v", counted, err)
	}
}

// A server that takes connections and says nothing does not hold a call until its own
// deadline.
func TestSilentServer(t *testing.T) {
	server := valkeytest.Start(t)
	e := newEnvironment(t, server, valkeytest.StartSilent(t), 10*time.Millisecond)
	for range 2 {
		if _, err := e.take(t); err == nil {
			t.Error("a call was answered by nobody")
		}
	}
}

// What is recorded leaves after the answer, without another call. It holds the function
// for a time-out at most, and waits where it is while Valkey is unavailable.
func TestRecordsLeaveAfterTheAnswer(t *testing.T) {
	server := valkeytest.Start(t)
	proxy := valkeytest.StartProxy(t, server, nil)
	e := newEnvironment(t, server, proxy.URL(), waiting.Timeout)
	e.usage = usage.NewRecorder(usage.Options{}, e.now)
	reader := usage.NewReader(e.admin)
	recorded := func() int64 { // in this minute
		points, err := reader.Overview(t.Context(), e.now(), e.now().Add(time.Minute), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return usage.Sum(points).Allowed
	}
	call := func() {
		if _, err := e.take(t); err != nil {
			t.Fatal(err)
		}
		e.usage.Record(usage.Outcome{Subject: e.secret.ID(), Registered: true, Time: e.now()})
	}
	for n := range int64(3) {
		e.freeze(time.Minute)
		call()
		if e.sendRecords(); recorded() != 1 {
			t.Fatalf("call %d: %d calls are recorded of this minute", n, recorded())
		}
	}

	e.freeze(time.Minute)
	call()
	proxy.Silence()
	e.config.ValkeyTimeout = 20 * time.Millisecond
	e.sendRecords() // returns

	e.freeze(time.Minute)
	proxy.Cut()
	e.unavailable.Store(true)
	e.usage.Record(usage.Outcome{Subject: e.secret.ID(), Registered: true, Time: e.now()})
	e.sendRecords()
	e.config.ValkeyTimeout = waiting.Timeout
	call()
	if e.sendRecords(); recorded() != 2 {
		t.Errorf("%d calls are recorded, want the one that waited and the last", recorded())
	}
}

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
	n.keys.connector = newConnector(settings{pepper: apikey.Pepper("only for this test, and long enough")},
		time.Now)
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
	f := newChecker(c, handler, metrics, time.Now)
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
