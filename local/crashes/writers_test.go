//go:build linux

package crashes

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

// state is what the tests compare of a key, or of a plan: its number of requests.
type state struct {
	name            string
	requests        int64
	revoked, banned bool
}

// subject is a key, or a plan that has no id. possible are the states that it may be in:
// after a change without an answer it may be stored or not.
type subject struct {
	id, plan string
	possible []state
}

// edit is a change through the API, and the state after it.
type edit struct {
	name   string
	method string
	path   string
	body   any
	after  state
}

// edits returns what the tests do with a key, of which nobody can do anything once it is
// revoked.
func (s state) edits(id string, n int) []edit {
	if s.revoked {
		return nil
	}
	path, renamed, banned, revoked := "/keys/"+id, s, s, s
	renamed.name, banned.banned, revoked.revoked = fmt.Sprint("renamed ", n), true, true
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	return []edit{
		{"rename", http.MethodPatch, path, map[string]any{"name": renamed.name}, renamed},
		{"ban", http.MethodPost, path + "/ban", map[string]any{"until": until, "reason": "a test"}, banned},
		{"revoke", http.MethodPost, path + "/revoke", map[string]any{}, revoked},
	}
}

// client makes changes through one environment, and is the oracle of its subjects.
type client struct {
	*world
	env          *environment
	random       *rand.Rand
	subjects     []*subject // the first is a plan
	changes      int
	acknowledged int
	killed       int
}

// newClient returns a client with a plan of its own.
func (w *world) newClient(e *environment, random *rand.Rand) *client {
	w.t.Helper()
	plan := fmt.Sprint("plan of ", e.url)
	registrytest.Save(w.t, w.keys, byTest, registrytest.Plan(plan, registrytest.Limits("1 per hour")...))
	return &client{world: w, env: e, random: random,
		subjects: []*subject{{plan: plan, possible: []state{{name: plan, requests: 1}}}}}
}

// read returns a subject's state and its version, and fails the test if the oracle does not
// allow the state. After a change without an answer it first does what the minute does.
func (c *client) read(s *subject) (got state, version int64) {
	c.t.Helper()
	if len(s.possible) > 1 {
		waiting.Until(c.t, "catch up", func() bool { return c.keys.CatchUp(c.t.Context()) == nil })
	}
	if s.plan != "" {
		set, err := c.keys.Set(c.t.Context())
		if err != nil {
			c.t.Fatal(err)
		}
		p, _ := set.Plan(s.plan)
		got, version = state{name: p.Name, requests: p.Limits[0].Requests}, set.Version
	} else {
		k, err := c.keys.Get(c.t.Context(), s.id)
		if err != nil {
			c.t.Fatal(err)
		}
		got = state{name: k.Name, revoked: k.Status == policy.Revoked, banned: !k.Banned.IsZero()}
		version = k.Version
	}
	if !slices.Contains(s.possible, got) {
		c.t.Fatalf("%+v is %+v", s, got)
	}
	s.possible = []state{got}
	return got, version
}

// create creates a key. The oracle ignores a key whose creation was not acknowledged.
func (c *client) create() {
	name := fmt.Sprint("key ", c.changes)
	a := c.send(c.env, http.MethodPost, "/keys", map[string]string{"name": name, "plan": "open",
		"env": "test"}, 0)
	c.count(a)
	var made struct{ Key struct{ ID string } }
	if a.good() && json.Unmarshal(a.body, &made) == nil {
		c.subjects = append(c.subjects, &subject{id: made.Key.ID, possible: []state{{name: name}}})
	}
}

func (c *client) count(a answer) {
	c.t.Helper()
	c.changes++
	if a.good() {
		c.acknowledged++
	} else if a.status > 0 && a.status < http.StatusInternalServerError {
		c.t.Fatal(a)
	}
}

// edits returns what can be done with a subject.
func (c *client) edits(s *subject, now state) []edit {
	c.t.Helper()
	if s.plan == "" {
		return now.edits(s.id, c.changes)
	}
	a := c.send(c.env, http.MethodGet, "/policy", nil, 0)
	var document struct {
		Plans []map[string]any `json:"plans"`
	}
	if !a.good() || json.Unmarshal(a.body, &document) != nil {
		return nil
	}
	now.requests++
	for _, p := range document.Plans {
		if p["name"] == s.plan {
			p["limits"] = []any{map[string]any{"requests": now.requests, "window": "1h"}}
		}
	}
	return []edit{{"plan", http.MethodPut, "/policy?reason=test", map[string]any{"plans": document.Plans},
		now}}
}

// apply makes a change and records the states that the subject may then be in. A change
// that is not yet in force or not yet stored says so by 202.
func (c *client) apply(s *subject, version int64, do edit) answer {
	c.t.Helper()
	a := c.send(c.env, do.method, do.path, do.body, version)
	if s.plan != "" && a.status == http.StatusPreconditionFailed { // another client saved the policy
		return a
	}
	c.count(a)
	if s.possible = append(s.possible, do.after); a.good() && a.status != http.StatusAccepted {
		s.possible = []state{do.after}
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
		c.env.arm(killPoint{1 + c.random.IntN(maxRequests), c.random.IntN(2) == 0, syscall.SIGKILL})
		c.killed++
	case fault == 5:
		c.env.setFaults(storeFaults{refused: 1 + c.random.IntN(6)})
	case fault == 6:
		c.env.setFaults(storeFaults{away: true})
	case fault == 7:
		c.env.setFaults(storeFaults{delay: time.Duration(c.random.IntN(1_500)) * time.Millisecond})
	case fault == 8:
		c.env.setFaults(storeFaults{lost: 1 + c.random.IntN(2)})
	}
	s := c.subjects[c.random.IntN(len(c.subjects))]
	now, version := c.read(s)
	edits := c.edits(s, now)
	if len(c.subjects) < maxKeys && c.random.IntN(4) == 0 || len(edits) == 0 {
		c.create()
	} else {
		c.apply(s, version, edits[c.random.IntN(len(edits))])
	}
	c.env.arm(killPoint{})
	c.env.setFaults(storeFaults{})
}

// check compares all stored state with the client's part of the oracle.
func (c *client) check() {
	c.t.Helper()
	for _, s := range c.subjects {
		c.read(s)
	}
}

// longRun returns the number of changes of a long run, or 0 for a short run.
func longRun() int {
	changes, _ := strconv.Atoi(os.Getenv("CRASHES"))
	return changes
}

// Two environments change keys and the policy, and are killed at random requests. Meanwhile
// the store of the log is slow, refuses, loses answers or is away, and Valkey loses
// everything, or what it took since its snapshot. Nothing acknowledged is lost.
func TestTwoWriters(t *testing.T) {
	changes, seed := max(longRun(), 40), uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	w := newWorld(t, valkeytest.Start(t), 2)
	random := rand.New(rand.NewPCG(seed, 0))
	var clients []*client
	for i, e := range w.envs {
		clients = append(clients, w.newClient(e, rand.New(rand.NewPCG(seed, uint64(i+1)))))
	}
	losses := 0
	w.do("SAVE")
	lose := func(words ...string) {
		w.do(words...)
		losses++
		w.nextMinute()
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
		switch random.IntN(6) {
		case 0, 1:
			w.do("SAVE")
		case 2:
			lose("FLUSHALL")
		case 3:
			lose("DEBUG", "RELOAD", "NOSAVE")
		}
	}
	lose("FLUSHALL")
	for i, c := range clients {
		t.Logf("environment %d: %d changes, %d acknowledged, %d killed; Valkey lost %d times", i, c.changes,
			c.acknowledged, c.killed, losses)
		if c.acknowledged < c.changes/3 {
			t.Errorf("environment %d: only %d of %d changes were acknowledged", i, c.acknowledged, c.changes)
		}
	}
}

// Wherever the function is killed during a change, the change is stored once or not at all,
// and the next minute brings it to Valkey. A short run kills before requests with odd
// numbers and after those with even ones.
func TestKilledWriter(t *testing.T) {
	w := newWorld(t, valkeytest.Start(t), 1)
	c := w.newClient(w.envs[0], nil)
	stride, names := 2, []string{"plan", "rename"}
	if longRun() > 0 {
		stride, names = 1, []string{"plan", "rename", "ban", "revoke"}
	}
	points := 0
	for _, name := range names {
		for _, after := range []bool{false, true} {
			request := 1
			if after {
				request = stride
			}
			for ; c.attempt(name, killPoint{request, after, syscall.SIGKILL}); request += stride {
				points++
			}
		}
	}
	t.Logf("killed at %d points", points)
	if points < 6*len(names) {
		t.Errorf("killed at %d points, want at least %d", points, 6*len(names))
	}
	w.do("FLUSHALL")
	w.nextMinute()
	c.check()
}

// attempt makes a change during which the function is to be killed. It reports whether the
// change was not acknowledged.
func (c *client) attempt(name string, at killPoint) bool {
	c.t.Helper()
	c.ready(c.env)
	if name != "plan" {
		c.create()
	}
	s := c.subjects[len(c.subjects)-1]
	now, version := c.read(s)
	edits := c.edits(s, now)
	i := slices.IndexFunc(edits, func(e edit) bool { return e.name == name })
	c.env.arm(at)
	a := c.apply(s, version, edits[i])
	c.env.arm(killPoint{})
	before := c.newest()
	c.nextMinute()
	c.read(s)
	if after := c.newest(); after > before+1 { // only a mark is stored by the minute
		c.t.Errorf("%s: the minute made %d changes", name, after-before)
	}
	return !a.good()
}

// newest returns the number of the newest change.
func (w *world) newest() uint64 {
	w.t.Helper()
	page, err := w.keys.Audit(w.t.Context(), registry.AuditQuery{Count: 1})
	if err != nil || len(page.Entries) == 0 {
		w.t.Fatalf("the audit: %+v, %v", page, err)
	}
	return page.Entries[0].Number
}

// A writer is stopped at each of its requests, while another one renames the key, and then
// wakes. The other's name stays, and the sleeper's change is in the log exactly if its
// answer says so.
func TestSleepingWriter(t *testing.T) {
	w := newWorld(t, valkeytest.Start(t), 1)
	e := w.envs[0]
	stored, refused := 0, 0
	for request := 1; ; request++ {
		w.ready(e)
		k, _ := registrytest.Create(t, w.keys, byTest, policy.NewKey{Name: "before", Env: "test",
			Plan: "open"})
		reached := e.arm(killPoint{request, false, syscall.SIGSTOP})
		answered := make(chan answer, 1)
		go func() {
			answered <- w.send(e, http.MethodPatch, "/keys/"+k.ID, map[string]any{"name": "sleeper"},
				k.Version)
		}()
		select {
		case <-reached:
		case <-answered:
			t.Logf("stopped at %d requests: %d stored, %d refused", request-1, stored, refused)
			if stored == 0 || refused == 0 {
				t.Error("want some of both")
			}
			return
		}
		waiting.Until(t, "the other writer renames", func() bool {
			_, err := registrytest.Update(t.Context(), w.keys, k.ID, registry.KeyEdit, byTest,
				func(k *policy.Key) { k.Name = "other" })
			return err == nil
		})
		e.arm(killPoint{})
		e.signal(syscall.SIGCONT)
		a := waiting.For(t, "the sleeper's answer", answered)
		w.nextMinute()
		got, err := w.keys.Get(t.Context(), k.ID)
		if err != nil || got.Name != "other" {
			t.Errorf("request %d: got %+v, %v after %s", request, got, err, a)
		}
		page, err := w.keys.Audit(t.Context(), registry.AuditQuery{Subject: k.ID})
		if err != nil {
			t.Fatal(err)
		}
		edits := len(page.Entries) - 2
		if edits != 0 && edits != 1 || a.good() != (edits == 1) && a.status != http.StatusServiceUnavailable {
			t.Errorf("request %d: the sleeper's change is %d times in the log, after %s", request, edits, a)
		}
		if edits == 1 {
			stored++
		} else {
			refused++
		}
	}
}
