// Package decide answers a call: a known denial from memory, any other call through
// Valkey by package enforce. While Valkey is away it decides by what it last heard of the
// caller. Every call has to go through a Decider; the check function imports it. It
// knows no event of API Gateway and no setting.
package decide

import (
	"context"
	"errors"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
)

// Source asks Valkey. It connects by itself and may wait for that.
type Source interface {
	// Check is enforce.Checker.Check. An error for which Away reports true means that
	// Valkey made no decision.
	Check(ctx context.Context, call enforce.Call) (enforce.Result, error)
	// Loaded returns the Checker of the connection, nil until it has read a policy set.
	Loaded() *enforce.Checker
	// MustAsk reports whether the next call has to ask Valkey, since other commands wait
	// to leave with it.
	MustAsk() bool
}

// Settings of a Decider.
type Settings struct {
	Pepper      apikey.Pepper
	CallerCache time.Duration // how long a verified caller is known without Valkey
	DenyCache   time.Duration // how long a denial is answered again
	Sectors     int           // circuits of the breaker: 1 for a single server
}

// Decider decides calls. It answers known denials by itself, asks Valkey about other
// calls, and decides without it while it is away. It is safe for concurrent use.
type Decider struct {
	source  Source
	pepper  apikey.Pepper
	now     func() time.Time
	breaker *Breaker
	callers *Callers
	denials *DenialCache
	unknown *unknownValues
}

// NewDecider returns a Decider on a Source.
func NewDecider(source Source, s Settings, now func() time.Time) *Decider {
	return &Decider{
		source: source, pepper: s.Pepper, now: now,
		breaker: NewBreaker(s.Sectors, now), callers: NewCallers(s.CallerCache, now),
		denials: NewDenialCache(s.DenyCache, now), unknown: newUnknownValues(now),
	}
}

// Asked is what asking Valkey about one call came to.
type Asked struct {
	Took         time.Duration // 0 when Valkey was not asked
	Away         bool          // it made no decision
	Recovered    bool          // it decides again
	OpenCircuits int           // of the breaker
	Err          error         // of the Source
}

// Decide answers a call. Its error means that the caller is refused, that there is no
// policy set, or that Valkey's answer makes no sense.
func (d *Decider) Decide(ctx context.Context, call enforce.Call) (enforce.Result, Asked, error) {
	q := d.inquire(call)
	if result, found := d.knownDenial(q); found {
		return result, Asked{}, nil
	}
	if d.knownUnknown(q) {
		return enforce.Result{}, Asked{}, &policy.RefusedError{Cause: cause.Unknown}
	}
	if !d.breaker.Ask(call.Subject) {
		result, err := d.decideWithout(q)
		return result, Asked{}, d.attributed(q, err)
	}
	began := d.now()
	result, asked := d.ask(ctx, call, began)
	if asked.Away {
		result, err := d.decideWithout(q)
		return result, asked, d.attributed(q, err)
	}
	d.remember(q, began, result, asked.Err)
	return result, asked, d.attributed(q, asked.Err)
}

// attributed marks a refusal by the policy set as that of the key, when Valkey accepted
// its secret within Settings.CallerCache. Otherwise anybody may have made up the key.
func (d *Decider) attributed(q inquiry, err error) error {
	var refusal *policy.RefusedError
	if errors.As(err, &refusal) && !refusal.Verified && errors.Is(err, policy.ErrRefused) &&
		d.callers.Knows(q.call, q.proof) {
		return &policy.RefusedError{Cause: refusal.Cause, Verified: true}
	}
	return err
}

// knownDenial answers a call that is known to be denied still.
func (d *Decider) knownDenial(q inquiry) (enforce.Result, bool) {
	if q.err != nil || d.source.MustAsk() {
		return enforce.Result{}, false
	}
	return d.denials.Find(q.denied())
}

// knownUnknown reports whether the call is refused for its foreign key value without
// asking.
func (d *Decider) knownUnknown(q inquiry) bool {
	if !q.call.Secret.Foreign() || d.source.MustAsk() {
		return false
	}
	return d.unknown.refuses(q.proof) ||
		d.unknown.exceeded(q.call.Network) && !d.callers.Knows(q.call, q.proof)
}

// ask asks Valkey and reports to the breaker.
func (d *Decider) ask(ctx context.Context, call enforce.Call, began time.Time) (enforce.Result, Asked) {
	result, err := d.source.Check(ctx, call)
	asked := Asked{Took: d.now().Sub(began), Away: Away(err), Err: err}
	// A bucket without a copy of the policies answered. Callers can choose their bucket.
	open, changed := d.breaker.Report(call.Subject, !asked.Away || errors.Is(err, enforce.ErrStale))
	asked.OpenCircuits, asked.Recovered = open, changed && !asked.Away
	return result, asked
}

// remember keeps what Valkey said for later calls of the caller.
func (d *Decider) remember(q inquiry, began time.Time, result enforce.Result, err error) {
	var refusal *policy.RefusedError
	switch {
	case err == nil:
		d.callers.Remember(q.call, q.proof, result)
		if q.err == nil {
			denied := q.denied()
			denied.SetVersion = result.SetVersion
			d.denials.Learn(denied, began, result)
		}
	case errors.Is(err, policy.ErrUnknownKey):
		d.callers.Forget(q.call, q.proof)
		if q.call.Secret.Foreign() && errors.As(err, &refusal) && refusal.Cause == cause.Unknown {
			d.unknown.learn(q.proof, q.call.Network, began)
		}
	}
}
