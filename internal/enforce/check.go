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
	"fmt"
	"net/netip"
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

// attempt is one attempt at a check, by one version of the Set.
type attempt struct {
	*Checker
	set    *compiled.Set
	call   Call
	rule   *compiled.Route
	own    step
	shared []step        // on shared limits
	leases leaseRequests // of shared
	result Result
}

// check makes one attempt. It gives back what was taken for a call that is not allowed.
func (c *Checker) check(
	ctx context.Context, set *compiled.Set, call Call, plan int, rule *compiled.Route, with *Piggyback,
) (Result, error) {
	a := &attempt{Checker: c, set: set, call: call, rule: rule, own: c.ownStep(set, call, rule, plan)}
	a.result = Result{
		Allowed: true, WouldAllow: true, CandidateAllows: true,
		ID: call.Subject, Rule: rule.Name, Settle: rule.Settle, Cost: rule.Cost,
		SetVersion: set.Version, plan: plan,
		free: rule.Cost == 0 || set.Exempts(call.Address),
	}
	who, asked := recentCallerOf(call, a.own), c.now()
	var expected keyGroup // that the caller was in at its last call
	early := false
	if !a.result.free {
		a.shared = sharedSteps(set, call, rule, c.addresses)
		if (len(a.shared) > 0 || set.Groups()) && a.own.guard == nil {
			expected, early = c.recent.allow(who, rule, set, asked)
		}
	}
	err := a.take(ctx, with, early, expected)
	if err != nil {
		a.result.Allowed = false
	}
	if set.Shares || early || a.result.group != (keyGroup{}) {
		c.recent.learn(who, rule, asked, &a.result)
	}
	if a.result.Allowed {
		a.noteCrossings()
	} else {
		a.giveBack(ctx, &a.result)
	}
	switch checked := &a.result; {
	case err != nil:
		return Result{}, err
	case !checked.Allowed:
		checked.Repeats = !checked.BannedUntil.IsZero() || set.Bans == nil && checked.inert()
	case rule.Settle:
		checked.Reservation = c.reservation(checked, call, rule)
	}
	return a.result, nil
}

// take makes the caller's own step, and those on shared limits when it allows the call.
// With early all of them leave in one flush, with that on the group in which the caller
// is expected. What shared limits gave is given back when the caller's own step does not
// allow the call.
func (a *attempt) take(ctx context.Context, with *Piggyback, early bool, expected keyGroup) error {
	first := []step{a.own}
	if early {
		a.addGroup(expected)
		a.leases = a.requestLeases(a.set, a.shared, a.rule.Cost)
		first = append(first, a.leases.sent(a.shared)...)
	}
	replies := a.flush(ctx, first, with)
	err := a.readOwn(ctx, replies[0])
	allowed := err == nil && a.result.Allowed
	switch {
	case early && allowed && a.result.group != expected:
		return a.readMoved(ctx, replies[1:], expected)
	case early && allowed:
		return a.readShared(&a.result, replies[1:])
	case early:
		unused := a.unused(expected)
		_ = a.readShared(&unused, replies[1:]) // the caller's own step decides
		a.giveBack(ctx, &unused)
	case allowed && !a.result.free:
		a.addGroup(a.result.group)
		a.leases = a.requestLeases(a.set, a.shared, a.rule.Cost)
		return a.readShared(&a.result, a.flush(ctx, a.leases.sent(a.shared), nil))
	}
	return err
}

// unused is a result that counts what shared limits gave for nothing.
func (a *attempt) unused(group keyGroup) Result {
	return Result{Allowed: true, Cost: a.result.Cost, SetVersion: a.set.Version, group: group}
}

// Probe reads where Check of the call would, over the same connection, and takes nothing.
// The client may try it again by itself, which it must not do with a Check: so it finds a
// connection that was closed meanwhile, and leaves a good one. It needs no permission
// that Check does not.
func (c *Checker) Probe(ctx context.Context, call Call) error {
	err := c.client.Do(ctx, c.client.B().Get().Key(keyspace.Record(call.Subject)).Build()).Error()
	if err != nil && !valkey.IsValkeyNil(err) {
		return fmt.Errorf("enforce: probe: %w", err)
	}
	return nil
}
