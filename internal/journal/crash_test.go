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
	"tidegate/internal/testing/valkeytest"
)

// changes is how many random changes TestCrashes makes.
var changes = flag.Int("changes", 250, "random changes of TestCrashes")

// crashPoints are the steps of a save at which its environment can end: before and after
// the journal is asked for the position, before and after it gets the entry. What follows
// the last is the removal of the item from Valkey's list.
const crashPoints = 4

// dying is a store whose environment ends at a step: nothing of it reaches the store or
// Valkey from then on.
type dying struct {
	Store
	client valkey.Client

	lock sync.Mutex
	left int // steps until then; below 0 for never
	dead bool
}

var errDead = errors.New("the environment has ended")

// dieAfter ends the environment after so many steps.
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

// oracle knows what was acknowledged: for each key the states that it may have. There are
// several after a change of which nobody heard whether it was made.
type oracle map[string][]policy.Key

// crashes are random changes by environments that end at random steps, on a Valkey that
// loses what it has now and then.
type crashes struct {
	*testing.T
	url    string
	store  Store
	random *rand.Rand
	known  oracle
	ids    []string
	env    *world
}

// begin starts an environment that ends at a step.
func (c *crashes) begin(steps int) {
	c.env = open(c.T, c.url, c.store, false)
	d := &dying{Store: c.store, client: c.env.client, left: -1}
	c.env.Journal.store = d
	if err := c.env.Check(c.Context()); err != nil {
		c.Fatal(err)
	}
	if c.env.Status(c.Context()).Behind > 0 {
		c.env.restore(c.T, Options{})
	}
	d.dieAfter(steps)
}

// change makes one random change and records in the oracle what came of it.
func (c *crashes) change() {
	ctx := c.Context()
	if len(c.ids) == 0 || c.random.IntN(5) == 0 {
		n := policy.NewKey{Name: fmt.Sprint("key ", len(c.ids)), Env: "test", Plan: "free"}
		k, _, err := c.env.keys.Create(ctx, n, byTest)
		if err == nil {
			c.ids = append(c.ids, k.ID)
			c.known[k.ID] = []policy.Key{k}
		}
		return
	}
	id := c.ids[c.random.IntN(len(c.ids))]
	old, err := c.env.keys.Get(ctx, id)
	if err != nil {
		return // deleted, or the environment has ended
	}
	c.allowed(old)
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
	case err == nil && c.env.Status(ctx).Unsafe == 0:
		c.known[id] = []policy.Key{got}
	default: // nobody has an answer that it is made and safe
		c.known[id] = []policy.Key{old, next}
	}
}

// allowed fails when a key is in no state that the oracle knows, and forgets the others.
func (c *crashes) allowed(k policy.Key) {
	c.Helper()
	for _, may := range c.known[k.ID] {
		if may.Version == k.Version && may.Status == k.Status && may.Banned.Equal(k.Banned) &&
			(may.Override == nil) == (k.Override == nil) {
			c.known[k.ID] = []policy.Key{k}
			return
		}
	}
	c.Fatalf("%s is %+v, and may be %+v", k.ID, k, c.known[k.ID])
}

// lose has Valkey lose everything, or what came since its last snapshot.
func (c *crashes) lose() {
	command := c.env.root.B().Arbitrary("FLUSHALL").Build()
	if c.random.IntN(2) == 0 {
		command = c.env.root.B().Arbitrary("DEBUG", "RELOAD", "NOSAVE").Build()
	}
	if err := c.env.root.Do(c.Context(), command).Error(); err != nil {
		c.Fatal(err)
	}
}

// Whatever step of a save an environment ends at, and whatever Valkey loses, no change is
// lost that was acknowledged, and no revoked key comes back.
func TestCrashes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := &crashes{
		T: t, url: valkeytest.Start(t), store: must(OpenStore(t.TempDir()))(t),
		random: rand.New(rand.NewPCG(seed, 0)), known: oracle{},
	}
	c.begin(-1)
	c.env.plan(t, 10)
	for n := range *changes {
		if n%25 == 0 {
			c.begin(-1)
			save := c.env.root.B().Arbitrary("SAVE").Build()
			if err := c.env.root.Do(t.Context(), save).Error(); err != nil {
				t.Fatal(err)
			}
		}
		if c.random.IntN(20) == 0 {
			c.lose()
			c.begin(-1)
		}
		if c.random.IntN(3) == 0 {
			c.begin(c.random.IntN(crashPoints))
			c.change()
			c.begin(-1)
		} else {
			c.change()
		}
	}
	c.lose()
	c.begin(-1)
	for _, id := range c.ids {
		c.allowed(must(c.env.keys.Get(t.Context(), id))(t))
	}
	if v := must(c.env.keys.Audit().Verify(t.Context()))(t); !v.Good() {
		t.Errorf("the audit: %+v", v)
	}
}
