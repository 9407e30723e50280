package main

import (
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/registry"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

// allowance is the limit of the test's plan. It is small enough for an exact log.
const allowance = 200

// environment is a connector with a key that may call, a clock, and another connection to
// the server.
type environment struct {
	*connector
	admin  valkey.Client
	keys   *registry.Store
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
	e.keys = registrytest.New(t, e.admin, e.config.pepper)
	registrytest.Save(t, e.keys, registrytest.Edit,
		registrytest.Plan("free", registrytest.Limits(fmt.Sprint(allowance, " per day"))...))
	e.secret = e.newKey(t)
}

func (e *environment) newKey(t *testing.T) apikey.Secret {
	t.Helper()
	_, secret := registrytest.Create(t, e.keys, registrytest.Edit,
		policy.NewKey{Name: "caller", Env: "test", Plan: "free"})
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

var probe = regexp.MustCompile(`\[0 (?:\d+\.){3}\d+:\d+\] "HGET"`)

// A busy function does not probe. One whose clock was set back does, since it cannot know
// how long it paused.
func TestProbesOnlyAfterAPause(t *testing.T) {
	server := valkeytest.Start(t)
	e := newEnvironment(t, server, server, 5*time.Second)
	if _, err := e.take(t); err != nil { // connects, and reads the policy set
		t.Fatal(err)
	}
	monitor := valkeytest.StartMonitor(t, server)
	for _, c := range []struct {
		pause  time.Duration
		probes int
	}{{0, 0}, {0, 0}, {time.Second, 0}, {time.Second + time.Nanosecond, 1}, {0, 0}, {-time.Hour, 1}, {0, 0}} {
		e.freeze(c.pause)
		if _, err := e.take(t); err != nil {
			t.Fatal(err)
		}
		probes := 0
		for _, command := range monitor.Commands() { // that are not of a script
			if probe.MatchString(command) {
				probes++
			}
		}
		if probes != c.probes {
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

// Records are sent after the answer, without another call. That takes at most
// VALKEY_TIMEOUT. While Valkey is unavailable the records stay for a later call.
func TestRecordsAreSentAfterTheAnswer(t *testing.T) {
	server := valkeytest.Start(t)
	proxy := valkeytest.StartProxy(t, server, nil)
	e := newEnvironment(t, server, proxy.URL(), waiting.Timeout)
	e.records = records.NewRecorder(e.now)
	reader := records.NewReader(e.admin, e.now)
	recorded := func() int64 { // in this minute
		s, err := reader.Total(t.Context(), records.Last(time.Minute, 0, e.now()))
		if err != nil {
			t.Fatal(err)
		}
		return s.Sum().Allowed
	}
	call := func() {
		if _, err := e.take(t); err != nil {
			t.Fatal(err)
		}
		e.records.Record(records.Call{Caller: e.secret.ID(), Registered: true, Time: e.now()})
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
	e.records.Record(records.Call{Caller: e.secret.ID(), Registered: true, Time: e.now()})
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
	SettleWithin: 10 * time.Minute,
}

// network is a Valkey with 8 keys.
type network struct {
	url     string
	keys    environment
	secrets []apikey.Secret
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{url: valkeytest.Start(t)}
	n.keys.connector = newConnector(settings{pepper: apikey.Pepper("only for this test, and long enough")},
		time.Now)
	n.keys.prepare(t, n.url)
	for range 8 {
		n.secrets = append(n.secrets, n.keys.newKey(t))
	}
	return n
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

// If Valkey never answers, the first call of an environment waits for the connection
// timeout. Later calls wait only as long as for an answer, and then do not wait.
func TestNoAnswerAtTheFirstConnection(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
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
