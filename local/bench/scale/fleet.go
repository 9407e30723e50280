//go:build unix

package scale

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/store"
	"tidegate/internal/usage"
	"tidegate/local/bench/harness"
)

// fleet is a number of environments that check at the same time.
type fleet []*environment

// newFleet connects n environments. They record usage if records is true.
func newFleet(ctx context.Context, url string, n int, records bool) (fleet, error) {
	var f fleet
	for range n {
		client, err := store.Open(ctx, url, storeOptions(true))
		if err != nil {
			f.close(ctx)
			return nil, err
		}
		e := &environment{client: client, checker: enforce.NewChecker(client, apikey.Pepper(harness.Pepper))}
		if records {
			e.usage = usage.NewRecorder(usage.Options{}, time.Now)
		}
		f = append(f, e)
	}
	return f, nil
}

func (f fleet) close(ctx context.Context) {
	f.flush(ctx)
	for _, e := range f {
		e.client.Close()
	}
}

// flush sends all usage records.
func (f fleet) flush(ctx context.Context) {
	for _, e := range f {
		if e.usage != nil {
			e.usage.Flush(ctx, e.client)
		}
	}
}

// fleetResult is the result of one run of a fleet.
type fleetResult struct {
	calls, allowed int64
	took           time.Duration
}

// checkTimes makes n checks. The calls take turns.
func (f fleet) checkTimes(ctx context.Context, calls []enforce.Call, n int) (fleetResult, error) {
	return f.run(ctx, calls, harness.Times(n))
}

// checkFor makes checks as fast as they are answered, for a time. The calls take turns.
func (f fleet) checkFor(ctx context.Context, calls []enforce.Call, d time.Duration) (fleetResult, error) {
	return f.run(ctx, calls, harness.For(d))
}

func (f fleet) run(ctx context.Context, turns []enforce.Call, more func(int) bool) (fleetResult, error) {
	var made, allowed atomic.Int64
	began := time.Now()
	err := harness.Concurrently(len(f), more, func(worker, i int) error {
		passed, err := f[worker].check(ctx, turns[i%len(turns)])
		made.Add(1)
		if passed {
			allowed.Add(1)
		}
		return err
	})
	return fleetResult{calls: made.Load(), allowed: allowed.Load(), took: time.Since(began)}, err
}

// environment checks like an environment of the check function: on its own connections,
// one call at a time.
type environment struct {
	client  valkey.Client
	checker *enforce.Checker
	usage   *usage.Recorder // nil to record nothing
}

// check reports whether a call is allowed. That of an unknown key is denied.
func (e *environment) check(ctx context.Context, call enforce.Call) (allowed bool, err error) {
	with := e.piggyback()
	result, err := e.checker.Check(ctx, call, with)
	with.Flush(ctx)
	if errors.Is(err, policy.ErrUnknownKey) {
		return false, nil
	}
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

// piggyback returns the usage records that are due, to be sent in the flush of a check;
// nil if none are due.
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
