package enforce

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"tidegate/internal/enforce/compiled"
	"tidegate/internal/limiter"
	"tidegate/internal/policyset"
	"tidegate/internal/route"
)

// Which routes a caller may call is decided before anything is taken. The environment
// matches the call against the plans' lists, and passes the script the plans that do not
// open the route. Of a key with a list of its own the script first answers the key's
// description. The environment matches the call against that, and sends description and
// result with this and later checks. The script compares the description with the record,
// so an edit acts on the next check. Nothing of this is sent while no plan that matters
// and no key has a list.

// keyAccess is what is known of a key that opens only some routes.
type keyAccess struct {
	version   int64  // of its record
	described string // the record's description
	list      *route.List
}

// keyAccesses remembers keys that open only some routes. When it is full, the key that
// has not called for longest is forgotten. It is safe for concurrent use.
type keyAccesses struct {
	used atomic.Bool // some key was learned

	mu      sync.Mutex
	entries *simplelru.LRU[string, *keyAccess] // by subject
}

func newKeyAccesses() *keyAccesses {
	// fails for a size below 1 alone
	entries, _ := simplelru.NewLRU[string, *keyAccess](maxKnown, nil)
	return &keyAccesses{entries: entries}
}

func (k *keyAccesses) find(subject string) *keyAccess {
	if !k.used.Load() {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	known, _ := k.entries.Get(subject)
	return known
}

// learn reads what the script answers of a key: 4 bytes version, description.
func (k *keyAccesses) learn(subject string, reply []byte) error {
	if len(reply) < 4 {
		return limiter.ErrReply
	}
	allow, err := policyset.DecodeAllow(reply[4:])
	if err != nil {
		return fmt.Errorf("%w: %w", limiter.ErrReply, err)
	}
	list, err := route.NewList(allow)
	if err != nil {
		return fmt.Errorf("%w: routes of key %s: %w", limiter.ErrReply, subject, err)
	}
	known := &keyAccess{int64(binary.BigEndian.Uint32(reply)), string(reply[4:]), list}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.entries.Add(subject, known)
	k.used.Store(true)
	return nil
}

func (k *keyAccesses) forget(subject string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.entries.Remove(subject)
}

// guard is what a check sends of access.
type guard struct {
	closed []int      // numbers of plans
	own    *keyAccess // nil when none is known
	opens  bool       // own covers the call
}

// guard returns nil when the call needs none.
func (c *Checker) guard(set *compiled.Set, call Call) *guard {
	g := &guard{closed: set.ClosedPlans(call.Route), own: c.access.find(call.Subject)}
	if len(g.closed) == 0 && g.own == nil {
		return nil
	}
	g.opens = g.own != nil && g.own.list.Matches(call.Route)
	return g
}

// args are ARGV[10] to ARGV[12] of find.lua.
func (g *guard) args() []string {
	var closed []byte
	for _, number := range g.closed {
		closed = binary.BigEndian.AppendUint16(closed, uint16(number))
	}
	args := []string{string(closed), "", "0"}
	if g.own != nil {
		args[1] = g.own.described
	}
	if g.opens {
		args[2] = "1"
	}
	return args
}

// guarded makes the caller's own step again while the script answers that the key opens
// only some routes, and that this environment does not know which. Only an edit of the
// key in between makes it do so more than once.
func (a *attempt) guarded(ctx context.Context, r stepReply) stepReply {
	for range maxReloads {
		if r.err != nil || len(r.bytes) == 0 || r.bytes[0] != 'A' {
			break
		}
		if err := a.access.learn(a.call.Subject, r.bytes[1:]); err != nil {
			return stepReply{err: err}
		}
		a.own = a.ownStep(a.set, a.call, a.rule, a.result.plan)
		r = a.flush(ctx, []step{a.own}, nil)[0]
	}
	return r
}

// keepAccess remembers with the result which routes the key opens. A key that no longer
// has a list is forgotten, so that later checks send nothing.
func (a *attempt) keepAccess() {
	g := a.own.guard
	switch {
	case g == nil || g.own == nil || a.result.KeyVersion == 0: // the reply says nothing of the key
	case g.own.version == a.result.KeyVersion:
		a.result.Access = g.own.list
	default:
		a.access.forget(a.call.Subject)
	}
}

// ClosedPlans are the numbers of the plans that do not open a route, by the Set that
// checks go by.
func (c *Checker) ClosedPlans(call route.Call) []int {
	if set := c.set.Load(); set != nil {
		return set.ClosedPlans(call)
	}
	return nil
}
