package main

import (
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
	})}
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

// A function that starts while Valkey is away fails its calls, and serves them as soon as
// Valkey is there.
func TestStartsWhileValkeyIsAway(t *testing.T) {
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
// for a time-out at most, and waits where it is while Valkey is away.
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
	e.away.Store(true)
	e.usage.Record(usage.Outcome{Subject: e.secret.ID(), Registered: true, Time: e.now()})
	e.sendRecords()
	e.config.ValkeyTimeout = waiting.Timeout
	call()
	if e.sendRecords(); recorded() != 2 {
		t.Errorf("%d calls are recorded, want the one that waited and the last", recorded())
	}
}
