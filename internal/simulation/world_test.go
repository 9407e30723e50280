// Package simulation plays whole histories of an installation in one process, on virtual
// time and from a seed: environments with the real authorizer, decide and enforce, an
// operator with the real registry, and the embedded Valkey, over a connection that loses
// commands and replies. After every event the answer is compared with a plain list of the
// calls that were admitted. A seed always plays the same history:
//
//	go test ./internal/simulation -seed N
//
// It lacks the connector, whose time is real (local/faults plays that), the journal, and
// several shards.
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
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"tidegate/functions/check/authorizer"
	"tidegate/functions/check/identity"
	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/decide"
	"tidegate/internal/enforce"
	"tidegate/internal/registry"
	"tidegate/internal/testing/storetest"
)

var (
	pepper = apikey.Pepper(strings.Repeat("pepper!!", 4))
	byHand = registry.Edit{By: audit.Actor{Kind: "user", Name: "operator"}, Reason: "simulation"}
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
	now     time.Time     // of every clock but the server's
	ahead   time.Duration // of the server's clock
	server  *miniredis.Miniredis
	link    *link // of all environments
	store   *registry.Store
	envs    []*environment
	callers []*caller
	shared  map[string]*ledger // by address, and that of all calls
	plan    []bound            // limits in force, also of each address and of all calls
	perIP   []bound
	global  []bound
	touched []*ledger     // of the call that is being made
	edited  time.Time     // last edit
	back    time.Duration // by which the server's clock stepped back, in sum

	replica    []entry // what a failover brings back
	replicated time.Time

	history []string
	answers map[string]int // how often each answer was given
}

// environment is one Lambda environment of the check function.
type environment struct {
	*authorizer.Authorizer
	decided
	panics *strings.Builder
}

func newWorld(t *testing.T, seed int64) *world {
	w := &world{T: t, Rand: rand.New(rand.NewPCG(uint64(seed), 0)), seed: seed,
		now: time.Unix(1_800_000_000, 0), server: miniredis.RunT(t),
		shared: map[string]*ledger{}, answers: map[string]int{}}
	w.setClock()
	client := storetest.Connect(t, "valkey://"+w.server.Addr())
	w.store = registry.NewStore(client, pepper)
	w.store.Now, w.store.ForeignKeys = w.clock, true
	w.link = &link{Client: client, dead: storetest.Connect(t, "valkey://"+w.server.Addr()), world: w}
	w.link.dead.Close()
	w.setUp()
	for range 1 + w.IntN(4) {
		w.envs = append(w.envs, w.newEnvironment())
	}
	return w
}

func (w *world) clock() time.Time      { return w.now }
func (w *world) serverTime() time.Time { return w.now.Add(w.ahead) }

func (w *world) setClock() { w.server.SetTime(w.serverTime()) }

// pass lets time pass for everybody, in whole microseconds as states count it.
func (w *world) pass(d time.Duration) {
	d = d.Truncate(time.Microsecond)
	w.now = w.now.Add(d)
	w.server.FastForward(d)
	w.setClock()
}

// source connects an environment's Decider with its Checker, as the check function's
// connector does with a connection that it has: it checks again after a lost reply.
type source struct {
	*enforce.Checker
	link *link
}

func (s source) Check(ctx context.Context, call enforce.Call) (enforce.Result, error) {
	s.link.reset = false
	result, err := s.Checker.Check(ctx, call, nil)
	if err != nil && s.link.reset {
		call.Again = true
		return s.Checker.Check(ctx, call, nil)
	}
	return result, err
}

func (s source) Loaded() *enforce.Checker {
	if s.Set() == nil {
		return nil
	}
	return s.Checker
}

func (source) MustCheck() bool { return false }

func (w *world) newEnvironment() *environment {
	checker := enforce.NewChecker(w.link, pepper)
	checker.Now = w.clock
	_ = checker.Load(w.Context()) // the first check repeats it
	decider := decide.NewDecider(source{checker, w.link}, decide.Settings{Pepper: pepper,
		CallerCache: callerCache, DenyCache: denyCache, Sectors: 1}, w.clock)
	c := identity.Default()
	c.Pepper, c.Foreign = pepper, true
	identities, err := identity.New(c)
	if err != nil {
		w.Fatal(err)
	}
	e := &environment{panics: &strings.Builder{}}
	log := slog.New(slog.NewTextHandler(io.Writer(e.panics), &slog.HandlerOptions{Level: slog.LevelError}))
	e.Decider = decider
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

// answer is what a client sees of a call, but its wait is exact, without the spread of
// Retry-After.
type answer struct {
	status   int
	degraded bool
	wait     time.Duration // from the decision
	took     time.Duration
}

// send makes a call through an environment. The history ends if the answer is none.
func (w *world) send(e *environment, secret string, address netip.Addr) answer {
	event, err := json.Marshal(map[string]any{
		"type":              "REQUEST",
		"methodArn":         "arn:aws:execute-api:eu-west-1:123456789012:abcdef1234/prod/GET/orders",
		"headers":           map[string]string{"x-api-key": secret},
		"multiValueHeaders": map[string][]string{"x-api-key": {secret}},
		"requestContext": map[string]any{"stage": "prod", "requestId": "r",
			"identity": map[string]any{"sourceIp": address.String()}},
	})
	if err != nil {
		w.Fatal(err)
	}
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
		Context        struct{ Degraded bool }
	}
	if err := json.Unmarshal(raw, &got); err != nil || len(got.PolicyDocument.Statement) != 1 {
		w.fail("answer %s: %v", raw, err)
	}
	a := answer{status: http.StatusTooManyRequests, degraded: got.Context.Degraded,
		wait: e.result.RetryAfter()}
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
