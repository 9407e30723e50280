// Package decide answers calls: known denials from memory, other calls from Valkey
// through package enforce. While Valkey is unavailable, it decides by Valkey's last
// result for the caller. The check function imports it, and passes every call through a
// Decider. The package knows neither events of API Gateway nor environment variables.
//
// # Algorithm
//
// A Decider repeats a denial of a caller that it denied ten times in a row. Otherwise it
// asks Valkey, unless the breaker is open, and remembers the result. Without an answer it
// decides by what it remembers: the plan of a known caller closes, opens, or counts with
// models of package limiter.
//
// # Consistency
//
// A repeated denial is at most Settings.DenyCache old and ends at its Retry-After. So an
// edit or a reset acts that much later for such a caller, and on the next check for all
// others. Decisions without Valkey are those of one process: all processes together admit
// at most their shares, in addition to what Valkey admitted before.
//
// # Failures
//
// Authentication never fails open. A caller is known for at most Settings.CallerCache
// after Valkey accepted exactly its credential; without Valkey all others are denied, but
// addresses on an open plan, which have no credential. A caller that Valkey refuses is
// forgotten. A breaker for each sector of the key space keeps calls from waiting for a
// server that does not answer.
package decide

import (
	"context"
	"errors"
	"slices"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
)

// Source checks calls with Valkey. It connects when it needs to, and may wait for that.
type Source interface {
	// Check is enforce.Checker.Check. An error for which Unavailable reports true means
	// that Valkey made no decision.
	Check(ctx context.Context, call enforce.Call) (enforce.Result, error)
	// Loaded returns the Checker of the connection; nil until it has read a policy set.
	Loaded() *enforce.Checker
	// MustCheck reports whether the next call must be checked with Valkey, because other
	// commands are due and leave with it.
	MustCheck() bool
}

// Settings are the settings of a Decider.
type Settings struct {
	Pepper      apikey.Pepper
	CallerCache time.Duration // how long a verified caller is remembered; 0 for not at all
	DenyCache   time.Duration // how long a denial is repeated from memory; 0 for not at all
	Sectors     int           // circuits of the breaker: 1 for a single server
}

// Decider decides calls. It is safe for concurrent use.
type Decider struct {
	source  Source
	pepper  apikey.Pepper
	now     func() time.Time
	breaker *breaker
	callers *callers
	denials *denialCache
	unknown *unknownKeys
}

// NewDecider returns a Decider on a Source.
func NewDecider(source Source, s Settings, now func() time.Time) *Decider {
	return &Decider{
		source: source, pepper: s.Pepper, now: now,
		breaker: newBreaker(s.Sectors, now), callers: newCallers(s.CallerCache, now),
		denials: newDenialCache(s.DenyCache, now), unknown: &unknownKeys{now: now},
	}
}

// Report describes the check of one call with Valkey.
type Report struct {
	Took         time.Duration // 0 if Valkey was not asked
	Unavailable  bool          // Valkey made no decision
	Recovered    bool          // Valkey decides again after it was unavailable
	OpenCircuits int           // number of open circuits of the breaker
	Err          error         // error of the Source
}

// Decide answers a call. An error means that the caller is refused, that there is no
// policy set, or that Valkey's reply is invalid.
func (d *Decider) Decide(ctx context.Context, call enforce.Call) (enforce.Result, Report, error) {
	q := d.newInquiry(call)
	result, found, full := d.knownDenial(q)
	if found {
		return result, Report{}, nil
	}
	call.Full = full
	call.LookUp = call.Kind == policy.APIKey && d.unknown.many() && !d.callers.knows(q.call, q.proof)
	if !d.breaker.allow(call.Subject) {
		result, err := d.decideWithout(q)
		return result, Report{}, d.markVerified(q, err)
	}
	began := d.now()
	result, report := d.ask(ctx, call, began)
	if result.Unverified {
		of, _, _ := d.callers.undisturbed(q.call, q.proof)
		of.describe(&result)
	}
	if report.Unavailable {
		result, err := d.decideWithout(q)
		return result, report, d.markVerified(q, err)
	}
	d.remember(q, began, result, report.Err)
	return result, report, d.markVerified(q, report.Err)
}

// markVerified marks a refusal by the policy set as verified if Valkey accepted the key's
// secret within Settings.CallerCache. Otherwise the key may be made up.
func (d *Decider) markVerified(q inquiry, err error) error {
	var refusal *policy.RefusedError
	if errors.As(err, &refusal) && !refusal.Verified && errors.Is(err, policy.ErrRefused) &&
		d.callers.knows(q.call, q.proof) {
		return &policy.RefusedError{Cause: refusal.Cause, Verified: true, Reason: refusal.Reason}
	}
	return err
}

// knownDenial returns the denial of a call that is known to be still denied. full is as
// in sharedDenial.
func (d *Decider) knownDenial(q inquiry) (denial enforce.Result, found bool, full string) {
	if q.err != nil || d.source.MustCheck() {
		return enforce.Result{}, false, ""
	}
	for _, call := range []deniedCall{q.deniedHere(), q.denied()} {
		if result, found := d.denials.find(call); found {
			return result, true, ""
		}
	}
	return d.sharedDenial(q)
}

// ask checks a call with Valkey, and reports the outcome to the breaker.
func (d *Decider) ask(ctx context.Context, call enforce.Call, began time.Time) (enforce.Result, Report) {
	result, err := d.source.Check(ctx, call)
	report := Report{Took: d.now().Sub(began), Unavailable: Unavailable(err), Err: err}
	// ErrStale is an answer too: that of a bucket without a copy of the plans. Callers
	// can choose their bucket, so they must not be able to open the circuit.
	open, changed := d.breaker.report(call.Subject, !report.Unavailable || errors.Is(err, enforce.ErrStale))
	report.OpenCircuits, report.Recovered = open, changed && !report.Unavailable
	return result, report
}

// remember records Valkey's answer for later calls of the caller.
func (d *Decider) remember(q inquiry, began time.Time, result enforce.Result, err error) {
	var refusal *policy.RefusedError
	switch {
	case result.Unverified:
		d.learnShared(q, began, result)
	case err == nil:
		d.callers.remember(q.call, q.proof, began, result)
		if q.err == nil {
			d.learnDenied(q, began, result)
			d.learnShared(q, began, result)
		}
	case errors.Is(err, policy.ErrUnknownKey):
		d.callers.forget(q.call, q.proof)
		if q.call.Kind == policy.APIKey && errors.As(err, &refusal) && refusal.Cause == cause.Unknown {
			d.unknown.learn(began)
		}
	}
}

// learnDenied records Valkey's answer to a caller. It keeps a denial by a limit on each
// address for calls from this address alone.
func (d *Decider) learnDenied(q inquiry, began time.Time, result enforce.Result) {
	everywhere, here := q.denied(), q.deniedHere()
	everywhere.SetVersion, here.SetVersion = result.SetVersion, result.SetVersion
	byAddress := slices.ContainsFunc(result.Limits, func(l enforce.LimitState) bool {
		return l.Denies() && (l.Scope == policy.ScopeIP || l.Scope == policy.ScopeRouteIP)
	})
	if byAddress || !result.Repeats {
		d.denials.learn(here, began, result)
	}
	if !byAddress {
		d.denials.learn(everywhere, began, result)
	}
}

// inquiry is one call, with what the environment knows about it before it asks Valkey.
type inquiry struct {
	call  enforce.Call
	proof secretHash
	set   *policy.Set // nil before the first one was read
	match enforce.RouteMatch
	err   error // error of enforce.Checker.RouteMatch
}

func (d *Decider) newInquiry(call enforce.Call) inquiry {
	q := inquiry{call: call, match: enforce.RouteMatch{Cost: 1}}
	if call.Kind == policy.APIKey {
		q.proof = d.pepper.Hash(call.Secret)
	}
	if c := d.source.Loaded(); c != nil {
		q.set = c.Set()
		q.match, q.err = c.RouteMatch(call)
	}
	return q
}

// denied returns the call's key in the denial cache.
func (q inquiry) denied() deniedCall {
	return deniedCall{
		Subject: q.call.Subject, Proof: q.proof, Plan: q.call.Plan,
		Rule: q.match.Rule, Cost: q.match.Cost, SetVersion: q.match.SetVersion,
	}
}

// deniedHere is denied for calls from this call's address alone.
func (q inquiry) deniedHere() deniedCall {
	call := q.denied()
	call.Network = q.call.Network
	return call
}
