//go:build linux

package crashes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/journal"
	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
	"tidegate/local/gateway"
	"tidegate/local/lambda"
)

// caller is a key and its secret.
type caller struct {
	key    policy.Key
	secret string
}

// callers creates keys of two plans, as many of each as given: one plan allows calls
// without Valkey, the other denies them. With 12 keys a shard has some of each.
func (w *world) callers(each int) map[string][]caller {
	w.t.Helper()
	const requests = 1_000_000
	set, err := w.keys.Set(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	made := map[string][]caller{}
	for _, degraded := range []policy.Degraded{policy.Open, policy.Closed} {
		set.Plans = append(set.Plans, policy.Plan{Name: string(degraded), Degraded: degraded,
			Limits: registrytest.Limits(fmt.Sprint(requests, " per hour"))})
	}
	if _, err := w.keys.SaveSet(w.t.Context(), *set, byTest); err != nil {
		w.t.Fatal(err)
	}
	for _, plan := range []string{string(policy.Open), string(policy.Closed)} {
		for i := range each {
			n := policy.NewKey{Name: fmt.Sprint(plan, i), Env: "test", Plan: plan}
			k, secret := registrytest.Create(w.t, w.keys, byTest, n)
			made[plan] = append(made[plan], caller{k, secret.Reveal()})
		}
	}
	return made
}

// oneEnvironment is a check function of one environment, so that it knows every caller.
// Calls wait for one another, since Lambda would throttle them.
type oneEnvironment struct {
	*lambda.Function
	turn sync.Mutex
}

func (e *oneEnvironment) Invoke(ctx context.Context, event []byte) ([]byte, error) {
	e.turn.Lock()
	defer e.turn.Unlock()
	return e.Function.Invoke(ctx, event)
}

// call returns the status that a client of a REST API sees, and whether the decision was
// made without Valkey.
func call(t *testing.T, f gateway.Invoker, secret string) (status int, degraded bool) {
	t.Helper()
	event, err := json.Marshal(map[string]any{
		"type":              "REQUEST",
		"methodArn":         "arn:aws:execute-api:eu-west-1:123456789012:abcdef1234/prod/GET/orders",
		"headers":           map[string]string{"x-api-key": secret},
		"multiValueHeaders": map[string][]string{"x-api-key": {secret}},
		"requestContext": map[string]any{"stage": "prod", "requestId": "r",
			"identity": map[string]any{"sourceIp": "192.0.2.1"}},
	})
	if err != nil {
		t.Error(err)
	}
	payload, err := f.Invoke(t.Context(), event)
	switch {
	case err != nil && strings.Contains(err.Error(), "Unauthorized"):
		return http.StatusUnauthorized, false
	case err != nil:
		t.Error(err)
		return http.StatusInternalServerError, false
	}
	var answer struct {
		PolicyDocument struct{ Statement []struct{ Effect string } }
		Context        map[string]any
	}
	if err := json.Unmarshal(payload, &answer); err != nil {
		t.Error(err)
	}
	degraded, _ = answer.Context["degraded"].(bool)
	if answer.PolicyDocument.Statement[0].Effect == "Allow" {
		return http.StatusOK, degraded
	}
	return http.StatusTooManyRequests, degraded
}

// startCheck starts the built check function and makes one call of each caller, so that
// the function knows them all.
func startCheck(t *testing.T, url string, callers map[string][]caller) *oneEnvironment {
	t.Helper()
	var check oneEnvironment
	var err error
	check.Function, err = lambda.Start(lambda.Config{Name: "check", Binary: build(t, "check"),
		Warm: 1, NoFreeze: true, Timeout: waiting.Timeout, Env: map[string]string{"VALKEY_URL": url,
			"KEY_PEPPER": string(pepper), "VALKEY_TIMEOUT": "5s", "CALLER_CACHE": "1h"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(check.Close)
	for _, c := range append(callers["open"], callers["closed"]...) {
		if status, degraded := call(t, &check, c.secret); status != http.StatusOK || degraded {
			t.Fatalf("%s: got %d, degraded %v, want 200 by Valkey", c.key.Name, status, degraded)
		}
	}
	return &check
}

// anyDegraded reports whether any caller gets a degraded answer. It fails the test if a
// status differs from what the caller's plan says for normal or degraded answers.
func anyDegraded(t *testing.T, f *oneEnvironment, callers map[string][]caller) (found bool) {
	t.Helper()
	for plan, of := range callers {
		for _, c := range of {
			status, degraded := call(t, f, c.secret)
			want := http.StatusOK
			if degraded && plan == "closed" {
				want = http.StatusTooManyRequests
			}
			if status != want {
				t.Errorf("%s: got %d, degraded %v, want %d", c.key.Name, status, degraded, want)
			}
			found = found || degraded
		}
	}
	return found
}

// journalStatus returns the API's status of the journal.
func (w *world) journalStatus() (status struct{ Unsafe, Behind int }) {
	w.t.Helper()
	a := w.send(w.envs[0], http.MethodGet, "/api/v1/journal", nil, nil)
	if err := json.Unmarshal(a.body, &status); err != nil || !a.good() {
		w.t.Fatalf("%d %s", a.status, a.body)
	}
	return status
}

// flushShard empties a primary other than that with the machine tokens.
func flushShard(t *testing.T, nodes []string) {
	t.Helper()
	for _, node := range nodes {
		client := dial(t, node)
		tokens := client.B().Exists().Key(keyspace.Tokens).Build()
		if err := client.Do(t.Context(), tokens).Error(); err == nil {
			continue
		}
		if err := client.Do(t.Context(), client.B().Flushall().Build()).Error(); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatal("every shard has the tokens")
}

// The next start notices that a shard of a cluster has lost everything. Until the
// restore, its callers get degraded answers, and none is refused as unknown. Edits of the
// shard's keys are refused.
func TestLostShard(t *testing.T) {
	for _, restore := range []string{"ask", "always"} {
		t.Run(restore, func(t *testing.T) {
			nodes := valkeytest.StartCluster(t, 3, 0)
			url := nodes[0] + "?cluster=true"
			w := newWorld(t, url, 1, restore)
			callers := w.callers(12)
			check := startCheck(t, url, callers)
			w.ready(w.envs[0])
			flushShard(t, nodes)
			if !anyDegraded(t, check, callers) {
				t.Fatal("no caller has a key on the emptied shard")
			}
			w.envs[0].kill()
			w.ready(w.envs[0])
			if restore == "ask" {
				if status := w.journalStatus(); status.Behind == 0 {
					t.Fatalf("the loss was not noticed: %+v", status)
				}
				if !anyDegraded(t, check, callers) {
					t.Error("after the loss was noticed, no caller gets a degraded answer")
				}
				w.restoreByHand(callers)
			}
			waiting.Until(t, "everything is restored", func() bool { return w.journalStatus().Behind == 0 })
			decided := func() bool { return !anyDegraded(t, check, callers) }
			waiting.Until(t, "every call is decided by Valkey", decided)
			w.checkAudit()
		})
	}
}

// restoreByHand checks that an edit is refused, and restores through the API.
func (w *world) restoreByHand(callers map[string][]caller) {
	w.t.Helper()
	refused := 0
	for _, of := range callers { // at least one is on the shard
		for _, c := range of {
			a := w.send(w.envs[0], http.MethodPost, "/api/v1/keys/"+c.key.ID+"/reset", map[string]any{}, nil)
			if a.status == http.StatusNotFound || a.status == http.StatusServiceUnavailable {
				refused++
			}
		}
	}
	if refused == 0 {
		w.t.Error("no edit was refused")
	}
	waiting.Until(w.t, "the restore leaves nothing", func() bool {
		var done struct{ Left int }
		a := w.send(w.envs[0], http.MethodPost, "/api/v1/journal/restore", nil, nil)
		return a.good() && json.Unmarshal(a.body, &done) == nil && done.Left == 0
	})
}

// Clients call while Valkey loses everything and is restored. No caller is refused as
// unknown, known callers get the answers of their plans, and keys that are revoked or
// unknown never pass.
func TestLossUnderLoad(t *testing.T) {
	for _, restore := range []string{"ask", "always"} {
		t.Run(restore, func(t *testing.T) {
			url := valkeytest.Start(t)
			w := newWorld(t, url, 1, restore)
			callers := w.callers(5)
			check := startCheck(t, url, callers)
			w.ready(w.envs[0])
			l := startLoad(t, check, callers, w.refusedSecrets())
			w.do("FLUSHALL")
			l.lose()
			w.envs[0].kill() // the next start notices the loss at once; /healthz would within a minute
			if restore == "ask" {
				w.restoreByCommand()
			} else {
				waiting.Until(t, "the function has restored", func() bool {
					w.send(w.envs[0], http.MethodGet, "/healthz", nil, nil)
					return w.send(w.envs[0], http.MethodGet, "/api/v1/journal", nil, nil).good()
				})
			}
			waiting.Until(t, "every call is decided by Valkey", func() bool {
				if !anyDegraded(t, check, callers) {
					return true
				}
				if restore == "always" { // the next start continues a restore that took too long
					w.envs[0].kill()
					w.send(w.envs[0], http.MethodGet, "/healthz", nil, nil)
				}
				return false
			})
			l.end()
			t.Logf("%s: %s", restore, l)
			for _, plan := range []string{"open", "closed"} {
				for _, c := range callers[plan] {
					if k, err := w.keys.Get(t.Context(), c.key.ID); err != nil || k.Name != c.key.Name {
						t.Errorf("%s: %+v, %v", c.key.Name, k, err)
					}
				}
			}
		})
	}
}

// restoreByCommand restores as ./scripts/restore does, since the API's machine tokens are
// lost too. A slow store takes several runs.
func (w *world) restoreByCommand() {
	w.t.Helper()
	waiting.Until(w.t, "a restore without an error", func() bool {
		_, err := w.journal.RestoreAll(w.t.Context(), w.keys, journal.Options{}, nil, nil)
		if err != nil {
			w.t.Log(err)
		}
		return err == nil
	})
}

// refusedSecrets returns the secrets of a revoked and of an unknown key.
func (w *world) refusedSecrets() []string {
	w.t.Helper()
	k, revoked, err := w.keys.Create(w.t.Context(), policy.NewKey{Name: "revoked", Env: "test",
		Plan: string(policy.Open)}, byTest)
	if err == nil {
		_, err = registrytest.Revoke(w.t.Context(), w.keys, k.ID, k.Version, byTest)
	}
	unknown, generated := apikey.Generate("test")
	if err := errors.Join(err, generated); err != nil {
		w.t.Fatal(err)
	}
	return []string{revoked.Reveal(), unknown.Reveal()}
}

// load calls for each caller in turn, and counts the answers.
type load struct {
	mu       sync.Mutex
	answers  map[string]int
	lostAt   time.Time
	restored time.Time // the last degraded answer
	stop     context.CancelFunc
	running  sync.WaitGroup
}

func startLoad(t *testing.T, check *oneEnvironment, callers map[string][]caller, refused []string) *load {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &load{answers: map[string]int{}, stop: stop}
	l.running.Go(func() {
		for ctx.Err() == nil {
			for plan, of := range callers {
				for _, c := range of {
					status, degraded := call(t, check, c.secret)
					l.note(plan, status, degraded)
					if status == http.StatusUnauthorized {
						t.Errorf("%s: got 401", c.key.Name)
					}
				}
			}
			for i, secret := range refused {
				if status, _ := call(t, check, secret); status == http.StatusOK {
					t.Errorf("refused key %d: got 200", i)
				}
			}
		}
	})
	t.Cleanup(l.end)
	return l
}

func (l *load) note(plan string, status int, degraded bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if degraded {
		l.restored = time.Now()
		plan += " without Valkey"
	}
	l.answers[fmt.Sprintf("%s: %d", plan, status)]++
}

func (l *load) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lostAt = time.Now()
}

func (l *load) end() {
	l.stop()
	l.running.Wait()
}

func (l *load) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("answers %v; decided without Valkey for %s", l.answers,
		l.restored.Sub(l.lostAt).Round(time.Millisecond))
}

// A primary of a cluster dies, and a replica without the newest changes is elected in its
// place. The function notices the loss at its next start and restores the changes.
func TestFailover(t *testing.T) {
	const primaries, keys = 3, 24
	nodes := valkeytest.StartCluster(t, primaries, 1)
	hosts := make([]string, len(nodes))
	for i, node := range nodes {
		hosts[i] = strings.TrimPrefix(node, "valkey://")
	}
	w := newWorld(t, "valkey://"+strings.Join(hosts, ",")+"?cluster=true", 1, "always")
	c := &client{world: w, env: w.envs[0], random: rand.New(rand.NewPCG(1, 0))}
	w.ready(c.env)
	for range keys {
		c.create()
	}
	victim := nodes[0]
	replica := replicaOf(t, victim, nodes[primaries:])
	waiting.Until(t, "the replica is in sync", func() bool { return offset(t, victim) == offset(t, replica) })
	// The replica can be elected after any pause.
	valkeytest.Ask(t, replica, "CONFIG", "SET", "cluster-replica-validity-factor", "0")
	stopped := processOf(t, replica)
	signal(t, stopped, syscall.SIGSTOP)
	valkeytest.Ask(t, victim, "CLIENT", "KILL", "TYPE", "REPLICA")
	for i, k := range c.keys {
		now := c.read(k)
		actions := now.actions(i)
		if a := c.apply(k, now, actions[i%len(actions)], false); !a.good() {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	signal(t, processOf(t, victim), syscall.SIGKILL)
	signal(t, stopped, syscall.SIGCONT)
	waiting.Until(t, "the replica is elected", func() bool {
		return infoField(t, replica, "replication", "role") == "master"
	})
	lost := 0
	for _, k := range c.keys {
		var stored policy.Key
		waiting.Until(t, "the cluster answers", func() (answered bool) {
			var err error
			stored, err = w.keys.Get(t.Context(), k.id)
			return err == nil
		})
		if !slices.ContainsFunc(k.possible, func(s state) bool { return s.Version == stored.Version }) {
			lost++
		}
	}
	if lost == 0 {
		t.Fatal("the replica has every change, so the test restores nothing")
	}
	c.env.kill()
	w.ready(c.env)
	waiting.Until(t, "everything is restored", func() bool { return w.journalStatus().Behind == 0 })
	c.check()
	w.checkAudit()
	t.Logf("the failover lost %d of %d acknowledged changes, and all were restored", lost, c.acknowledged)
}

// replicaOf returns the node that replicates a primary.
func replicaOf(t *testing.T, primary string, nodes []string) string {
	t.Helper()
	port := primary[strings.LastIndex(primary, ":")+1:]
	i := slices.IndexFunc(nodes, func(node string) bool {
		return infoField(t, node, "replication", "master_port") == port
	})
	if i < 0 {
		t.Fatal("the primary has no replica")
	}
	return nodes[i]
}

// offset returns a node's position in the replication stream.
func offset(t *testing.T, node string) string {
	t.Helper()
	return infoField(t, node, "replication", "master_repl_offset")
}
