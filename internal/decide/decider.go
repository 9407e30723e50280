// Package decide answers calls: known denials from memory, other calls from Valkey
// through package enforce. While Valkey is unavailable, it decides by Valkey's last
// result for the caller. The check function imports it, and passes every call through a
// Decider. The package knows neither events of API Gateway nor environment variables.
//
// # Algorithm
//
// A Decider repeats a denial by a limit that denied ten calls in a row. Otherwise it asks
// Valkey, unless the breaker is open. Without an answer it decides by what the Checker
// remembers of the caller: its plan closes, opens, or counts with models of package limiter.
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
	"time"

	"tidegate/internal/enforce"
)

// Source checks calls with Valkey. It connects when it needs to, and may wait for that.
type Source interface {
	// Check is enforce.Checker.Check. An error for which Unavailable reports true means
	// that Valkey made no decision.
	Check(ctx context.Context, call enforce.Call) (enforce.Result, error)
	// Loaded returns the Checker of the connection; nil until it has read a policy set.
	Loaded() *enforce.Checker
}

// Settings are the settings of a Decider.
type Settings struct {
	CallerCache time.Duration // how long a verified caller is remembered; 0 for not at all
	DenyCache   time.Duration // how long a denial is repeated from memory; 0 for not at all
	Sectors     int           // circuits of the breaker: 1 for a single server
}

// Decider decides calls. It is safe for concurrent use.
type Decider struct {
	source   Source
	lifetime time.Duration // how long a verified caller is remembered
	now      func() time.Time
	breaker  *breaker
	denials  *denialCache
	models   *models
}

// NewDecider returns a Decider on a Source.
func NewDecider(source Source, s Settings, now func() time.Time) *Decider {
	return &Decider{
		source: source, lifetime: s.CallerCache, now: now, breaker: newBreaker(s.Sectors, now),
		denials: newDenialCache(s.DenyCache, now), models: newModels(),
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
	if result, found := d.knownDenial(call); found {
		return result, Report{}, nil
	}
	if !d.breaker.allow(call.Subject) {
		result, err := d.decideWithout(call)
		return result, Report{}, err
	}
	began := d.now()
	result, report := d.ask(ctx, call, began)
	if report.Unavailable {
		result, err := d.decideWithout(call)
		return result, report, err
	}
	if report.Err == nil {
		d.denials.learn(began, result)
	}
	return result, report, report.Err
}

// knownDenial returns the denial of a call that is known to be still denied. A caller that
// is not known, that may not call, or that has limits that count denied calls, has none.
func (d *Decider) knownDenial(call enforce.Call) (denial enforce.Result, found bool) {
	checker := d.source.Loaded()
	if checker == nil || d.denials.lifetime == 0 {
		return enforce.Result{}, false
	}
	terms, age := checker.Known(call, d.lifetime)
	if terms == nil || terms.Refused != nil || terms.CountsDenied() {
		return enforce.Result{}, false
	}
	return d.denials.find(terms, age)
}

// ask checks a call with Valkey, and reports the outcome to the breaker.
func (d *Decider) ask(ctx context.Context, call enforce.Call, began time.Time) (enforce.Result, Report) {
	result, err := d.source.Check(ctx, call)
	report := Report{Took: d.now().Sub(began), Unavailable: Unavailable(err), Err: err}
	// ErrStale is an answer too: that of a bucket that lost its records. Callers
	// can choose their bucket, so they must not be able to open the circuit.
	open, changed := d.breaker.report(call.Subject, !report.Unavailable || errors.Is(err, enforce.ErrStale))
	report.OpenCircuits, report.Recovered = open, changed && !report.Unavailable
	return result, report
}
