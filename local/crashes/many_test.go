//go:build linux

package crashes

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tidegate/functions/admin/auth/token"
	"tidegate/internal/audit"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/waiting"
)

// changesPerWorld is the number of changes after which a long run starts a new world. It
// bounds what a restore reads.
const changesPerWorld = 1_000

// totals counts the changes and losses of the worlds of TestManyChanges.
type totals struct{ changes, acknowledged, refused, killed, flushed, reloaded, failedOver atomic.Int64 }

// TestChanges with more changes, in the test's process. Two environments change keys,
// policies and machine tokens, and end at random steps. Meanwhile the journal's store is
// slow, throttles, loses answers or is unavailable. Valkey loses everything or what it
// stored since its snapshot, or fails over to a replica that lags.
func TestManyChanges(t *testing.T) {
	changes := max(longRun(), 200)
	seed := uint64(time.Now().UnixNano())
	var all totals
	t.Cleanup(func() {
		t.Logf("seed %d: %d changes, %d acknowledged, %d refused, %d killed; Valkey flushed %d times, "+
			"reloaded %d times, failed over %d times", seed, all.changes.Load(), all.acknowledged.Load(),
			all.refused.Load(), all.killed.Load(), all.flushed.Load(), all.reloaded.Load(),
			all.failedOver.Load())
	})
	for n := range (changes + changesPerWorld - 1) / changesPerWorld {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			newMany(t, seed+uint64(n), &all).run(min(changes, changesPerWorld))
		})
	}
}

// TestCrashPoints at every request of every kind of change.
func TestManyCrashPoints(t *testing.T) {
	newMany(t, 1, nil).crashPoints(1, "rename", "revoke", "rotate", "ban", "override")
}

// many is a world whose environments run in the test's process.
type many struct {
	*world
	pair    *pair
	random  *rand.Rand
	clients []*client
	totals  *totals
}

func newMany(t *testing.T, seed uint64, totals *totals) *many {
	t.Helper()
	const environments = 2
	valkey := startPair(t)
	m := &many{pair: valkey, random: rand.New(rand.NewPCG(seed, 0)), totals: totals}
	gate, err := (&gates{}).startValkey(valkey.target, func() {}) // for the test itself; follows a failover
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		gate.close()
		gate.running.Wait()
	})
	journalStore := openStore(t, t.TempDir())
	m.world = fill(t, gate.url(), journalStore)
	for i := range environments {
		e := startInProcess(t, valkey.target, journalStore)
		c := &client{world: m.world, env: e, random: rand.New(rand.NewPCG(seed, uint64(i+1)))}
		c.delay = func() time.Duration {
			if c.random.IntN(100) == 0 {
				return 2_500 * time.Millisecond // longer than a save waits for the store
			}
			return time.Duration(c.random.IntN(10)) * time.Millisecond
		}
		c.plan = &plan{fmt.Sprint("client ", i), []int64{1}}
		m.envs, m.clients = append(m.envs, e), append(m.clients, c)
	}
	set, err := m.keys.Set(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range m.clients {
		set.Plans = append(set.Plans, policy.Plan{Name: c.plan.name,
			Limits: []limiter.Limit{{Requests: 1, Window: time.Hour}}})
	}
	if _, err := m.keys.SaveSet(t.Context(), *set, byTest); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *many) run(changes int) {
	m.t.Helper()
	m.do("SAVE")
	for round := 0; m.changes() < changes && !m.t.Failed(); round++ {
		m.round()
		switch round % 8 {
		case 0:
			m.do("SAVE")
		case 1:
			m.checkpoint()
		case 2:
			m.do("FLUSHALL")
			m.totals.flushed.Add(1)
			m.recover()
		case 4:
			m.do("DEBUG", "RELOAD", "NOSAVE")
			m.totals.reloaded.Add(1)
			m.recover()
		case 6:
			m.failOver()
		}
	}
	if m.t.Failed() {
		return
	}
	m.do("FLUSHALL")
	m.totals.flushed.Add(1)
	m.recover()
	m.checkAudit()
	for _, c := range m.clients {
		m.totals.changes.Add(int64(c.changes))
		m.totals.acknowledged.Add(int64(c.acknowledged))
		m.totals.refused.Add(int64(c.refused))
		m.totals.killed.Add(int64(c.killed))
		if c.acknowledged < c.changes/3 {
			m.t.Errorf("only %d of %d changes were acknowledged", c.acknowledged, c.changes)
		}
	}
}

func (m *many) changes() int { return m.clients[0].changes + m.clients[1].changes }

// round makes some changes in every environment at once, unless Valkey is down.
func (m *many) round() {
	m.t.Helper()
	const changes = 10
	var wait sync.WaitGroup
	for _, c := range m.clients {
		wait.Go(func() {
			for n := 0; n < changes && !m.down.Load(); n++ {
				c.change()
			}
		})
	}
	wait.Wait()
}

// checkpoint takes checkpoints of some random buckets, as a full bucket gets one.
func (m *many) checkpoint() {
	m.t.Helper()
	for range 16 {
		b := keyspace.Bucket(m.random.IntN(keyspace.Buckets))
		if err := m.journal.Checkpoint(m.t.Context(), b); err != nil {
			m.t.Fatal(err)
		}
	}
}

// failOver kills the primary at a request of an environment. The replica that takes over
// has every change, or lacks those of one round.
func (m *many) failOver() {
	m.t.Helper()
	m.pair.replicate()
	lags := m.random.IntN(2) == 0
	if lags {
		m.pair.promote()
		m.round()
	}
	var once sync.Once
	fail := func() {
		once.Do(func() {
			m.down.Store(true)
			signal(m.t, processOf(m.t, m.pair.target()), syscall.SIGKILL)
		})
	}
	failing := m.clients[m.random.IntN(len(m.clients))]
	failing.failing = fail
	m.round()
	failing.failing = nil
	fail() // unless a request did
	if !lags {
		m.pair.promote()
	}
	m.pair.takeOver()
	waiting.Until(m.t, "the test is connected to the new primary", func() bool {
		return m.client.Do(m.t.Context(), m.client.B().Ping().Build()).Error() == nil
	})
	m.down.Store(false)
	m.totals.failedOver.Add(1)
	m.recover()
	m.do("SAVE")
}

// recover restores the changes that Valkey lost, and compares them with the oracle.
func (m *many) recover() {
	m.t.Helper()
	m.restore(m.random.IntN(2) == 0)
	for _, c := range m.clients {
		c.check()
	}
}

// check compares all stored state with the client's part of the oracle.
func (c *client) check() {
	c.t.Helper()
	for _, k := range c.keys {
		c.read(k)
	}
	if c.plan != nil {
		c.readPlan()
	}
	c.readTokens()
}

func (c *client) failUnlessDown(err error) {
	c.t.Helper()
	if !c.down.Load() {
		c.t.Fatal(err)
	}
}

// plan is the oracle's view of a plan whose limit its client changes: the limits that it
// may have.
type plan struct {
	name     string
	possible []int64
}

func (c *client) readPlan() {
	c.t.Helper()
	set, err := c.world.keys.Set(c.t.Context())
	if err != nil {
		c.failUnlessDown(err)
		return
	}
	i := slices.IndexFunc(set.Plans, func(p policy.Plan) bool { return p.Name == c.plan.name })
	if i < 0 {
		c.t.Fatalf("the plan %s is lost", c.plan.name)
	}
	got := set.Plans[i].Limits[0].Requests
	if !slices.Contains(c.plan.possible, got) {
		c.t.Fatalf("the limit of %s is %d, want one of %d", c.plan.name, got, c.plan.possible)
	}
	c.plan.possible = []int64{got}
}

// changePlan saves the policies with another limit for the client's plan. The save is
// refused if the other client saved first.
func (c *client) changePlan() {
	c.t.Helper()
	c.readPlan()
	a := c.send(c.env, http.MethodGet, "/api/v1/policy", nil, nil)
	var document struct {
		Version int64            `json:"version"`
		Plans   []map[string]any `json:"plans"`
	}
	if !a.good() || json.Unmarshal(a.body, &document) != nil {
		return
	}
	limit := c.plan.possible[0] + 1
	for _, p := range document.Plans {
		if p["name"] == c.plan.name {
			p["limits"] = []any{map[string]any{"requests": limit, "window": "1h"}}
		}
	}
	a = c.send(c.env, http.MethodPut, "/api/v1/policy?reason=test", map[string]any{"plans": document.Plans},
		map[string]string{"If-Match": strconv.Quote(strconv.FormatInt(document.Version, 10))})
	if a.status == http.StatusPreconditionFailed {
		return
	}
	c.count(a)
	c.plan.possible = append(c.plan.possible, limit)
	if a.good() {
		c.plan.possible = []int64{limit}
	}
}

// machineToken is the oracle's view of a token.
type machineToken struct {
	token.Token
	mayExist, mayBeGone bool
}

// readTokens fails the test if a revoked token exists, or if another one is gone.
func (c *client) readTokens() {
	c.t.Helper()
	stored, err := c.world.tokens.List(c.t.Context())
	if err != nil {
		c.failUnlessDown(err)
		return
	}
	for _, known := range c.tokens {
		found := slices.ContainsFunc(stored, func(s token.Token) bool { return s.ID == known.ID })
		if found && !known.mayExist || !found && !known.mayBeGone {
			c.t.Fatalf("token %s exists: %v; may exist: %v; may be gone: %v", known.ID, found,
				known.mayExist, known.mayBeGone)
		}
		known.mayExist, known.mayBeGone = found, !found
	}
}

// changeTokens creates a token, or revokes one that exists.
func (c *client) changeTokens(broken bool) {
	c.t.Helper()
	c.readTokens()
	i := slices.IndexFunc(c.tokens, func(k *machineToken) bool { return k.mayExist })
	if i < 0 {
		made, _, err := c.makeToken(token.Read)
		switch {
		case errors.Is(err, audit.ErrUnsafe): // on a slow machine; the token is not acknowledged
			return
		case err != nil:
			c.failUnlessDown(err)
			return
		}
		c.tokens = append(c.tokens, &machineToken{made, true, false})
		return
	}
	a := c.send(c.env, http.MethodDelete, "/api/v1/tokens/"+c.tokens[i].ID, nil, nil)
	c.count(a)
	c.tokens[i].mayBeGone = true
	if a.good() && !broken {
		c.tokens[i].mayExist = false
	}
}
