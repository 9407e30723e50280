// Package enforce decides one call with Valkey. A Checker finds the caller and its newest
// limits, and takes the call's cost from all limits or from none. It also explains
// decisions, and reserves and settles costs. Package decide imports it and answers when
// Valkey cannot. Package enforce reads the policy set; only package registry writes it.
//
// # Algorithm
//
// One script in the caller's slot compares the secret's hash, the expiry and the ban, and
// takes from the caller's own limits. Only if it allows the call do the steps on shared
// limits follow, in a second round trip: a caller that may not call never touches them.
// For a caller that this environment allowed in the last 10 s, all steps leave in one
// flush. If a step denies the call, the others give back what they took.
//
// # Consistency
//
// Each step is atomic. Between slots a cost that is given back counts until then, so
// limits never admit too much, but may deny for a moment.
//
// A check sends the version of the policy set that this environment knows. If the
// caller's bucket has a newer one, the script takes nothing. The Checker then reads the
// set again and repeats the check. So a save applies to every check that starts after the
// save was acknowledged.
//
// # Failures
//
// An error that refuses the caller (policy.ErrUnknownKey, policy.ErrRefused) is a
// decision. Any other error means that no decision was made: what other steps took is
// given back, if Valkey can be reached. Otherwise it counts until its window passes. A
// call whose reply was lost may have been taken, and counts twice if it is checked again.
package enforce

import (
	"cmp"
	"context"
	"crypto/subtle"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/cause"
	"tidegate/internal/enforce/compiled"
	"tidegate/internal/enforce/reservation"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/store/keyspace"
)

// Call is one API call of an identified caller.
type Call struct {
	Kind    policy.Kind
	Subject string        // id of the caller; for Kind APIKey the id in Secret
	Secret  apikey.Secret // for Kind APIKey only
	Plan    string        // plan named by the token, for Kind Token; may be empty
	Address netip.Addr    // client's address, for the address lists; invalid if unknown
	Network netip.Prefix  // client's address as PerIP limits count it; invalid if unknown
	Route   route.Call

	Resource string // resource matched by API Gateway, such as /orders/{id}; for records only
	Request  string // API Gateway's request id; for records only

	// Full is the scope of a shared limit that denied the caller a moment ago; empty for
	// none. Check asks this limit first, and reads the caller's record only if the limit
	// now admits the call. So the caller must be verified, and have no limits that count
	// denied calls.
	Full string

	// LookUp says that the key is probably unknown. Check then reads the record first, and
	// runs the script only for a secret that the record has.
	LookUp bool

	// Again marks a call that is checked a second time because the first reply was lost.
	// The first check may have taken the cost.
	Again bool

	reserves bool   // Reserve takes the cost: the call is for no route
	hash     string // hash of the secret in the caller's record, used in place of Secret
}

// Checker checks calls against the newest policy set it has read. It is safe for
// concurrent use.
type Checker struct {
	client   valkey.Client
	pepper   apikey.Pepper
	subjects apikey.Key
	seal     reservation.Seal
	set      atomic.Pointer[compiled.Set]
	recent   *recentCallers
	known    *knownCallers
	access   *keyAccesses
	copyDue  atomic.Int64 // Unix nanoseconds: see copyPause

	// Now is the clock for recent callers and copyPause. Set it before the first use.
	Now func() time.Time

	// ReservationExpiry is how long a reservation can be settled, within the bounds of
	// config.ReservationLease. Set it before the first use.
	ReservationExpiry time.Duration

	mu       sync.Mutex
	programs map[string][]limiter.Limit // decoded entries of replies; few entries recur in all replies
}

// NewChecker returns a Checker on a connected client.
func NewChecker(client valkey.Client, pepper apikey.Pepper) *Checker {
	return &Checker{
		client: client, pepper: pepper, subjects: apikey.NewKey(pepper),
		seal:              reservation.NewSeal(pepper),
		ReservationExpiry: defaultReservationExpiry,
		recent:            newRecentCallers(), known: newKnownCallers(),
		access: newKeyAccesses(), Now: time.Now,
		programs: map[string][]limiter.Limit{},
	}
}

// Check takes the route's cost from the caller's limits and the route's, or from none.
// The caller's own step runs first. If it allows the call, the steps on shared limits
// follow in a second round trip. For a caller that was allowed here lately, all steps
// leave in one flush. One more round trip follows a change of the policy set, and one a
// denial by a shared limit, which gives back what other limits took. The piggybacked
// commands leave in the first flush. Check returns policy.ErrUnknownKey or
// policy.ErrRefused for a caller that may not call. Any other error means that no
// decision was made.
func (c *Checker) Check(ctx context.Context, call Call, piggyback *Piggyback) (Result, error) {
	if call.LookUp {
		if err := c.lookUp(ctx, call); err != nil {
			return Result{}, err
		}
	}
	return c.withNewestSet(ctx, func(set *compiled.Set) (Result, error) {
		plan, rule, err := matchCall(set, call)
		if err != nil {
			return Result{}, cmp.Or(c.checkNewest(ctx, set, call.Subject), err)
		}
		return c.check(ctx, set, call, plan, rule, piggyback)
	})
}

// lookUp returns a *policy.RefusedError unless the record of a key has the hash of the
// call's secret, as the newest one or the one before.
func (c *Checker) lookUp(ctx context.Context, call Call) error {
	const newest, previous, size = 2, 34, 32 // places in the record; see package policyset
	read := c.client.B().Getrange().Key(keyspace.Record(call.Subject)).Start(newest).End(previous + size - 1)
	hashes, err := c.client.Do(ctx, read.Build()).AsBytes()
	if err != nil {
		return fmt.Errorf("enforce: look up: %w", err)
	}
	proof := c.pepper.Hash(call.Secret)
	for i := 0; i+size <= len(hashes); i += size {
		if subtle.ConstantTimeCompare(hashes[i:i+size], proof[:]) == 1 {
			return nil
		}
	}
	return &policy.RefusedError{Cause: cause.Unknown}
}

// round is one try of a check with one version of the policy set.
type round struct {
	*Checker
	set    *compiled.Set
	call   Call
	rule   *compiled.Route
	own    step
	shared []step // steps on shared limits
	result Result
}

// check makes one try. If the call is not allowed, check gives back what it took.
func (c *Checker) check(
	ctx context.Context, set *compiled.Set, call Call, plan int, rule *compiled.Route, piggyback *Piggyback,
) (Result, error) {
	a := &round{Checker: c, set: set, call: call, rule: rule, own: c.ownStep(set, call, rule, plan)}
	a.result = Result{
		Allowed: true, WouldAllow: true,
		ID: call.Subject, Rule: rule.Name, Settle: rule.Settle, Cost: rule.Cost,
		SetVersion: set.Version, plan: plan,
		free: rule.Cost == 0 || set.Exempts(call.Address),
	}
	caller, began := recentCallerOf(call, a.own), c.Now()
	var expected keyGroup // group of the caller at its last call
	early := false
	if !a.result.free {
		a.shared = c.sharedSteps(set, call, rule)
		if denied, err := a.deniedByFull(ctx, piggyback); denied || err != nil {
			return a.result, err
		}
		if (len(a.shared) > 0 || set.Groups()) && a.own.guard == nil {
			expected, early = c.recent.allow(caller, rule, set, began)
		}
	}
	err := a.take(ctx, piggyback, early, expected)
	if err != nil {
		a.result.Allowed = false
	}
	if set.Shares || early || a.result.group != (keyGroup{}) {
		c.recent.learn(caller, rule, began, &a.result)
	}
	if a.result.Allowed {
		a.recordCrossings()
	} else {
		a.giveBack(ctx, &a.result)
	}
	switch result := &a.result; {
	case err != nil:
		return Result{}, err
	case !result.Allowed:
		result.Repeats = !result.BannedUntil.IsZero() || result.leavesNoTrace()
	case rule.Settle:
		result.Reservation = c.reservation(result, call, rule)
	}
	return a.result, nil
}

// take runs the caller's own step and, if that allows the call, the steps on shared
// limits. If early is set, all steps leave in one flush, including one on the expected
// group. If the caller's own step then denies the call, take gives back what shared
// limits gave.
func (a *round) take(ctx context.Context, piggyback *Piggyback, early bool, expected keyGroup) error {
	first := []step{a.own}
	if early {
		a.addGroup(expected)
		first = append(first, a.shared...)
	}
	replies := a.flush(ctx, first, piggyback)
	err := a.readOwn(ctx, replies[0])
	allowed := err == nil && a.result.Allowed
	switch {
	case early && allowed && a.result.group != expected:
		return a.readRegrouped(ctx, replies[1:], expected)
	case early && allowed:
		return a.readShared(&a.result, replies[1:])
	case early:
		unused := a.unused(expected)
		_ = a.readShared(&unused, replies[1:]) // the caller's own step decides
		a.giveBack(ctx, &unused)
	case allowed && !a.result.free:
		a.addGroup(a.result.group)
		return a.readShared(&a.result, a.flush(ctx, a.shared, nil))
	}
	return err
}

// deniedByFull reports whether the limit that Call.Full names still denies the call. It
// gives back what the limit gave.
func (a *round) deniedByFull(ctx context.Context, piggyback *Piggyback) (bool, error) {
	i := slices.IndexFunc(a.shared, func(s step) bool { return s.shared.Scope == a.call.Full })
	if i < 0 {
		return false, nil
	}
	reply := a.flush(ctx, a.shared[i:i+1], piggyback)[0]
	if reply.err != nil {
		return false, reply.err
	}
	asked := a.unused(keyGroup{})
	if err := asked.addShared(a.shared[i], reply.bytes); err != nil {
		return false, err
	}
	if asked.Allowed {
		a.giveBack(ctx, &asked)
		return false, nil
	}
	a.result.Allowed, a.result.WouldAllow, a.result.Unverified = false, false, true
	a.result.Limits, a.result.Now = asked.Limits, asked.Now
	a.result.Repeats = a.result.leavesNoTrace()
	return true, nil
}

// unused returns a Result that collects what shared limits gave in vain.
func (a *round) unused(group keyGroup) Result {
	return Result{Allowed: true, Cost: a.result.Cost, SetVersion: a.set.Version, group: group}
}

// Probe reads the caller's record over the connection that Check would use, and takes
// nothing. Unlike Check, it is safe for the client to retry. So Probe replaces a
// connection that was closed meanwhile. It needs no permission that Check does not.
func (c *Checker) Probe(ctx context.Context, call Call) error {
	err := c.client.Do(ctx, c.client.B().Get().Key(keyspace.Record(call.Subject)).Build()).Error()
	if err != nil && !valkey.IsValkeyNil(err) {
		return fmt.Errorf("enforce: probe: %w", err)
	}
	return nil
}
