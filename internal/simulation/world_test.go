// Package simulation plays whole histories of an installation in one process, on virtual
// time and from a seed: environments with the real authorizer, decide, enforce and
// store.Retry, an operator with the real registry and its log, and the embedded Valkey in
// two shards, over connections that lose commands and replies. After every event the
// answer is compared with a plain list of the calls that were admitted. A seed always
// plays the same history, until the events are changed:
//
//	go test ./internal/simulation -seed N      replays the history of a seed
//	go test ./internal/simulation -fresh N     plays N histories of fresh seeds
//
// A seed that fails is kept in testdata/seeds, whose seeds are always played.
//
// It lacks what takes real time or a real network: the connector and its timeouts,
// redirections of a cluster, and replies in the wrong order. local/faults plays these.
package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/alicebob/miniredis/v2"

	"tidegate/functions/check/authorizer"
	"tidegate/functions/check/identity"
	"tidegate/internal/apikey"
	"tidegate/internal/decide"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/registry"
	"tidegate/internal/store"
	"tidegate/internal/testing/storetest"
)

var (
	pepper = apikey.Pepper(strings.Repeat("pepper!!", 4))
	byHand = registry.Edit{By: registry.Actor{Kind: "user", Name: "operator"}, Reason: "simulation"}
)

const (
	callerCache = time.Hour
	denyCache   = 100 * time.Millisecond
)

// world is an installation on virtual time.
type world struct {
	*testing.T
	*rand.Rand
	seed    int64
	real    time.Time     // when the history began, with a monotonic reading
	now     time.Time     // true time
	ahead   time.Duration // of the server's clock
	server  *miniredis.Miniredis
	link    *link // of all environments
	store   *registry.Store
	log     *memory // of changes
	envs    []*environment
	callers []*caller
	counts  map[string]*ledger // by identity
	dearest int64              // the largest cost that a policy has said
	plans   [2][]limits.Limit  // in force
	policy  []limits.Limit
	cost    int64     // of a call to reports now
	most    int64     // of a call to reports ever
	team    *override // of the group; nil for none
	touched []*ledger // by the call that is being made
	costs   map[*ledger]int64
	number  int       // of that call
	highest time.Time // the server's clock at its latest
	open    []settleable
	edited  time.Time // last edit
	empty   bool      // Valkey has lost everything

	replica    [shards][]entry   // what a failover brings back
	replicated [shards]time.Time // by the server's clock

	history []string
	answers map[string]int // how often each answer was given
}

// environment is one Lambda environment of the check function.
type environment struct {
	*authorizer.Authorizer
	decided
	panics  *strings.Builder
	checker *enforce.Checker

	world  *world
	skew   time.Duration // of the wall clock
	frozen time.Duration // by which the monotonic clock is late

	verified map[*caller]time.Time // when Valkey last accepted a caller's key here
	refused  map[*caller]bool      // Valkey's last answer was to refuse the caller
}

func newWorld(t *testing.T, seed int64) *world {
	w := &world{T: t, Rand: rand.New(rand.NewPCG(uint64(seed), 0)), seed: seed, real: time.Now(),
		now: time.Unix(1_800_000_000, 0), server: miniredis.RunT(t),
		counts: map[string]*ledger{}, answers: map[string]int{}}
	w.setClock()
	client := storetest.Connect(t, "valkey://"+w.server.Addr())
	w.log = &memory{byName: map[string]object{}}
	w.store = registry.New(client, w.log, pepper)
	w.store.Now, w.store.ForeignKeys = w.serverTime, true
	if err := w.store.Start(w.Context()); err != nil {
		w.Fatal(err)
	}
	w.link = &link{Client: client, world: w}
	w.setUp()
	for range 1 + w.IntN(4) {
		w.envs = append(w.envs, w.newEnvironment())
	}
	return w
}

func (w *world) serverTime() time.Time { return w.now.Add(w.ahead) }

func (w *world) setClock() { w.server.SetTime(w.serverTime()) }

// pass lets time pass for everybody, in whole microseconds as states count it.
func (w *world) pass(d time.Duration) {
	d = d.Truncate(time.Microsecond)
	w.now = w.now.Add(d)
	w.server.FastForward(d)
	w.setClock()
}

// freeze lets time pass while Lambda has frozen some environments: their monotonic clocks
// stand still.
func (w *world) freeze(d time.Duration) {
	for _, e := range w.envs {
		if w.IntN(2) == 0 {
			e.frozen += d
		}
	}
	w.pass(d)
}

// clock is the environment's time.Now.
func (e *environment) clock() time.Time {
	wall := e.world.now.Add(e.skew)
	now := e.world.real.Add(wall.Sub(e.world.real.Round(0)))
	reading := (*struct {
		wall uint64
		ext  int64
		loc  *time.Location
	})(unsafe.Pointer(&now)) // the layout of time.Time, whose monotonic reading nothing else sets
	reading.ext -= int64(e.frozen)
	return now
}

// source connects an environment's Decider with its Checker, as the check function's
// connector does with a connection that it has.
type source struct{ *enforce.Checker }

func (s source) Check(ctx context.Context, call enforce.Call) (enforce.Result, error) {
	return store.Retry(ctx, func(ctx context.Context) (enforce.Result, error) {
		result, err := s.Checker.Check(ctx, call)
		call.Again = true
		return result, err
	})
}

func (s source) Loaded() *enforce.Checker {
	if s.Set() == nil {
		return nil
	}
	return s.Checker
}

func (w *world) newEnvironment() *environment {
	e := &environment{panics: &strings.Builder{}, world: w, refused: map[*caller]bool{},
		verified: map[*caller]time.Time{}, skew: time.Duration(w.IntN(1200)-600) * time.Second}
	checker := enforce.NewChecker(w.link, pepper)
	checker.Now, e.checker = e.clock, checker
	_ = checker.Load(w.Context()) // the first check repeats it
	e.Decider = decide.NewDecider(source{checker}, decide.Settings{CallerCache: callerCache,
		DenyCache: denyCache, Sectors: 16}, e.clock)
	c := identity.Default()
	c.Pepper, c.Foreign = pepper, true
	identities, err := identity.New(c)
	if err != nil {
		w.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(io.Writer(e.panics), &slog.HandlerOptions{Level: slog.LevelError}))
	e.Authorizer = authorizer.New(&e.decided, identities, authorizer.Answers{}, log)
	return e
}

// decided is the Checker of an Authorizer, and its last result.
type decided struct {
	*decide.Decider
	result enforce.Result
}

func (d *decided) Check(ctx context.Context, call enforce.Call) (enforce.Result, error) {
	result, _, err := d.Decide(ctx, call)
	d.result = result
	return result, err
}

// answer is what a client sees of a call, and the result behind it. Its wait is exact,
// without the spread of Retry-After.
type answer struct {
	status     int
	degraded   bool
	wait, took time.Duration // from the decision; of the call
	retryAfter time.Duration // the client's, in whole seconds
	repeated   bool          // Valkey was not asked
	enforce.Result
}

// send makes a call through an environment. The history ends if the answer is none.
func (w *world) send(e *environment, secret string, t target) answer {
	event, err := json.Marshal(map[string]any{
		"type":              "REQUEST",
		"methodArn":         "arn:aws:execute-api:eu-west-1:123456789012:abcdef1234/prod/GET" + t.path,
		"headers":           map[string]string{"x-api-key": secret},
		"multiValueHeaders": map[string][]string{"x-api-key": {secret}},
		"requestContext": map[string]any{"stage": "prod", "requestId": "r",
			"identity": map[string]any{"sourceIp": t.address.String()}},
	})
	if err != nil {
		w.Fatal(err)
	}
	asked := w.link.flushes
	raw, err := e.Invoke(w.Context(), event)
	switch {
	case strings.Contains(e.panics.String(), "panicked"):
		w.fail("the authorizer panicked: %s", e.panics)
	case errors.Is(err, authorizer.ErrUnauthorized):
		return answer{status: http.StatusUnauthorized}
	case err != nil:
		w.fail("a client gets 500: %v", err)
	}
	var got struct {
		PolicyDocument struct{ Statement []struct{ Effect string } }
		Context        struct {
			Degraded   bool
			RetryAfter int64 `json:",string"`
		}
	}
	if err := json.Unmarshal(raw, &got); err != nil || len(got.PolicyDocument.Statement) != 1 {
		w.fail("answer %s: %v", raw, err)
	}
	a := answer{status: http.StatusTooManyRequests, degraded: got.Context.Degraded, Result: e.result,
		repeated: w.link.flushes == asked,
		wait:     e.result.RetryAfter(), retryAfter: time.Duration(got.Context.RetryAfter) * time.Second}
	if got.PolicyDocument.Statement[0].Effect == "Allow" {
		a.status = http.StatusOK
	}
	return a
}

func (w *world) note(format string, args ...any) {
	w.history = append(w.history, w.now.UTC().Format("15:04:05.000000 ")+fmt.Sprintf(format, args...))
}

// fail ends the test with the history so far.
func (w *world) fail(format string, args ...any) {
	w.Helper()
	w.Fatalf("%s\n%s\nreplay: go test ./internal/simulation -seed %d",
		strings.Join(w.history, "\n"), fmt.Sprintf(format, args...), w.seed)
}
