//go:build linux

package crashes

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/valkeytest"
)

// state is the part of a key's record that the tests compare.
type state struct {
	Name             string
	Version          int64
	Revoked, Banned  bool
	Overridden, Gone bool
}

// key is the oracle's view of a key: the states that the key may be in. After a change
// without an answer there are two, since the change may or may not be stored.
type key struct {
	id       string
	possible []state
}

// action is a change through the API. edit makes the same change to a state. An urgent
// action takes effect even while S3 is unavailable.
type action struct {
	name   string
	method string
	path   string
	body   any
	urgent bool
	edit   func(*state)
}

func (s state) actions(n int) []action {
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	name := fmt.Sprint("renamed ", n)
	if s.Revoked {
		return []action{{"delete", http.MethodDelete, "", nil, true, func(k *state) { k.Gone = true }}}
	}
	all := []action{
		{"rename", http.MethodPatch, "", map[string]any{"name": name}, false,
			func(k *state) { k.Name = name }},
		{"revoke", http.MethodPost, "/revoke", map[string]any{}, true, func(k *state) { k.Revoked = true }},
		{"rotate", http.MethodPost, "/rotate", map[string]any{"grace": "0s"}, true, func(*state) {}},
	}
	if !s.Banned {
		ban := map[string]any{"until": until, "reason": "a test"}
		all = append(all, action{"ban", http.MethodPost, "/ban", ban, true,
			func(k *state) { k.Banned = true }})
	}
	if !s.Overridden {
		return append(all, action{"override", http.MethodPut, "/override", map[string]any{"reason": "a test"},
			false, func(k *state) { k.Overridden = true }})
	}
	return append(all, action{"end", http.MethodDelete, "/override", nil, false,
		func(k *state) { k.Overridden = false }})
}

// client makes changes through one environment.
type client struct {
	*world
	env          *environment
	random       *rand.Rand
	delay        func() time.Duration // of an answer of a slow store
	keys         []*key
	plan         *plan // changed by this client too; nil for none
	tokens       []*machineToken
	changes      int
	acknowledged int
	killed       int
	refused      int
}

// read returns a key's state and fails the test if the oracle does not allow that state.
func (c *client) read(k *key) state {
	c.t.Helper()
	stored, err := c.world.keys.Get(c.t.Context(), k.id)
	if err != nil && !errors.Is(err, policy.ErrNotFound) {
		c.t.Fatal(err)
	}
	got := state{Name: stored.Name, Version: stored.Version, Revoked: stored.Status == policy.Revoked,
		Banned: !stored.Banned.IsZero(), Overridden: stored.Override != nil}
	if err != nil {
		got = state{Gone: true}
	}
	if !slices.ContainsFunc(k.possible, func(s state) bool { return s == got || s.Gone && got.Gone }) {
		c.t.Fatalf("%s is %+v (%v), want one of %+v", k.id, got, err, k.possible)
	}
	k.possible = []state{got}
	return got
}

// create creates a key. The oracle ignores a key whose creation was not acknowledged.
func (c *client) create() {
	name := fmt.Sprint("key ", c.changes)
	a := c.send(c.env, http.MethodPost, "/api/v1/keys", map[string]string{"name": name, "plan": "free",
		"env": "test"}, nil)
	c.count(a)
	var made struct{ Key struct{ ID string } }
	if a.good() && json.Unmarshal(a.body, &made) == nil {
		c.keys = append(c.keys, &key{made.Key.ID, []state{{Name: name, Version: 1}}})
	}
}

func (c *client) count(a answer) {
	c.t.Helper()
	c.changes++
	switch {
	case a.good():
		c.acknowledged++
	case a.status == http.StatusServiceUnavailable:
		c.refused++
	case a.status > 0 && a.status < http.StatusInternalServerError:
		c.t.Fatalf("%d %s", a.status, a.body)
	}
}

// apply makes a change and records the states that the key may then be in. While S3 is
// broken, an acknowledged urgent change may still be lost.
func (c *client) apply(k *key, old state, do action, broken bool) answer {
	c.t.Helper()
	next := old
	next.Version++
	do.edit(&next)
	a := c.send(c.env, do.method, "/api/v1/keys/"+k.id+do.path, do.body,
		map[string]string{"If-Match": strconv.Quote(strconv.FormatInt(old.Version, 10))})
	c.count(a)
	k.possible = []state{old, next}
	if a.good() && (!broken || !do.urgent) {
		k.possible = []state{next}
	}
	return a
}

// change makes one random change. About half of the changes meet a fault.
func (c *client) change() {
	c.t.Helper()
	const maxKeys, maxRequests = 40, 16
	c.ready(c.env)
	switch fault := c.random.IntN(20); {
	case fault < 5:
		c.env.arm(killPoint{1 + c.random.IntN(maxRequests), c.random.IntN(2) == 0})
		c.killed++
	case fault == 5:
		c.env.setFaults(storeFaults{refused: 1 + c.random.IntN(6)})
	case fault == 6:
		c.env.setFaults(storeFaults{unavailable: true})
	case fault == 7:
		c.env.setFaults(storeFaults{delay: c.delay()})
	case fault == 8:
		c.env.setFaults(storeFaults{lost: 1 + c.random.IntN(2)})
	}
	broken := c.env.currentFaults() != storeFaults{}
	switch subject := c.random.IntN(10); {
	case c.plan != nil && subject == 0:
		c.changePlan()
	case c.plan != nil && subject == 1:
		c.changeTokens(broken)
	case len(c.keys) == 0 || len(c.keys) < maxKeys && c.random.IntN(4) == 0:
		c.create()
	default:
		i := c.random.IntN(len(c.keys))
		k := c.keys[i]
		switch now := c.read(k); {
		case now.Gone:
			c.keys = slices.Delete(c.keys, i, i+1)
		default:
			actions := now.actions(c.changes)
			c.apply(k, now, actions[c.random.IntN(len(actions))], broken)
		}
	}
	c.env.arm(killPoint{})
	c.env.setFaults(storeFaults{})
}

// longRun returns the number of changes of a long run, or 0 for a short run.
func longRun() int {
	changes, _ := strconv.Atoi(os.Getenv("CRASHES"))
	return changes
}

// Wherever the function is killed during a change, the change is stored once or not at
// all. An acknowledged change survives the loss of Valkey. A short run tests renames
// alone: kills before odd-numbered requests and after even-numbered ones.
func TestCrashPoints(t *testing.T) {
	w := newWorld(t, valkeytest.Start(t), 1, "always")
	if longRun() > 0 {
		w.crashPoints(1, "rename", "revoke", "rotate", "ban", "override")
	} else {
		w.crashPoints(2, "rename")
	}
}

// crashPoints makes each named kind of change repeatedly. It kills the function at a
// later request each time, until a change needs fewer requests.
func (w *world) crashPoints(stride int, names ...string) {
	w.t.Helper()
	c := &client{world: w, env: w.envs[0], random: rand.New(rand.NewPCG(1, 0))}
	c.ready(c.env)
	c.create()
	points := 0
	for _, name := range names {
		for _, after := range []bool{false, true} {
			first := 1
			if after {
				first = stride
			}
			for request := first; c.attempt(name, killPoint{request, after}); request += stride {
				points++
			}
		}
	}
	w.t.Logf("killed at %d points", points)
	if points < 6*len(names) {
		w.t.Errorf("killed at %d points, want at least %d", points, 6*len(names))
	}
	w.do("FLUSHALL")
	w.restore(false)
	c.check()
	w.checkAudit()
}

// attempt makes a change during which the function is to be killed. It reports whether
// the change was not acknowledged.
func (c *client) attempt(name string, at killPoint) bool {
	c.t.Helper()
	c.ready(c.env)
	named := func(a action) bool { return a.name == name }
	if len(c.keys) == 0 || !slices.ContainsFunc(c.read(c.keys[0]).actions(c.changes), named) {
		c.keys = nil
		c.create()
	}
	k := c.keys[0]
	now := c.read(k)
	actions := now.actions(c.changes)
	c.env.arm(at)
	a := c.apply(k, now, actions[slices.IndexFunc(actions, named)], false)
	c.env.arm(killPoint{})
	return !a.good()
}

// Two environments change keys, policies and machine tokens, and are killed at random
// requests. Meanwhile S3 is slow, throttles, loses answers or is unavailable, and Valkey
// loses everything or what it stored since its snapshot. No acknowledged change is lost,
// and no revoked key becomes valid again.
func TestChanges(t *testing.T) {
	changes := max(longRun(), 40)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	w := newWorld(t, valkeytest.Start(t), 2, "always")
	random := rand.New(rand.NewPCG(seed, 0))
	var clients []*client
	for i, e := range w.envs {
		c := &client{world: w, env: e, random: rand.New(rand.NewPCG(seed, uint64(i+1)))}
		c.delay = func() time.Duration { return time.Duration(c.random.IntN(1_500)) * time.Millisecond }
		c.plan = &plan{fmt.Sprint("client ", i), []int64{1}}
		clients = append(clients, c)
	}
	w.addPlans(clients)
	losses := 0
	w.do("SAVE")
	lose := func(words ...string) {
		w.do(words...)
		losses++
		w.restore(random.IntN(2) == 0)
		for _, c := range clients {
			c.check()
		}
	}
	for clients[0].changes+clients[1].changes < changes {
		var wait sync.WaitGroup
		for _, c := range clients {
			wait.Go(func() {
				for range 10 {
					c.change()
				}
			})
		}
		wait.Wait()
		if t.Failed() {
			return
		}
		switch random.IntN(8) {
		case 0, 1:
			w.do("SAVE")
		case 2:
			lose("FLUSHALL")
		case 3:
			lose("DEBUG", "RELOAD", "NOSAVE")
		case 4:
			w.checkpoint(random)
		}
	}
	lose("FLUSHALL")
	w.checkAudit()
	for i, c := range clients {
		t.Logf("environment %d: %d changes, %d acknowledged, %d refused, %d killed; Valkey lost %d times",
			i, c.changes, c.acknowledged, c.refused, c.killed, losses)
		if c.acknowledged < c.changes/3 {
			t.Errorf("environment %d: only %d of %d changes were acknowledged", i, c.acknowledged, c.changes)
		}
	}
}

// addPlans saves a plan for each client to change.
func (w *world) addPlans(clients []*client) {
	w.t.Helper()
	set, err := w.keys.Set(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range clients {
		set.Plans = append(set.Plans, policy.Plan{Name: c.plan.name,
			Limits: registrytest.Limits("1 per hour")})
	}
	if _, err := w.keys.SaveSet(w.t.Context(), *set, byTest); err != nil {
		w.t.Fatal(err)
	}
}

// checkpoint takes checkpoints of some random buckets, as a full bucket gets one.
func (w *world) checkpoint(random *rand.Rand) {
	w.t.Helper()
	for range 16 {
		if err := w.journal.Checkpoint(w.t.Context(),
			keyspace.Bucket(random.IntN(keyspace.Buckets))); err != nil {
			w.t.Fatal(err)
		}
	}
}
