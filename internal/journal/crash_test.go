package journal

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/valkeytest"
)

// changes is how many random steps TestCrashes makes.
var changes = flag.Int("changes", 250, "random steps of TestCrashes")

// An environment can die at each step of a save or an upkeep: before and after each
// request to the store. A save has 4 steps if the journal has the entry before it, and up
// to 16 if it adopts the bucket.
const (
	saveSteps   = 18
	upkeepSteps = 60
)

// dying is a store whose environment dies at a step: from then on, no request of it
// reaches the store or Valkey.
type dying struct {
	Store
	client valkey.Client

	lock sync.Mutex
	left int // steps until it dies; below 0 for never
	dead bool
}

var errDead = errors.New("the environment is dead")

// dieAfter lets the environment die after this number of steps.
func (d *dying) dieAfter(steps int) {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.left = steps
}

func (d *dying) step() error {
	d.lock.Lock()
	defer d.lock.Unlock()
	if d.left == 0 && !d.dead {
		d.dead = true
		d.client.Close()
	}
	d.left--
	if d.dead {
		return errDead
	}
	return nil
}

func (d *dying) Create(ctx context.Context, name string, content []byte) error {
	if err := d.step(); err != nil {
		return err
	}
	return errors.Join(d.Store.Create(ctx, name, content), d.step())
}

func (d *dying) Replace(ctx context.Context, name string, content []byte) error {
	if err := d.step(); err != nil {
		return err
	}
	return errors.Join(d.Store.Replace(ctx, name, content), d.step())
}

func (d *dying) Read(ctx context.Context, name string) ([]byte, error) {
	if err := d.step(); err != nil {
		return nil, err
	}
	content, err := d.Store.Read(ctx, name)
	if dead := d.step(); dead != nil {
		return nil, dead
	}
	return content, err
}

// oracle has the states that each key may have. A key has several after a change that was
// neither acknowledged nor refused.
type oracle map[string][]policy.Key

// crashes makes random changes in environments that die at random steps, some of them
// without a journal, on a Valkey that sometimes loses data.
type crashes struct {
	*testing.T
	url      string
	store    Store
	random   *rand.Rand
	oracle   oracle
	unstored map[string]bool // keys with changes that no environment with a journal has stored
	ids      []string
	env      *world
	without  bool // env has no journal
}

// begin starts an environment that dies after this number of steps; below 0 for never.
func (c *crashes) begin(steps int) {
	c.env, c.without = open(c.T, c.url, c.store, false), false
	d := &dying{Store: c.store, client: c.env.client, left: -1}
	c.env.Journal.store = d
	if err := c.env.Check(c.Context()); err != nil {
		c.Fatal(err)
	}
	if c.env.Status(c.Context()).Behind > 0 {
		c.restore()
	}
	d.dieAfter(steps)
}

// restore restores what Valkey lost. Changes that were made without a journal stay.
func (c *crashes) restore() {
	for _, b := range keyspace.All() {
		if _, err := c.env.restoreBucket(c.Context(), c.env.keys, b, Options{}); err != nil &&
			!errors.Is(err, ErrNotRestored) {
			c.Fatal(err)
		}
	}
	if err := c.env.keys.Sync(c.Context()); err != nil {
		c.Fatal(err)
	}
}

// beginWithout starts an environment without a journal.
func (c *crashes) beginWithout() {
	c.begin(-1)
	c.env.keys.Audit().UseJournal(nil)
	c.without = true
}

// change makes one random change and adds the possible states of its key to the oracle.
func (c *crashes) change() {
	ctx := c.Context()
	if len(c.ids) == 0 || c.random.IntN(25) == 0 {
		n := policy.NewKey{Name: fmt.Sprint("key ", len(c.ids)), Env: "test", Plan: "free"}
		k, _, err := c.env.keys.Create(ctx, n, byTest)
		if err == nil {
			c.ids = append(c.ids, k.ID)
			c.acknowledge(k)
		}
		return
	}
	id := c.ids[c.random.IntN(len(c.ids))]
	old, err := c.env.keys.Get(ctx, id)
	if err != nil {
		return // the key was lost before it was stored, or the environment is dead
	}
	c.wantAllowed(old)
	next := old
	next.Version++
	edit := func(k *policy.Key) {
		switch c.random.IntN(3) {
		case 0:
			k.Status = policy.Revoked
		case 1:
			k.Banned = time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		case 2:
			k.Override = &policy.Override{Mode: policy.Off, Reason: "a test"}
		}
		next = *k
		next.Version = old.Version + 1
	}
	action := []string{"key.edit", "key.revoke"}[c.random.IntN(2)]
	got, err := c.env.keys.Update(ctx, id, old.Version, action, byTest, edit)
	switch {
	case err != nil || c.env.Status(ctx).Unsafe > 0: // not acknowledged as stored in the journal
		c.oracle[id] = []policy.Key{old, next}
	case got.Version > old.Version:
		c.acknowledge(got)
	}
}

// acknowledge records a change that was acknowledged.
func (c *crashes) acknowledge(k policy.Key) {
	c.oracle[k.ID] = []policy.Key{k}
	if c.without {
		c.unstored[k.ID] = true
	} else {
		delete(c.unstored, k.ID) // the environment stored the earlier changes too
	}
}

// record appends count entries without a change to a random key's chain.
func (c *crashes) record(count int) {
	if len(c.ids) > 0 {
		c.env.append(c.T, c.ids[c.random.IntN(len(c.ids))], count)
	}
}

// upkeep runs Upkeep in an environment that dies after this number of steps; below 0 for
// never.
func (c *crashes) upkeep(steps int) {
	c.begin(steps)
	retention := []time.Duration{0, time.Nanosecond}[c.random.IntN(2)]
	switch err := c.env.Upkeep(c.Context(), retention); {
	case err == nil:
		clear(c.unstored)
	case steps < 0:
		c.Fatalf("upkeep: %v", err)
	}
	c.begin(-1)
}

// wantAllowed fails unless the oracle has the key's state. It removes the other states.
func (c *crashes) wantAllowed(k policy.Key) {
	c.Helper()
	if c.oracle[k.ID] == nil { // Valkey lost an unstored change of the key
		c.oracle[k.ID] = []policy.Key{k}
	}
	for _, state := range c.oracle[k.ID] {
		if state.Version == k.Version && state.Status == k.Status && state.Banned.Equal(k.Banned) &&
			(state.Override == nil) == (k.Override == nil) {
			c.oracle[k.ID] = []policy.Key{k}
			return
		}
	}
	c.Fatalf("%s: got %+v, want one of %+v", k.ID, k, c.oracle[k.ID])
}

// save makes Valkey take a snapshot.
func (c *crashes) save() { c.do("SAVE") }

func (c *crashes) do(words ...string) {
	c.Helper()
	if err := c.env.root.Do(c.Context(), c.env.root.B().Arbitrary(words...).Build()).Error(); err != nil {
		c.Fatal(err)
	}
}

// lose makes Valkey lose everything, or the changes since its last snapshot. Then it
// takes a snapshot: an earlier one would have a different history of changes without a
// journal.
func (c *crashes) lose() {
	if c.random.IntN(2) == 0 {
		c.do("FLUSHALL")
	} else {
		c.do("DEBUG", "RELOAD", "NOSAVE")
	}
	for id := range c.unstored {
		delete(c.oracle, id)
	}
	c.begin(-1)
	c.save()
}

// step makes a random step.
func (c *crashes) step() {
	switch c.random.IntN(24) {
	case 0:
		c.beginWithout()
		for range c.random.IntN(6) {
			c.change()
		}
		c.record(c.random.IntN(2 * segmentSize))
		c.begin(-1)
	case 1, 2:
		c.upkeep(c.random.IntN(upkeepSteps))
	case 3:
		c.upkeep(-1)
	case 4:
		c.record(c.random.IntN(segmentSize))
	case 5:
		c.save()
	case 6:
		c.lose()
	case 7, 8, 9, 10:
		c.begin(c.random.IntN(saveSteps))
		c.change()
		c.begin(-1)
	default:
		c.change()
	}
}

// Environments may die at any step of a save or an upkeep, and Valkey may lose data. No
// acknowledged change is lost, no revoked key becomes active, and the audit stays good. A
// change without a journal may be lost until an upkeep, or a change with a journal in its
// bucket, has stored it.
func TestCrashes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := &crashes{
		T: t, url: valkeytest.Start(t), store: must(OpenStore(t.TempDir()))(t),
		random: rand.New(rand.NewPCG(seed, 0)), oracle: oracle{}, unstored: map[string]bool{},
	}
	if c.random.IntN(2) == 0 {
		c.begin(-1)
	} else {
		c.beginWithout()
	}
	c.env.plan(t, 10)
	for range 10 {
		c.change()
	}
	c.save()
	c.begin(-1)
	for range *changes {
		c.step()
	}
	c.upkeep(-1)
	c.lose()
	for _, id := range c.ids {
		if c.oracle[id] != nil {
			c.wantAllowed(must(c.env.keys.Get(t.Context(), id))(t))
		}
	}
	if v := must(c.env.keys.Audit().Verify(t.Context()))(t); !v.Good() {
		t.Errorf("verify: got %+v, want it good", v)
	}
}
