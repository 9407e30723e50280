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
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
	"tidegate/internal/usage"
)

// allowance is the limit of the test's plan. It is small enough for an exact log.
const allowance = 200

// environment is a connector with a key that may call, a clock, and another connection to
// the server.
type environment struct {
	*connector
	admin  valkey.Client
	secret apikey.Secret
	clock  atomic.Int64 // nanoseconds that freeze added
}

// newEnvironment returns an environment that connects to the server by url, perhaps
// through a proxy.
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

// prepare connects to the server and creates a key.
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
	_, secret := registrytest.Create(t, keys, edit, policy.NewKey{Name: "caller", Env: "test", Plan: "free"})
	return secret
}

// freeze advances the function's clock, as a freeze by Lambda does.
func (e *environment) freeze(d time.Duration) { e.clock.Add(int64(d)) }

// take makes a call and returns the number of calls that the limit has counted.
func (e *environment) take(t *testing.T) (int64, error) {
	t.Helper()
	checked, err := e.Check(t.Context(),
		enforce.Call{Kind: policy.APIKey, Subject: e.secret.ID(), Secret: e.secret})
	if err != nil {
		return 0, err
	}
	return allowance - checked.Limits[0].Remaining, nil
}

// command sends a command to the server and returns its reply if that is a string.
func (e *environment) command(t *testing.T, words ...string) string {
	t.Helper()
	message, err := e.admin.Do(t.Context(), e.admin.B().Arbitrary(words...).Build()).ToMessage()
	if err != nil {
		t.Fatalf("%s: %v", words[0], err)
	}
	text, _ := message.ToString() // not every reply is a string
	return text
}

var getCalls = regexp.MustCompile(`cmdstat_get:calls=(\d+)`)

// getCount returns how often GET was called: once in every probe. The check of a known
// caller makes none.
func (e *environment) getCount(t *testing.T) int {
	t.Helper()
	match := getCalls.FindStringSubmatch(e.command(t, "INFO", "commandstats"))
	if match == nil {
		return 0
	}
	n, err := strconv.Atoi(match[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The first call after a freeze succeeds if the server closed the connections meanwhile.
// No call counts twice.
func TestFirstCallAfterAThaw(t *testing.T) {
	server := valkeytest.Start(t)
	e := newEnvironment(t, server, server, 5*time.Second)
	for i := int64(1); i <= 100; i++ {
		if counted, err := e.take(t); err != nil || counted != i {
			t.Fatalf("call %d: %d counted, %v", i, counted, err)
		}
		e.command(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		e.freeze(2 * time.Second)
	}
}

// In a cluster the probe replaces the connection to one shard. Calls that find a closed
// connection to another shard are retried.
func TestFirstCallsAfterAThawInACluster(t *testing.T) {
	nodes := valkeytest.StartCluster(t, 3, 0)
	url := nodes[0] + "?cluster=true"
	e := newEnvironment(t, url, url, 5*time.Second)
	secrets := []apikey.Secret{e.secret}
	for range 5 {
		secrets = append(secrets, e.newKey(t))
	}
	var clients []valkey.Client
	for _, node := range nodes {
		clients = append(clients, storetest.Connect(t, node))
	}
	for i := int64(1); i <= 20; i++ {
		for _, e.secret = range secrets {
			if counted, err := e.take(t); err != nil || counted != i {
				t.Fatalf("call %d: %d counted, %v", i, counted, err)
			}
		}
		for _, c := range clients {
			if err := c.Do(t.Context(), c.B().Arbitrary("CLIENT", "KILL", "TYPE", "normal", "SKIPME",
				"yes").Build()).Error(); err != nil {
				t.Fatal(err)
			}
		}
		e.freeze(2 * time.Second)
	}
}

// When the network drops a connection silently during a freeze, the probe finds out. The
// check must not, since it cannot be retried.
func TestThawWithSilentConnections(t *testing.T) {
	t.Parallel() // it mostly waits
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

// A busy function does not probe. One whose clock was set back does, since it cannot know
// how long it paused.
func TestProbesOnlyAfterAPause(t *testing.T) {
	server := valkeytest.Start(t)
	e := newEnvironment(t, server, server, 5*time.Second)
	if _, err := e.take(t); err != nil { // connects, and reads the policy set
		t.Fatal(err)
	}
	for _, c := range []struct {
		pause  time.Duration
		probes int
	}{{0, 0}, {0, 0}, {time.Second, 0}, {time.Second + time.Nanosecond, 1}, {0, 0}, {-time.Hour, 1}, {0, 0}} {
		before := e.getCount(t)
		e.freeze(c.pause)
		if _, err := e.take(t); err != nil {
			t.Fatal(err)
		}
		if probes := e.getCount(t) - before; probes != c.probes {
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
		t.Errorf("%d counted, %v; want 3: the first call, the lost one and its retry", counted, err)
	}
}

// A function that starts while Valkey is unavailable fails its calls until Valkey starts.
func TestStartsWhileValkeyIsUnavailable(t *testing.T) {
	t.Parallel() // it mostly waits
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

// A server that accepts connections and never replies holds a call only until the
// function's timeout.
func TestSilentServer(t *testing.T) {
	t.Parallel() // it mostly waits
	server := valkeytest.Start(t)
	e := newEnvironment(t, server, valkeytest.StartSilent(t), 10*time.Millisecond)
	for range 2 {
		if _, err := e.take(t); err == nil {
			t.Error("got an answer from a silent server")
		}
	}
}

// Usage records are sent after the answer, without another call. That takes at most
// VALKEY_TIMEOUT. While Valkey is unavailable the records stay for a later call.
func TestRecordsAreSentAfterTheAnswer(t *testing.T) {
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
			t.Fatalf("call %d: %d calls recorded in this minute, want 1", n, recorded())
		}
	}

	e.freeze(time.Minute)
	call()
	proxy.Silence()
	e.config.ValkeyTimeout = 20 * time.Millisecond
	e.sendRecords() // must return

	e.freeze(time.Minute)
	proxy.Cut()
	e.unavailable.Store(true)
	e.usage.Record(usage.Outcome{Subject: e.secret.ID(), Registered: true, Time: e.now()})
	e.sendRecords()
	e.config.ValkeyTimeout = waiting.Timeout
	call()
	if e.sendRecords(); recorded() != 2 {
		t.Errorf("%d calls recorded, want 2: the one that waited and the last", recorded())
	}
}

// defaults has the default timeouts.
var defaults = settings{
	ValkeyTimeout: 100 * time.Millisecond, ValkeyConnectTimeout: 5 * time.Second,
	ReservationLease: 10 * time.Minute,
}

// network is Valkey behind proxies that delay or drop replies.
type network struct {
	url     string
	proxies []*valkeytest.Proxy
	keys    environment
	secrets []apikey.Secret
}

// newNetwork starts one node, or a cluster of three, with 8 keys.
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

// startChecker returns the checker of a new environment, which begins to connect, and its
// log.
func (n *network) startChecker(t *testing.T, c settings) (*checker, *strings.Builder) {
	t.Helper()
	log := &strings.Builder{}
	c.ValkeyURL, c.pepper, c.CallerCache = n.url, n.keys.config.pepper, time.Hour
	handler := slog.New(slog.NewTextHandler(log, nil))
	metrics, err := newCallMetrics(log, "", handler, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	f := newChecker(c, handler, metrics, time.Now)
	f.start()
	return f, log
}

// countDenied makes one call with each key and returns how many Valkey did not allow.
func (n *network) countDenied(t *testing.T, f *checker) int {
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

// untilNoneDenied repeats run until it denies no call, and fails if every run denies
// some. With the default timeouts, a pause of the machine for 100 ms denies calls.
func untilNoneDenied(t *testing.T, run func() (denied int, log string)) {
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

// A log-in to Valkey may take longer than an answer may: no call is denied for it,
// neither the first of an environment nor those after Valkey closed the connections.
func TestSlowLogIns(t *testing.T) {
	for _, clustered := range []bool{false, true} {
		for _, delay := range []time.Duration{60 * time.Millisecond, 120 * time.Millisecond,
			time.Second} {
			name := map[bool]string{false: "node", true: "cluster"}[clustered]
			t.Run(fmt.Sprintf("%s, log-ins take %s", name, delay), func(t *testing.T) {
				t.Parallel()
				n := newNetwork(t, clustered)
				n.each(func(p *valkeytest.Proxy) { p.DelayFirstReplies(delay) })
				untilNoneDenied(t, func() (int, string) {
					f, log := n.startChecker(t, defaults)
					defer f.Close()
					denied := n.countDenied(t, f)
					n.each((*valkeytest.Proxy).Cut)
					return denied + n.countDenied(t, f), log.String()
				})
			})
		}
	}
}

// The first connection of an environment may fail.
func TestFirstConnectionIsDropped(t *testing.T) {
	for _, clustered := range []bool{false, true} {
		t.Run(map[bool]string{false: "node", true: "cluster"}[clustered], func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t, clustered)
			untilNoneDenied(t, func() (int, string) {
				n.proxies[0].DropReplies("HELLO", 1)
				f, log := n.startChecker(t, defaults)
				defer f.Close()
				return n.countDenied(t, f), log.String()
			})
		})
	}
}

// A connection that stopped working while idle is replaced, although the log-in is slow.
func TestSlowLogInAfterAThaw(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, false)
	untilNoneDenied(t, func() (int, string) {
		n.each(func(p *valkeytest.Proxy) { p.DelayFirstReplies(0) })
		f, log := n.startChecker(t, defaults)
		defer f.Close()
		denied := n.countDenied(t, f)
		<-time.After(idleLimit + 2*defaults.ValkeyTimeout) // makes the connection count as idle
		n.each(func(p *valkeytest.Proxy) { p.DelayFirstReplies(500 * time.Millisecond) })
		n.each((*valkeytest.Proxy).Silence)
		return denied + n.countDenied(t, f), log.String()
	})
}

// If Valkey never answers, the first call of an environment waits for the connection
// timeout. Later calls wait only as long as for an answer, and then do not wait.
func TestNoAnswerAtTheFirstConnection(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, false)
	working := n.url
	n.url = valkeytest.StartSilent(t)
	c := defaults
	c.ValkeyConnectTimeout = 2 * time.Second
	f, log := n.startChecker(t, c)
	var waited []time.Duration
	for range 4 {
		began := time.Now()
		if denied := n.countDenied(t, f); denied != len(n.secrets) {
			t.Errorf("%d calls were allowed", len(n.secrets)-denied)
		}
		waited = append(waited, time.Since(began))
	}
	if waited[0] < c.ValkeyConnectTimeout || max(waited[1], waited[2], waited[3]) > c.ValkeyConnectTimeout {
		t.Errorf("waited %s, want at least %s at first and less later", waited, c.ValkeyConnectTimeout)
	}
	if !f.connectTimedOut.Load() || !strings.Contains(log.String(), "decided without Valkey") {
		t.Errorf("log: %s", log)
	}
	n.url = working
	untilNoneDenied(t, func() (int, string) {
		healthy, log := n.startChecker(t, defaults)
		return n.countDenied(t, healthy), log.String()
	})
}

// When Valkey refuses connections, an environment that was connected decides at once, as
// the plan says.
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
