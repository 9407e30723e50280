package enforce

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"

	"tidegate/internal/enforce/compiled"
	"tidegate/internal/limiter"
	"tidegate/internal/policyset"
	"tidegate/internal/route"
)

// A check decides which routes a caller may call before it takes anything. The
// environment matches the call against the plans' lists, and sends the script the plans
// that do not open the route. For a key with a list of its own, the script first returns
// the list as the record has it. The environment matches the call against the list, and
// sends list and result with this and later checks. The script compares the list with the
// record, so an edit applies to the next check. None of this is sent unless a plan or the
// key has a list.

// keyAccess is the list of routes that a key opens.
type keyAccess struct {
	version int64  // version of the key's record
	encoded string // the list as the record has it
	list    *route.List
}

// keyAccesses remembers keys that open only some routes. It forgets the least recently
// used key when it is full. It is safe for concurrent use.
type keyAccesses struct {
	used    atomic.Bool                    // some key was learned
	entries *lru.Cache[string, *keyAccess] // by subject
}

func newKeyAccesses() *keyAccesses {
	entries, _ := lru.New[string, *keyAccess](maxKnown) // fails only below size 1
	return &keyAccesses{entries: entries}
}

func (k *keyAccesses) find(subject string) *keyAccess {
	if !k.used.Load() {
		return nil
	}
	known, _ := k.entries.Get(subject)
	return known
}

// learn reads the script's reply about a key: 4 bytes version, then the encoded list.
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
	k.entries.Add(subject, &keyAccess{int64(binary.BigEndian.Uint32(reply)), string(reply[4:]), list})
	k.used.Store(true)
	return nil
}

// guard is what a check sends about access.
type guard struct {
	closed []int      // numbers of the plans that do not open the route
	own    *keyAccess // nil if the key has no known list
	opens  bool       // the key's list has the route
}

// guard returns nil if no list restricts the call. No list restricts a reservation, which
// is for no route of an API.
func (c *Checker) guard(set *compiled.Set, call Call) *guard {
	g := &guard{own: c.access.find(call.Subject)}
	if !call.reserves {
		g.closed = set.ClosedPlans(call.Route)
	}
	if len(g.closed) == 0 && g.own == nil {
		return nil
	}
	g.opens = g.own != nil && (call.reserves || g.own.list.Matches(call.Route))
	return g
}

// args returns ARGV[6] to ARGV[8] of wide.lua.
func (g *guard) args() []string {
	var closed []byte
	for _, number := range g.closed {
		closed = binary.BigEndian.AppendUint16(closed, uint16(number))
	}
	args := []string{string(closed), "", "0"}
	if g.own != nil {
		args[1] = g.own.encoded
	}
	if g.opens {
		args[2] = "1"
	}
	return args
}

// learnAccess runs the caller's own step again while the script replies with a list of
// routes that this environment does not know yet. It repeats that more than once only if
// the key is edited meanwhile.
func (a *round) learnAccess(ctx context.Context, r stepReply) stepReply {
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

// recordAccess sets the result's Access. It forgets a key that no longer has a list, so
// that later checks send none.
func (a *round) recordAccess() {
	g := a.own.guard
	switch {
	case g == nil || g.own == nil || a.result.KeyVersion == 0: // the reply has no record
	case g.own.version == a.result.KeyVersion:
		a.result.Access = g.own.list
	default:
		a.access.entries.Remove(a.call.Subject)
	}
}

// ClosedPlans returns the numbers of the plans that do not open the call's route; nil
// before Load.
func (c *Checker) ClosedPlans(call route.Call) []int {
	if set := c.set.Load(); set != nil {
		return set.ClosedPlans(call)
	}
	return nil
}
