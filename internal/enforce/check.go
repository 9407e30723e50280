// Package enforce decides one call with Valkey. A Checker finds the caller and the limits
// that apply, and takes the call's cost from all of them or from none. It also explains
// decisions, and settles costs. Package decide imports it and answers when Valkey cannot.
// Package enforce reads the policy set; only package registry writes it.
//
// # Algorithm
//
// An environment remembers the records of its callers and the policy set. From them it
// finds the limits that apply to a call (terms.go), and arranges them into steps of package
// limiter: one on the caller's own limits, and one for each subject of shared limits. The
// script of the caller's own step first compares what the environment knows with what is
// stored (check.lua). If that differs it takes nothing, returns the newest, and the check
// begins again. So a caller that the environment does not know takes one round trip more,
// and an edit acts on the next check.
//
// Only if the caller's own limits allow the call do the steps on shared limits follow, in
// a second round trip: a caller that may not call never touches them. For a caller that
// this environment allowed in the last 10 s, all steps leave in one flush. If a step
// denies the call, the others give back what they took.
//
// # Consistency
//
// Each step is atomic. Between slots a cost that is given back counts until then, so
// limits never admit too much, but may deny for a moment. A save of the policy set applies
// to every check that starts after the save was acknowledged.
//
// # Failures
//
// An error that refuses the caller (policy.ErrUnknownKey, policy.ErrRefused) is a
// decision. Any other error means that no decision was made: what other steps took is
// given back, if Valkey can be reached. Otherwise it counts until its window passes. A
// call whose reply was lost may have been taken, and counts twice if it is checked again.
package enforce

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
)

// Checker checks calls against the newest policy set. It is safe for concurrent use.
type Checker struct {
	client   valkey.Client
	pepper   apikey.Pepper
	subjects apikey.Key
	seal     seal
	set      atomic.Pointer[compiled]
	callers  *callers
	periods  periods

	// Now is the clock for recent callers and calendars. Set it before the first use.
	Now func() time.Time

	// SettlementExpiry is how long a call can be settled, within the bounds of
	// config.SettleWithin. Set it before the first use.
	SettlementExpiry time.Duration
}

const defaultSettlementExpiry = 10 * time.Minute

// NewChecker returns a Checker on a connected client.
func NewChecker(client valkey.Client, pepper apikey.Pepper) *Checker {
	return &Checker{
		client: client, pepper: pepper, subjects: apikey.NewKey(pepper), seal: newSeal(pepper),
		callers: newCallers(), periods: periods{found: map[limiter.Limit]limiter.Periods{}},
		Now: time.Now, SettlementExpiry: defaultSettlementExpiry,
	}
}

// Check takes the call's costs from all limits that apply, or from none. It returns
// policy.ErrUnknownKey or policy.ErrRefused for a caller that may not call. Any other error
// means that no decision was made.
func (c *Checker) Check(ctx context.Context, call Call) (Result, error) {
	proof := c.proof(call)
	for range maxReloads {
		set, err := c.loaded(ctx)
		if err != nil {
			return Result{}, err
		}
		began := c.Now()
		r, err := c.begin(set, call, proof, began)
		if err != nil {
			return Result{}, err
		}
		stale, err := r.take(ctx)
		if stale == nil {
			return r.finish(ctx, err)
		}
		if err := c.learn(ctx, set, call.Subject, stale, began); err != nil {
			return Result{}, err
		}
		if stale.mark != "" {
			return c.refuseMarked(ctx, set, call, proof, stale, began)
		}
	}
	return Result{}, ErrStale
}

// refuseMarked answers a call of a caller with a mark, which it has learned. Nothing was
// taken.
func (c *Checker) refuseMarked(ctx context.Context, set *compiled, call Call, proof [sha256.Size]byte,
	f *found, began time.Time) (Result, error) {
	r, err := c.begin(set, call, proof, began)
	if err != nil {
		return Result{}, err
	}
	r.Result.Now = f.now
	if r.Refused == nil && r.Result.BannedUntil.IsZero() {
		return Result{}, fmt.Errorf("%w: the mark of %s does not refuse it", ErrStale, call.Subject)
	}
	return r.finish(ctx, nil)
}

// proof returns the hash of the call's secret; zero for a caller without an API key.
func (c *Checker) proof(call Call) (proof [sha256.Size]byte) {
	if call.Kind == policy.APIKey {
		proof = c.pepper.Hash(call.Secret)
	}
	return proof
}

// learn remembers what a script read of a caller, and reads a newer policy set if there is
// one. A bucket that lost its records is an outage, unless the caller has a mark.
func (c *Checker) learn(ctx context.Context, set *compiled, subject string, f *found, asked time.Time) error {
	switch {
	case f.mark != "":
	case f.policy == 0:
		return fmt.Errorf("%w: the bucket of %s: %w", ErrStale, subject, policy.ErrMissing)
	case f.policy > set.Version:
		if err := c.renew(ctx, set); err != nil {
			return err
		}
	}
	k := c.callers.learn(subject, f, asked)
	if k.problem != nil && f.mark == "" {
		return fmt.Errorf("enforce: record of %s: %w", subject, k.problem)
	}
	return nil
}

// round is one try of a check with what is known.
type round struct {
	*Terms
	c     *Checker
	began time.Time
	known bool // the caller's record is known; else it is guessed that there is none
	early bool // all steps leave in one flush
	mark  string
	taken []taken
}

// taken is a step that took the call's cost.
type taken struct {
	subject  string
	decision limiter.Decision
	first    int // index of its first limit in Result.Limits
}

// begin finds the terms of a call. A caller that is not known yet is taken for one without
// a record, which an API key is not.
func (c *Checker) begin(set *compiled, call Call, proof [sha256.Size]byte, began time.Time) (*round, error) {
	k := c.callers.find(call.Subject)
	known := k != nil
	if !known {
		k = &caller{now: began}
	}
	t, err := c.terms(set, k, call, proof)
	if err != nil {
		return nil, fmt.Errorf("enforce: limits of a call: %w", err)
	}
	r := &round{Terms: t, c: c, began: began, known: known}
	if t.Refused == nil && t.Result.BannedUntil.IsZero() {
		r.early = len(t.Steps) > 1 && k.expects(set.Version, t.dearest(), began)
		if t.Result.Settle {
			r.mark = newMark()
		}
	}
	return r, nil
}

// dearest returns the largest cost of the call.
func (t *Terms) dearest() (cost int64) {
	for _, a := range t.Steps[0].Limits {
		cost = max(cost, a.Cost)
	}
	return cost
}

// take runs the steps. It returns what the environment did not know, if that keeps the call
// from being decided.
func (r *round) take(ctx context.Context) (stale *found, err error) {
	runs := []run{r.ownRun(r.mark, r.c.SettlementExpiry)}
	if r.early {
		runs = append(runs, r.sharedRuns()...)
	}
	replies := r.c.flush(ctx, runs)
	own := replies[0]
	if own.read != nil && r.looks() && r.mark == "" && r.isNewest(own.read) {
		r.Result.Now, own = own.read.now, reply{numbers: nil}
	}
	if own.err != nil || own.read != nil {
		if r.early {
			_ = r.addShared(replies[1:])
			r.giveBack(ctx)
		}
		return own.read, own.err
	}
	switch {
	case r.known:
		r.caller.confirm(r.began)
	case r.call.Kind != policy.APIKey: // an unknown key is not remembered: anybody can make one up
		r.caller = r.c.callers.learn(r.Result.ID, &found{now: r.began}, r.began)
	}
	if r.Refused != nil || !r.Result.BannedUntil.IsZero() {
		return nil, nil //nolint:nilerr // the refusal is in Terms
	}
	r.Result.Allowed, r.Result.WouldAllow = true, true
	if own.numbers != nil {
		if err := r.add(0, own.numbers); err != nil {
			return nil, err
		}
	}
	switch {
	case r.early && !r.Result.Allowed:
		_ = r.addShared(replies[1:]) // the caller's own step decides
		r.giveBack(ctx)
		r.forgetShared()
		return nil, nil
	case r.early:
		return nil, r.addShared(replies[1:])
	case r.Result.Allowed && len(r.Steps) > 1:
		return nil, r.addShared(r.c.flush(ctx, r.sharedRuns()))
	}
	return nil, nil
}

// forgetShared leaves out what shared limits said.
func (r *round) forgetShared() {
	for i := len(r.Steps[0].Limits); i < len(r.Result.Limits); i++ {
		l := &r.Result.Limits[i]
		*l = LimitState{Applied: l.Applied, CountKey: l.CountKey, Unread: true}
	}
}

// isNewest reports whether a look found what the environment knows.
func (r *round) isNewest(f *found) bool {
	if f.mark != "" || f.policy == 0 || f.policy > r.set.Version {
		return false
	}
	ended := !r.standing.until.IsZero() && !f.now.Before(r.standing.until)
	if !r.known && r.call.Kind == policy.APIKey && f.record == "" {
		return true // there is no such key
	}
	return f.record == r.caller.record && !ended
}

// finish returns the result. It gives back what was taken for a call that is not allowed.
func (r *round) finish(ctx context.Context, err error) (Result, error) {
	result := &r.Result
	if err != nil || !result.Allowed {
		result.Allowed = false
		r.giveBack(ctx)
	}
	switch {
	case err != nil:
		r.caller.learnAllowed(recent{})
		return Result{}, err
	case r.Refused != nil:
		r.caller.learnAllowed(recent{})
		refused := *r.Refused
		refused.Verified = refused.Verified || r.standing.refused == nil // the credential is good
		return Result{}, &refused
	case !result.Allowed:
		r.caller.learnAllowed(recent{})
		result.WouldAllow = false
		result.Repeats = !result.BannedUntil.IsZero() || !r.CountsDenied() && !result.deniedAtOnce()
		return *result, nil
	}
	r.caller.learnAllowed(recent{r.set.Version, r.began, r.leastRemaining()})
	r.recordCrossings()
	if r.mark != "" {
		result.Settlement = r.settlement()
	}
	return *result, nil
}

// CountsDenied reports whether a limit of the caller counts denied calls, so that no denial may be
// repeated without asking it.
func (t *Terms) CountsDenied() bool {
	for _, a := range t.Steps[0].Limits {
		if a.CountDenied && !a.CountsOnly {
			return true
		}
	}
	return false
}

// leastRemaining returns the least that remains of the caller's own enforced limits.
func (t *Terms) leastRemaining() int64 {
	least := int64(math.MaxInt64)
	for _, l := range t.Result.Limits[:len(t.Steps[0].Limits)] {
		if l.Enforced() && !l.Unread {
			least = min(least, l.Remaining)
		}
	}
	return least
}

// Probe reads the caller's record over the connection that Check would use, and takes
// nothing. Unlike Check, it is safe for the client to retry. So Probe replaces a
// connection that was closed meanwhile. It needs no permission that Check does not.
func (c *Checker) Probe(ctx context.Context, call Call) error {
	records := keyspace.BucketOf(call.Subject).Records()
	read := c.client.B().Hget().Key(records).Field(keyspace.RecordField(call.Subject)).Build()
	err := c.client.Do(ctx, read).Error()
	if err != nil && !valkey.IsValkeyNil(err) {
		return fmt.Errorf("enforce: probe: %w", err)
	}
	return nil
}
