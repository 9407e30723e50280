// Package enforce asks Valkey about one call. Its Checker finds the caller and its newest
// limits, and takes the call's cost from all of them or from none; it also explains what
// it would answer, reserves and settles. Package decide calls it, and answers when it
// cannot. The package reads the policy set and never writes it: that is package
// registry's part.
//
// A check passes the script the version of the set that it knows. When the caller's
// bucket has a newer one, nothing is taken, the set is read again, and the check repeats.
// So a save acts on every check that starts after it was acknowledged.
package enforce

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/enforce/compiled"
	"tidegate/internal/enforce/reservation"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/route"
	"tidegate/internal/store/keyspace"
)

// Call is one API call by a caller who is known.
type Call struct {
	Kind    policy.Kind
	Subject string        // id of the caller; of an APIKey that of Secret
	Secret  apikey.Secret // with Kind APIKey alone
	Plan    string        // with Kind Token: the plan that the token names; may be empty
	Address netip.Addr    // of the client, for the lists of the Set; invalid when it is not known
	Network netip.Prefix  // the client's address as PerIP limits count it; invalid when it is not known
	Route   route.Call

	Resource string // that API Gateway matched, such as /orders/{id}; for records alone
	Request  string // API Gateway's id of the request; for records alone

	// Again marks a call that is checked once more because the first reply was lost: its
	// cost may have been taken then.
	Again bool

	hash string // in place of Secret: what the record has
}

// Checker makes checks with a Set that it keeps. It is safe for concurrent use.
type Checker struct {
	client    valkey.Client
	pepper    apikey.Pepper
	addresses policyset.AddressKey
	seal      reservation.Seal
	set       atomic.Pointer[compiled.Set]
	recent    *recentCallers
	known     *knownCallers
	access    *keyAccesses
	now       func() time.Time // clock of leases and of recent

	// ReservationExpiry is how long a reservation can be settled, within the bounds of
	// config.ReservationLease. It is set before the first use.
	ReservationExpiry time.Duration

	mu       sync.Mutex
	programs map[string][]limiter.Limit // by their text, since the same few come with every reply
}

// NewChecker returns a Checker on a connected client.
func NewChecker(client valkey.Client, pepper apikey.Pepper) *Checker {
	return &Checker{
		client: client, pepper: pepper, addresses: policyset.NewAddressKey(pepper),
		seal:              reservation.NewSeal(pepper),
		ReservationExpiry: DefaultReservationExpiry,
		recent:            newRecentCallers(), known: newKnownCallers(),
		access: newKeyAccesses(), now: time.Now,
		programs: map[string][]limiter.Limit{},
	}
}

// Load reads the Set, so that the first check need not.
func (c *Checker) Load(ctx context.Context) error {
	go checkScript.Prepare() // while the Set is on its way
	set, err := policyset.LoadSet(ctx, c.client)
	if err != nil {
		return c.keepLastGood(set, err)
	}
	return c.adopt(set)
}

// adopt makes a Set the one that checks go by, unless they go by a newer one.
func (c *Checker) adopt(set *policy.Set) error {
	newer, err := compiled.New(set)
	if err != nil {
		return c.keepLastGood(set, err)
	}
	for {
		old := c.set.Load()
		if old != nil && old.Version >= newer.Version || c.set.CompareAndSwap(old, newer) {
			return nil
		}
	}
}

// Set returns the Set that checks go by until they find a newer one; nil before Load.
func (c *Checker) Set() *policy.Set {
	if set := c.set.Load(); set != nil {
		return &set.Set
	}
	return nil
}

// ErrStale means that the caller's Set is older than the one in force. Nothing was taken.
var ErrStale = errors.New("policy: a newer set is in force")

var errNoSet = errors.New("policy: no set was read yet")

const maxReloads = 20 // for one check; every one needs a save of its own meanwhile

// Check finds the caller, its limits and the route's, and takes the route's cost from all
// of them or from none. The caller's own step goes first. The steps on shared limits
// follow in a second round trip when it allowed the call, or leave in the same flush for
// a caller whose last call was allowed here lately. One more round trip is made when the
// Set changed since the last check, and one when a shared limit denied and others have to
// be given back what they took. The commands of with leave in the first flush. A caller
// who may not call gets ErrUnknownKey or ErrRefused. Any other error means that no
// decision was made.
func (c *Checker) Check(ctx context.Context, call Call, with *Piggyback) (Result, error) {
	if c.set.Load() == nil {
		if err := c.Load(ctx); err != nil {
			return Result{}, err
		}
	}
	return c.renewing(ctx, func(set *compiled.Set) (Result, error) {
		plan, rule, err := admit(set, call)
		if err != nil {
			return Result{}, cmp.Or(c.newest(ctx, set, call.Subject), err)
		}
		return c.check(ctx, set, call, plan, rule, with)
	})
}

// renewing repeats what finds that its Set is stale.
func (c *Checker) renewing(ctx context.Context, try func(*compiled.Set) (Result, error)) (Result, error) {
	for range maxReloads {
		set := c.set.Load()
		checked, err := try(set)
		if !errors.Is(err, ErrStale) {
			return checked, err
		}
		if err := c.renew(ctx, set); err != nil {
			return Result{}, err
		}
	}
	return Result{}, ErrStale
}

// renew reads a newer Set than the stale one: where it is stored or, when a failover took
// back what was saved there last, in a mirror. Without either it fails with errStale:
// steps by the older Set would make states forget what those of the newer one count.
func (c *Checker) renew(ctx context.Context, stale *compiled.Set) error {
	if err := c.Load(ctx); err != nil || c.set.Load() != stale {
		return err
	}
	set, _, err := policyset.NewestSet(ctx, c.client)
	if err != nil {
		return c.keepLastGood(set, err)
	}
	if err := c.adopt(set); err != nil || c.set.Load() != stale {
		return err
	}
	return ErrStale
}

// newest fails with errStale when a newer Set than this one is in force, so that no
// caller is refused by an old one.
func (c *Checker) newest(ctx context.Context, set *compiled.Set, id string) error {
	b := keyspace.BucketOf(id)
	head, err := c.client.Do(ctx, c.client.B().Getrange().Key(policyset.CopyKey(b)).Start(0).End(
		4).Build()).AsBytes()
	switch {
	case err != nil:
		return fmt.Errorf("policy: check: %w", err)
	case len(head) == 5 && int64(binary.BigEndian.Uint32(head[1:])) > set.Version:
		return ErrStale
	}
	return nil
}

func (c *Checker) ownStep(set *compiled.Set, call Call, rule *compiled.Route, plan int) step {
	hash := call.hash
	if call.Kind == policy.APIKey && hash == "" {
		sum := c.pepper.Hash(call.Secret)
		hash = string(sum[:])
	}
	id := call.Subject
	bucket := keyspace.BucketOf(id)
	cost := rule.Cost
	if set.Exempts(call.Address) {
		cost = 0
	}
	s := step{
		script: checkScript,
		keys:   []string{keyspace.Record(id), keyspace.State(id), policyset.CopyKey(bucket)},
		args: []string{hash, strconv.FormatInt(cost, 10), strconv.FormatInt(set.Version, 10),
			strconv.Itoa(plan), reserving(set, rule)},
		guard: c.guard(set, call),
	}
	if set.Wide || len(rule.PerKeyEntry) > 0 && cost > 0 || s.guard != nil {
		return s.widened(set, id, rule, cost)
	}
	if s.known = c.known.find(id, hash, set.Version); s.known != nil {
		s.args = append(s.args, s.known.args...)
	}
	return s
}

// ownArgs is how many arguments the scripts of a check share.
const ownArgs = 5

// wideStep is ownStep in the script that reports each limit.
func (c *Checker) wideStep(set *compiled.Set, call Call, rule *compiled.Route, plan int) step {
	s := c.ownStep(set, call, rule, plan)
	if s.script == wideScript {
		return s
	}
	s.args, s.known = s.args[:ownArgs], nil
	return s.widened(set, call.Subject, rule, rule.Cost)
}

func (s step) widened(set *compiled.Set, id string, rule *compiled.Route, cost int64) step {
	perKey := valkey.BinaryString(rule.PerKeyEntry)
	if cost == 0 {
		perKey = ""
	}
	s.script = wideScript
	s.keys = append(s.keys, keyspace.Of(id, "sb"), keyspace.Of(id, "sd"), rule.State(id),
		keyspace.Of(id, "sk"))
	s.args = append(s.args, set.BanArgs[0], set.BanArgs[1], set.BanArgs[2], perKey)
	if s.guard != nil {
		s.args = append(s.args, s.guard.args()...)
	}
	return s
}
