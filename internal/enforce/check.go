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
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/limiter"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store"
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
	copyDue  atomic.Int64 // Unix nanoseconds: see copyPause

	// Now is the clock for recent callers, calendars and copyPause. Set it before the first
	// use.
	Now func() time.Time

	// SettlementExpiry is how long a call can be settled, within the bounds of
	// config.ReservationLease. Set it before the first use.
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

// Check takes the call's costs from all limits that apply, or from none. The piggybacked
// commands leave in the first flush. Check returns policy.ErrUnknownKey or
// policy.ErrRefused for a caller that may not call. Any other error means that no decision
// was made.
func (c *Checker) Check(ctx context.Context, call Call, piggyback *Piggyback) (Result, error) {
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
		stale, err := r.take(ctx, piggyback)
		if stale == nil {
			return r.finish(ctx, err)
		}
		if err := c.learn(ctx, set, call.Subject, stale, began); err != nil {
			return Result{}, err
		}
	}
	return Result{}, ErrStale
}

// proof returns the hash of the call's secret; zero for a caller without an API key.
func (c *Checker) proof(call Call) (proof [sha256.Size]byte) {
	if call.Kind == policy.APIKey {
		proof = c.pepper.Hash(call.Secret)
	}
	return proof
}

// learn remembers what a script read of a caller, and reads a newer policy set if there is
// one.
func (c *Checker) learn(ctx context.Context, set *compiled, subject string, f *found, asked time.Time) error {
	switch version, known := copyVersion(f.head); {
	case !known:
		return c.renew(ctx, set, true)
	case version > set.Version:
		if err := c.renew(ctx, set, false); err != nil {
			return err
		}
	}
	k := c.callers.learn(subject, f.record, f.now, asked)
	if k.problem != nil {
		return fmt.Errorf("enforce: record of %s: %w", subject, k.problem)
	}
	return nil
}

// copyVersion returns the version of a bucket's copy; known is false without one.
func copyVersion(head string) (version int64, known bool) {
	if len(head) < policyset.CopyHead || head[0] != policyset.CopyFormat {
		return 0, false
	}
	return int64(binary.BigEndian.Uint32([]byte(head[1:]))), true
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
func (r *round) take(ctx context.Context, piggyback *Piggyback) (stale *found, err error) {
	runs := []run{r.ownRun(r.mark, r.c.SettlementExpiry)}
	if r.early {
		runs = append(runs, r.sharedRuns()...)
	}
	replies := r.c.flush(ctx, runs, piggyback)
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
		r.caller = r.c.callers.learn(r.Result.ID, nil, r.began, r.began)
	}
	if r.Refused != nil || !r.Result.BannedUntil.IsZero() {
		return nil, nil
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
		return nil, r.addShared(r.c.flush(ctx, r.sharedRuns(), nil))
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
	version, known := copyVersion(f.head)
	ended := !r.standing.until.IsZero() && !f.now.Before(r.standing.until)
	if !r.known && r.call.Kind == policy.APIKey && len(f.record) == 0 {
		return known && version <= r.set.Version // there is no such key
	}
	return known && version <= r.set.Version && string(f.record) == r.caller.record && !ended
}

func (r *round) sharedRuns() []run {
	runs := make([]run, 0, len(r.Steps)-1)
	for _, s := range r.Steps[1:] {
		runs = append(runs, sharedRun(sharedScript, s.Subject, s.step))
	}
	return runs
}

// addShared adds the decisions of the steps on shared limits, and returns the first error.
func (r *round) addShared(replies []reply) (failed error) {
	for i, reply := range replies {
		err := reply.err
		if err == nil {
			err = r.add(i+1, reply.numbers)
		}
		if failed == nil {
			failed = err
		}
	}
	return failed
}

// add adds the decision of a step.
func (r *round) add(step int, numbers []int64) error {
	d, err := r.Steps[step].step.Decision(numbers)
	if err != nil {
		return fmt.Errorf("enforce: check: %w", err)
	}
	first := 0
	for _, s := range r.Steps[:step] {
		first += len(s.Limits)
	}
	for i, u := range d.Limits {
		r.Result.Limits[first+i].Set(u)
	}
	if len(d.Taken) > 0 {
		r.taken = append(r.taken, taken{r.Steps[step].Subject, d, first})
	}
	r.Result.Now = d.Now
	r.Result.Allowed = r.Result.Allowed && d.Allowed
	r.Result.WouldAllow = r.Result.WouldAllow && d.WouldAllow()
	return nil
}

// Set sets the state of a limit.
func (l *LimitState) Set(u limiter.Usage) {
	l.Remaining, l.Owed, l.Next, l.RetryAfter = u.Remaining, u.Owed, u.Next, u.RetryAfter
	l.Never, l.Unread = u.Never, !u.Asked
	if l.AtOnce { // a call may end at any time
		l.Next, l.RetryAfter = 0, min(l.RetryAfter, atOnceRetry)
	}
}

// atOnceRetry is the Retry-After of a limit of calls at once.
const atOnceRetry = time.Second

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

// giveBackTime is the least time allowed for giving back, even if the call's own deadline
// is sooner.
const giveBackTime = 100 * time.Millisecond

// giveBack gives back what was taken for a call that is not allowed. A cost that cannot
// be given back stays counted until its window passes: limits then deny too much, but
// never admit too much.
func (r *round) giveBack(ctx context.Context) {
	if len(r.taken) == 0 {
		return
	}
	ctx, cancel := store.AtLeast(ctx, giveBackTime)
	defer cancel()
	runs := make([]run, len(r.taken))
	for i, t := range r.taken {
		runs[i] = giveRun(t.subject, t.decision.Settle(), "")
		if t.subject == r.Result.ID && r.mark != "" {
			runs[i] = giveRun(t.subject, t.decision.Settle(), keyspace.Of(r.Result.ID, r.mark))
		}
	}
	r.c.flush(ctx, runs, nil)
	r.recordStillCrossed(ctx)
	for _, t := range r.taken {
		for i := range t.decision.Limits {
			r.Result.Limits[t.first+i].Restore()
		}
	}
	r.taken = nil
}

// Restore adds the cost back to what remains of a limit that the call passed.
func (l *LimitState) Restore() {
	if l.Unread || l.Full() || l.CountDenied {
		return
	}
	if l.Remaining = min(l.Remaining+l.Cost, l.Requests); l.Remaining == l.Requests || l.Algorithm == limiter.Counter {
		l.Next = 0
	}
}

// Known returns the terms of a call by what Valkey said of its caller at most lifetime ago,
// and how long ago that was at most. It returns nil if it is not known that the caller may
// use the call's credential.
func (c *Checker) Known(call Call, lifetime time.Duration) (*Terms, time.Duration) {
	set, k := c.set.Load(), c.callers.find(call.Subject)
	if set == nil || k == nil || k.problem != nil {
		return nil, 0
	}
	now := c.Now()
	age := k.age(now)
	if age >= lifetime {
		return nil, 0
	}
	t, err := c.terms(set, k, call, c.proof(call))
	if err != nil {
		return nil, 0
	}
	if until := t.standing.until; !until.IsZero() && age >= until.Sub(k.now) {
		return nil, 0
	}
	return t, age
}

// Guess returns the terms of a call whose caller Valkey was never asked about, as if it had
// no record. It returns nil before the first policy set.
func (c *Checker) Guess(call Call) *Terms {
	set := c.set.Load()
	if set == nil || c.callers.find(call.Subject) != nil {
		return nil
	}
	t, err := c.terms(set, &caller{now: c.Now()}, call, c.proof(call))
	if err != nil {
		return nil
	}
	return t
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

// recordCrossings records the thresholds that an allowed call crossed. A call that was
// checked twice may have taken its cost twice.
func (r *round) recordCrossings() {
	at := 0
	for _, s := range r.Steps {
		for range s.Limits {
			l := r.Result.Limits[at]
			at++
			if len(l.Notify) == 0 || l.Unread || l.Full() {
				continue
			}
			cost := l.Cost
			if r.call.Again {
				cost *= 2
			}
			r.Result.Crossings = append(r.Result.Crossings, crossed(l, cost, s.Subject, r.Result.Now)...)
		}
	}
}

// recordStillCrossed records the thresholds that a call crossed and that giving back its
// cost leaves crossed. Calls made in between found them crossed and reported nothing.
func (r *round) recordStillCrossed(ctx context.Context) {
	for _, t := range r.taken {
		i := slices.IndexFunc(r.Steps, func(s Step) bool { return s.Subject == t.subject })
		step := r.Steps[i]
		if !slices.ContainsFunc(step.Limits, func(a limits.Applied) bool { return len(a.Notify) > 0 }) {
			continue
		}
		now := make([]LimitState, len(step.Limits))
		for j, a := range step.Limits {
			now[j].Applied = a
		}
		if r.c.look(ctx, []Step{step}, now) != nil {
			continue // the call is denied nevertheless
		}
		for j, l := range now {
			took := r.Result.Limits[t.first+j]
			if len(l.Notify) == 0 || l.Unread || took.Full() {
				continue
			}
			before := took.Used() + took.Owed - took.Cost
			r.Result.Crossings = append(r.Result.Crossings,
				crossed(l, l.Used()+l.Owed-before, step.Subject, r.Result.Now)...)
		}
	}
}

// crossed returns a Crossing for each threshold of a limit that taking a cost crossed.
func crossed(l LimitState, cost int64, subject string, at time.Time) (all []Crossing) {
	reset, used := l.Span(), l.Used()+l.Owed
	if l.Algorithm == limiter.FixedWindow {
		reset = l.Next
	}
	for _, percent := range l.Notify {
		if reached := int64(percent) * l.Requests; (used-cost)*100 < reached && used*100 >= reached {
			all = append(all, Crossing{Limit: l.Limit, Used: used, Subject: subject, Percent: percent, At: at,
				Reset: reset})
		}
	}
	return all
}
