package decide

import (
	"sync"
	"time"

	"tidegate/internal/store"
	"tidegate/internal/store/keyspace"
)

const (
	// Pause is the time between calls that an open circuit lets through.
	Pause = 500 * time.Millisecond
	// tripAfter is the number of failures in a row that open a sector's circuit.
	tripAfter = 2
	// tripAllAfter is the number of failures in a row, in any sectors, that open all
	// circuits.
	tripAllAfter = 8
)

// breaker keeps calls from waiting for a Valkey that is unavailable. Sectors are ranges
// of neighbouring buckets, as the shards of a cluster have. The circuit of a sector opens
// after 2 failures in a row, so that callers of other shards are not affected. After 8
// failures in a row in any sectors, all circuits open. An open circuit lets one call
// through every Pause; the first one that succeeds closes it. A breaker is safe for
// concurrent use.
type breaker struct {
	now func() time.Time

	mu       sync.Mutex
	circuits []circuit
	failures int // in a row, in any sectors
}

type circuit struct {
	failures int // in a row
	open     bool
	since    time.Time // of an open circuit: when it last failed or let a call through
}

// newBreaker returns a breaker of 1 to keyspace.Buckets sectors.
func newBreaker(sectors int, now func() time.Time) *breaker {
	return &breaker{now: now, circuits: make([]circuit, sectors)}
}

// allow reports whether a call of the subject with this id may go to Valkey. A call that
// does must report.
func (b *breaker) allow(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.circuit(id)
	if !c.open {
		return true
	}
	now := b.now()
	if store.ElapsedAtMost(c.since, now) < Pause {
		return false
	}
	c.since = now
	return true
}

// report records whether Valkey answered a call. It returns how many circuits are open,
// and whether that changed.
func (b *breaker) report(id string, answered bool) (open int, changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.open()
	if c := b.circuit(id); answered {
		*c, b.failures = circuit{}, 0
	} else {
		b.fail(c)
	}
	after := b.open()
	return after, before != after
}

func (b *breaker) fail(c *circuit) {
	now := b.now()
	c.failures++
	b.failures++
	if c.failures >= tripAfter {
		c.open, c.since = true, now
	}
	if b.failures < tripAllAfter {
		return
	}
	for i := range b.circuits {
		b.circuits[i].open, b.circuits[i].since = true, now
	}
}

func (b *breaker) circuit(id string) *circuit {
	return &b.circuits[int(keyspace.BucketOf(id))*len(b.circuits)/keyspace.Buckets]
}

func (b *breaker) open() int {
	n := 0
	for _, c := range b.circuits {
		if c.open {
			n++
		}
	}
	return n
}
