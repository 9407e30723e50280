package decide

import (
	"strconv"
	"testing"
	"time"

	"tidegate/internal/store/keyspace"
)

// clock is set by hand.
type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

func (c *clock) pass(d time.Duration) { c.Time = c.Add(d) }

func newClock() *clock { return &clock{time.Unix(1_800_000_000, 0)} }

// idIn is a subject whose bucket is in the i-th of 16 sectors.
func idIn(sector int) string {
	for i := 0; ; i++ {
		if id := strconv.Itoa(i); int(keyspace.BucketOf(id))*16/keyspace.Buckets == sector {
			return id
		}
	}
}

// fail makes calls that fail as long as the breaker lets them ask, and returns how many
// asked.
func fail(b *breaker, ids []string, rounds int) int {
	asked := 0
	for range rounds {
		for _, id := range ids {
			if b.ask(id) {
				asked++
				b.report(id, false)
			}
		}
	}
	return asked
}

// Two failures in a row open a circuit; while it is open one call in each pause asks, and
// the first success closes it.
func TestBreaker(t *testing.T) {
	c := newClock()
	b := newBreaker(1, c.now)
	for range 5 {
		b.ask("a")
		b.report("a", false)
		b.ask("a")
		b.report("a", true)
	}
	if asked := fail(b, []string{"a"}, 100); asked != 2 {
		t.Errorf("%d calls waited for a store that is unavailable, want 2", asked)
	}
	c.pass(Pause - 1)
	if b.ask("a") {
		t.Error("a call asked within the pause")
	}
	c.pass(1)
	if !b.ask("a") || b.ask("a") {
		t.Error("after the pause one call should ask, and no second one while it does")
	}
	b.report("a", false)
	c.pass(Pause)
	if !b.ask("a") {
		t.Error("after another pause no call asked")
	}
	if open, changed := b.report("a", true); open != 0 || !changed || !b.ask("a") || !b.ask("a") {
		t.Error("a success did not close the circuit")
	}
}

// A call that asks and is never heard of again keeps the circuit open, but not for good.
func TestBreakerOutlivesALostCall(t *testing.T) {
	c := newClock()
	b := newBreaker(1, c.now)
	fail(b, []string{"a"}, 2)
	for range 3 {
		c.pass(Pause)
		if !b.ask("a") {
			t.Fatal("no call asks any more")
		}
	}
}

// The callers of one shard that is unavailable do not keep those of another from asking.
func TestBreakerKeepsShardsApart(t *testing.T) {
	c := newClock()
	b := newBreaker(16, c.now)
	unavailable, well := []string{idIn(0), idIn(1), idIn(2), idIn(3), idIn(4)}, idIn(9)
	asked := 0
	for range 100 {
		for _, id := range unavailable {
			asked += fail(b, []string{id}, 1)
			if !b.ask(well) {
				t.Fatal("a caller of another shard may not ask")
			}
			b.report(well, true)
		}
	}
	if asked != 10 {
		t.Errorf("%d calls waited, want 2 in each of 5 sectors", asked)
	}
}

// When all shards are unavailable, few calls wait, and one in each pause.
func TestBreakerOpensEverywhere(t *testing.T) {
	c := newClock()
	b := newBreaker(16, c.now)
	var all []string
	for i := range 16 {
		all = append(all, idIn(i))
	}
	if asked := fail(b, all, 10); asked != 8 {
		t.Errorf("%d calls waited, want 8", asked)
	}
	for range 5 {
		c.pass(Pause)
		if asked := fail(b, all, 10); asked != 1 {
			t.Errorf("%d calls waited after a pause, want 1", asked)
		}
	}
	c.pass(Pause)
	for _, id := range all {
		if !b.ask(id) {
			t.Errorf("sector of %s does not ask though the store is back", id)
		}
		b.report(id, true)
	}
	if open, _ := b.report(all[0], true); open != 0 {
		t.Errorf("%d circuits are open", open)
	}
}
