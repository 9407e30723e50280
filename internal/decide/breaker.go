package decide

import (
	"sync"
	"time"

	"tidegate/internal/store"
	"tidegate/internal/store/keyspace"
)

const (
	// Pause is how long an open circuit goes without asking.
	Pause = 500 * time.Millisecond
	// tripAfter failures in a row open a sector's circuit.
	tripAfter = 2
	// tripAllAfter failures in a row, wherever they happened, open all circuits.
	tripAllAfter = 8
)

// Breaker keeps calls from waiting for a store that is away. The buckets of the key space
// are split into sectors, as the shards of a cluster have neighbouring ones: each
// sector's circuit opens after 2 failures in a row, so that the callers of other shards
// go on as ever; 8 failures in a row anywhere open all. Through an open circuit goes one
// call every Pause; the first one that succeeds closes it. A Breaker is safe for
// concurrent use.
type Breaker struct {
	now func() time.Time

	mu       sync.Mutex
	circuits []circuit
	failures int // in a row, wherever they happened
}

type circuit struct {
	failures int
	open     bool
	since    time.Time // when the open circuit last let a call through, or failed
}

// NewBreaker returns a Breaker of 1 to keyspace.Buckets sectors.
func NewBreaker(sectors int, now func() time.Time) *Breaker {
	return &Breaker{now: now, circuits: make([]circuit, sectors)}
}

// Ask reports whether a call about the subject with this id should ask the store. Every
// call that does has to Report.
func (b *Breaker) Ask(id string) bool {
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

// Report says whether the store answered. It returns how many circuits are open, and
// whether that changed.
func (b *Breaker) Report(id string, answered bool) (open int, changed bool) {
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

func (b *Breaker) fail(c *circuit) {
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

func (b *Breaker) circuit(id string) *circuit {
	return &b.circuits[int(keyspace.BucketOf(id))*len(b.circuits)/keyspace.Buckets]
}

func (b *Breaker) open() int {
	n := 0
	for _, c := range b.circuits {
		if c.open {
			n++
		}
	}
	return n
}
