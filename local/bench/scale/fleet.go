//go:build unix

package scale

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/enforce"
	"tidegate/internal/usage"
)

// environment checks as an environment of the check function does: on its own
// connections, one call at a time.
type environment struct {
	client  valkey.Client
	checker *enforce.Checker
	usage   *usage.Recorder // nil to record nothing
}

func newEnvironment(ctx context.Context, url string, records bool) (*environment, error) {
	client, err := open(ctx, url, true)
	if err != nil {
		return nil, err
	}
	e := &environment{client: client, checker: enforce.NewChecker(client, apikey.Pepper(pepper))}
	if records {
		e.usage = usage.NewRecorder(usage.Options{}, time.Now)
	}
	return e, nil
}

func (e *environment) check(ctx context.Context, call enforce.Call) (allowed bool, err error) {
	with := e.piggyback()
	result, err := e.checker.Check(ctx, call, with)
	with.Flush(ctx)
	if err == nil && e.usage != nil {
		verdict := usage.Allowed
		if !result.Allowed {
			verdict = usage.Denied
		}
		e.usage.Record(usage.Outcome{Subject: call.Subject, Registered: true, Verdict: verdict, Cost: 1,
			Time: time.Now()})
	}
	return result.Allowed, err
}

// piggyback returns the usage records that are due, or nil.
func (e *environment) piggyback() *enforce.Piggyback {
	if e.usage == nil {
		return nil
	}
	batch := e.usage.Batch(time.Now())
	if batch == nil {
		return nil
	}
	return enforce.NewPiggyback(e.client, batch.Commands(e.client), func(results []valkey.ValkeyResult) {
		batch.Acknowledge(results)
	})
}

func (e *environment) close(ctx context.Context) {
	if e.usage != nil {
		e.usage.Flush(ctx, e.client)
	}
	e.client.Close()
}

// fleet is environments that check at once.
type fleet []*environment

func newFleet(ctx context.Context, url string, n int, records bool) (fleet, error) {
	var f fleet
	for range n {
		e, err := newEnvironment(ctx, url, records)
		if err != nil {
			f.close(ctx)
			return nil, err
		}
		f = append(f, e)
	}
	return f, nil
}

func (f fleet) close(ctx context.Context) {
	for _, e := range f {
		e.close(ctx)
	}
}

// fleetResult is what came of one run of a fleet.
type fleetResult struct {
	calls, allowed int64
	took           time.Duration
	waited         []time.Duration // for each check
}

func (r fleetResult) rate() float64 { return float64(r.calls) / r.took.Seconds() }

// each checks every call once.
func (f fleet) each(ctx context.Context, calls []enforce.Call) (fleetResult, error) {
	return f.run(ctx, calls, func(n int64) bool { return n < int64(len(calls)) })
}

// during checks the calls in turn, as fast as they are answered, until lasts has passed.
func (f fleet) during(ctx context.Context, calls []enforce.Call, lasts time.Duration) (fleetResult, error) {
	end := time.Now().Add(lasts)
	return f.run(ctx, calls, func(int64) bool { return time.Now().Before(end) })
}

func (f fleet) run(ctx context.Context, calls []enforce.Call,
	goesOn func(n int64) bool) (fleetResult, error) {
	var next, made, allowed atomic.Int64
	errs, waited := make([]error, len(f)), make([][]time.Duration, len(f))
	began := time.Now()
	var group sync.WaitGroup
	for i, e := range f {
		group.Go(func() {
			for n := next.Add(1) - 1; goesOn(n) && errs[i] == nil; n = next.Add(1) - 1 {
				sent := time.Now()
				passed, err := e.check(ctx, calls[n%int64(len(calls))])
				waited[i] = append(waited[i], time.Since(sent))
				made.Add(1)
				if errs[i] = err; passed {
					allowed.Add(1)
				}
			}
		})
	}
	group.Wait()
	took := time.Since(began)
	return fleetResult{made.Load(), allowed.Load(), took, slices.Concat(waited...)}, errors.Join(errs...)
}
