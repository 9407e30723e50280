//go:build unix

package check

import (
	"context"
	"fmt"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/local/bench/figures"
	"tidegate/local/bench/runtimeapi"
)

// warmUp is how many calls are not counted.
const warmUp = 200

// roundTrips makes calls one by one: a check, the same event echoed, and a PING, in turns.
func (b *bench) roundTrips(ctx context.Context) ([]figures.Figure, error) {
	functions, err := runtimeapi.StartAll(ctx, b.checkFunction(), b.echoFunction())
	if err != nil {
		return nil, err
	}
	defer functions.Close()
	var checks, echoes, pings []time.Duration
	for i := range b.calls + warmUp {
		event := b.events[i%callers]
		check, _, err := functions[0].Invoke(event)
		if err != nil {
			return nil, err
		}
		echo, _, err := functions[1].Invoke(event)
		if err != nil {
			return nil, err
		}
		began := time.Now()
		if err := b.Client.Do(ctx, b.Client.B().Ping().Build()).Error(); err != nil {
			return nil, fmt.Errorf("ping: %w", err)
		}
		if ping := time.Since(began); i >= warmUp {
			checks, echoes, pings = append(checks, check), append(echoes, echo), append(pings, ping)
		}
	}
	check, echo, ping := figures.Median(checks), figures.Median(echoes), figures.Median(pings)
	return []figures.Figure{
		figures.InMicros("check.p50_us", check),
		figures.InMicros("check.p99_us", figures.Quantile(checks, 0.99)),
		figures.InMicros("check.ping_p50_us", ping),
		figures.Ratio("check.p50_vs_ping", check, ping),
		figures.InMicros("check.echo_p50_us", echo),
		figures.Ratio("check.p50_over_echo_vs_ping", check-echo, ping),
	}, nil
}

// A function sends the records of its first calls after each answer, then once a second.
const (
	quietCalls = 12
	busyFrom   = 50
	busyCalls  = 500
	quietTurns = 20
)

// afterAnswers measures how long the function works on after its answer. Lambda bills
// that time, and no client waits for it. Quiet functions send their records then, busy
// ones do not.
func (b *bench) afterAnswers(ctx context.Context) ([]figures.Figure, error) {
	var quiet, busy []time.Duration
	for range quietTurns {
		held, err := b.held(ctx, busyFrom+busyCalls)
		if err != nil {
			return nil, err
		}
		quiet, busy = append(quiet, held[:quietCalls]...), append(busy, held[busyFrom:]...)
	}
	return []figures.Figure{
		figures.InMicros("check.after_answer_quiet_p50_us", figures.Median(quiet)),
		figures.InMicros("check.after_answer_busy_p50_us", figures.Median(busy)),
	}, nil
}

// held returns how long a new function worked on after each answer to a number of calls.
func (b *bench) held(ctx context.Context, calls int) ([]time.Duration, error) {
	function, err := runtimeapi.Start(ctx, b.checkFunction())
	if err != nil {
		return nil, err
	}
	defer function.Close()
	for i := range calls + 1 { // it has worked on once it asks for the next event
		if _, _, err := function.Invoke(b.events[i%callers]); err != nil {
			return nil, err
		}
	}
	return function.Held()[:calls], nil
}

// coldStarts starts the check function and the one that does nothing, in turns.
func (b *bench) coldStarts(ctx context.Context) ([]figures.Figure, error) {
	times, err := runtimeapi.ColdStarts(ctx, b.starts, b.events, b.checkFunction(), b.echoFunction())
	if err != nil {
		return nil, err
	}
	check, echo := figures.Median(times[0]), figures.Median(times[1])
	return []figures.Figure{
		figures.InMillis("check.coldstart_ms", check),
		figures.InMillis("check.coldstart_echo_ms", echo),
		figures.InMillis("check.coldstart_over_echo_ms", check-echo),
	}, nil
}

// globalLimit measures checks under a limit of all calls. The first call of a key under a
// version of the policies takes two round trips. The second call takes one, since the
// function has just allowed the caller.
func (b *bench) globalLimit(ctx context.Context) ([]figures.Figure, error) {
	function, err := runtimeapi.Start(ctx, b.checkFunction())
	if err != nil {
		return nil, err
	}
	defer function.Close()
	var first, known []time.Duration
	for len(known) < b.calls {
		if err := b.forget(ctx); err != nil {
			return nil, err
		}
		if _, _, err := function.Invoke(b.events[0]); err != nil { // it reads the policies
			return nil, err
		}
		for _, event := range b.events[1:] {
			for _, times := range []*[]time.Duration{&first, &known} {
				took, _, err := function.Invoke(event)
				if err != nil {
					return nil, err
				}
				*times = append(*times, took)
			}
		}
	}
	one, two := figures.Median(known), figures.Median(first)
	return []figures.Figure{
		figures.InMicros("check.global_known_p50_us", one),
		figures.InMicros("check.global_first_p50_us", two),
		figures.Ratio("check.global_first_vs_known", two, one),
	}, nil
}

// forget saves a new version of the policies, with limits that are never reached. The
// function then knows no caller as one that it allowed lately.
func (b *bench) forget(ctx context.Context) error {
	return b.Edit(ctx, func(set *policy.Set) {
		set.Plans[0].Limits = []limiter.Limit{{Requests: 1_000_000, Window: time.Hour}}
		set.Global = policy.Scope{Limits: []limiter.Limit{{Requests: 100_000_000, Window: 10 * time.Second}}}
	})
}
