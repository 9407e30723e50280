package journal

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/valkey-io/valkey-go"

	"tidegate/internal/testing/registrytest"
)

// dying is a store whose environment dies at a step: from then on, no request of it
// reaches the store or Valkey.
type dying struct {
	Store
	client valkey.Client

	lock sync.Mutex
	left int // steps until it dies
	dead bool
}

var errDead = errors.New("the environment is dead")

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

func (d *dying) Replace(ctx context.Context, name string, content []byte, keep func([]byte) bool) error {
	if err := d.step(); err != nil {
		return err
	}
	return errors.Join(d.Store.Replace(ctx, name, content, keep), d.step())
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

// An environment dies at every third step of an upkeep that adopts changes of a release without a
// journal, and moves their older entries. The next upkeep completes its work: after Valkey
// lost everything, a restore brings back every key, and the audit is whole.
// local/crashes kills the built function during changes.
func TestUpkeepDies(t *testing.T) {
	steps := 0
	for upkeepDies(t, steps) {
		steps += 3
	}
	if steps < 10 {
		t.Errorf("an upkeep has %d steps, want at least 10", steps)
	}
}

// upkeepDies reports whether the environment died within this number of steps.
func upkeepDies(t *testing.T, steps int) bool {
	t.Helper()
	w, url := start(t, false)
	k := w.create(t, "key")
	w.keys.Audit().UseJournal(nil)
	k = must(registrytest.Revoke(t.Context(), w.keys, k.ID, k.Version, byTest))(t)
	w.append(t, k.ID, segmentSize+10)
	want, entries := w.records(t), must(w.keys.Audit().Verify(t.Context()))(t).Entries

	env := open(t, url, w.store.Store, false)
	d := &dying{Store: w.store.Store, client: env.client, left: steps}
	env.Journal.store = d
	if err := env.Upkeep(t.Context(), time.Nanosecond); (err != nil) != d.dead {
		t.Fatalf("%d steps: got %v, dead %t", steps, err, d.dead)
	}
	env = open(t, url, w.store.Store, false)
	if err := env.Upkeep(t.Context(), time.Nanosecond); err != nil {
		t.Fatalf("%d steps: the next upkeep: %v", steps, err)
	}
	w.flush(t)
	env = open(t, url, w.store.Store, false)
	env.restore(t, Options{})
	if diff := cmp.Diff(want, env.records(t)); diff != "" {
		t.Errorf("%d steps: restored (-want +got):\n%s", steps, diff)
	}
	if v := must(env.keys.Audit().Verify(t.Context()))(t); !v.Good() || v.Entries != entries {
		t.Errorf("%d steps: verify: got %+v, want %d good entries", steps, v, entries)
	}
	return d.dead
}
