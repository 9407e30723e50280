package decide

import (
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"tidegate/internal/store"
)

// A foreign key value has no checksum, so only Valkey knows whether it is a key. What it
// did not know is refused without asking again for UnknownFor. A value that is imported
// meanwhile is good when that time has passed.
const (
	// UnknownFor is how long a foreign value is refused after Valkey did not know it.
	UnknownFor = 5 * time.Second
	// MaxUnknown is how many such values are remembered.
	MaxUnknown = 4_096
	// MaxUnknownOfNetwork is how many different ones Valkey is asked about for a client
	// network in UnknownFor. After that the network's callers pass only with values that
	// this process knows to be good.
	MaxUnknownOfNetwork = 100
)

// unknownValues remembers the foreign values that Valkey did not know. It keeps their
// hashes alone, is bounded, and is safe for concurrent use.
type unknownValues struct {
	now func() time.Time

	mu       sync.Mutex
	values   *simplelru.LRU[Proof, time.Time] // when Valkey was asked
	networks *simplelru.LRU[netip.Prefix, unknownCount]
}

// unknownCount is how many unknown values came from a network since a time.
type unknownCount struct {
	since time.Time
	count int
}

func newUnknownValues(now func() time.Time) *unknownValues {
	// both fail for a size below 1 alone
	values, _ := simplelru.NewLRU[Proof, time.Time](MaxUnknown, nil)
	networks, _ := simplelru.NewLRU[netip.Prefix, unknownCount](MaxUnknown, nil)
	return &unknownValues{now: now, values: values, networks: networks}
}

// refuses reports whether a value was unknown lately.
func (u *unknownValues) refuses(proof Proof) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	asked, found := u.values.Peek(proof)
	return found && store.ElapsedAtMost(asked, u.now()) < UnknownFor
}

// exceeded reports whether a network gave too many unknown values lately.
func (u *unknownValues) exceeded(network netip.Prefix) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	c, found := u.networks.Peek(network)
	return found && c.count >= MaxUnknownOfNetwork && store.ElapsedAtMost(c.since, u.now()) < UnknownFor
}

// learn takes note that Valkey, when asked at this time, did not know a value. A network
// that is not valid is not counted: those callers would share one count.
func (u *unknownValues) learn(proof Proof, network netip.Prefix, asked time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.values.Add(proof, asked)
	if !network.IsValid() {
		return
	}
	c, found := u.networks.Get(network)
	if !found || store.ElapsedAtMost(c.since, asked) >= UnknownFor {
		c = unknownCount{since: asked}
	}
	c.count++
	u.networks.Add(network, c)
}
