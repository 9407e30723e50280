package decide

import (
	"strconv"
	"testing"
	"time"

	"tidegate/internal/store/keyspace"
)

// clock is a clock that the test sets.
type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

func (c *clock) advance(d time.Duration) { c.Time = c.Add(d) }

func newClock() *clock { return &clock{time.Unix(1_800_000_000, 0)} }

// subjectIn returns a subject whose bucket is in this one of 16 sectors.
func subjectIn(sector int) string {
	for i := 0; ; i++ {
		if id := strconv.Itoa(i); int(keyspace.BucketOf(id))*16/keyspace.Buckets == sector {
			return id
		}
	}
}

// failCalls makes a call of each subject in each round. Every call that the breaker
// allows fails. It returns how many were allowed.
func failCalls(b *breaker, ids []string, rounds int) int {
	attempts := 0
	for range rounds {
		for _, id := range ids {
			if b.allow(id) {
				attempts++
				b.report(id, false)
			}
		}
	}
	return attempts
}

// Two failures in a row open a circuit. An open circuit allows one call in each Pause.
// The first success closes it.
func TestBreaker(t *testing.T) {
	c := newClock()
	b := newBreaker(1, c.now)
	for range 5 {
		b.allow("a")
		b.report("a", false)
		b.allow("a")
		b.report("a", true)
	}
	if attempts := failCalls(b, []string{"a"}, 100); attempts != 2 {
		t.Errorf("got %d calls to an unavailable Valkey, want 2", attempts)
	}
	c.advance(Pause - 1)
	if b.allow("a") {
		t.Error("a call was allowed within the pause")
	}
	c.advance(1)
	if !b.allow("a") || b.allow("a") {
		t.Error("after the pause, want one call allowed, and no second one meanwhile")
	}
	b.report("a", false)
	c.advance(Pause)
	if !b.allow("a") {
		t.Error("after another pause, no call was allowed")
	}
	if open, changed := b.report("a", true); open != 0 || !changed || !b.allow("a") || !b.allow("a") {
		t.Error("a success did not close the circuit")
	}
}

// An allowed call that never reports does not block the circuit: another call is allowed
// after each pause.
func TestBreakerRetriesAfterALostCall(t *testing.T) {
	c := newClock()
	b := newBreaker(1, c.now)
	failCalls(b, []string{"a"}, 2)
	for range 3 {
		c.advance(Pause)
		if !b.allow("a") {
			t.Fatal("no call is allowed after the pause")
		}
	}
}

// An unavailable shard does not open the circuits of callers on other shards.
func TestBreakerKeepsShardsApart(t *testing.T) {
	c := newClock()
	b := newBreaker(16, c.now)
	failing := []string{subjectIn(0), subjectIn(1), subjectIn(2), subjectIn(3), subjectIn(4)}
	healthy := subjectIn(9)
	attempts := 0
	for range 100 {
		for _, id := range failing {
			attempts += failCalls(b, []string{id}, 1)
			if !b.allow(healthy) {
				t.Fatal("a caller on another shard was not allowed")
			}
			b.report(healthy, true)
		}
	}
	if attempts != 10 {
		t.Errorf("got %d calls, want 2 in each of 5 sectors", attempts)
	}
}

// While all shards are unavailable, 8 calls in total are allowed, then one in each pause.
// A success closes only its own circuit.
func TestBreakerOpensEverywhere(t *testing.T) {
	c := newClock()
	b := newBreaker(16, c.now)
	var all []string
	for i := range 16 {
		all = append(all, subjectIn(i))
	}
	if attempts := failCalls(b, all, 10); attempts != 8 {
		t.Errorf("got %d calls, want 8", attempts)
	}
	for range 5 {
		c.advance(Pause)
		if attempts := failCalls(b, all, 10); attempts != 1 {
			t.Errorf("after a pause: got %d calls, want 1", attempts)
		}
	}
	c.advance(Pause)
	for _, id := range all {
		if !b.allow(id) {
			t.Errorf("subject %s: no call is allowed after a pause", id)
		}
		b.report(id, true)
	}
	if open, _ := b.report(all[0], true); open != 0 {
		t.Errorf("got %d open circuits, want 0", open)
	}
}
