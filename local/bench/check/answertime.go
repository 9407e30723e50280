//go:build unix

package check

import (
	"context"
	"fmt"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/local/bench/figures"
	"tidegate/local/bench/harness"
)

// warmUp is the number of first calls, which are not counted.
const warmUp = 200

// roundTrips measures calls one by one, in turns: a check, the same event at the echo
// function, and a PING.
func (b *bench) roundTrips(ctx context.Context) ([]figures.Figure, error) {
	functions, err := harness.OpenAll(b.checkFunction(), b.echoFunction())
	if err != nil {
		return nil, err
	}
	defer functions.Close()
	var checks, echoes, pings []time.Duration
	for i := range b.calls + warmUp {
		event := b.events[i%callers]
		check, _, err := functions[0].Invoke(ctx, event)
		if err != nil {
			return nil, err
		}
		echo, _, err := functions[1].Invoke(ctx, event)
		if err != nil {
			return nil, err
		}
		began := time.Now()
		if err := b.Client.Do(ctx, b.Client.B().Ping().Build()).Error(); err != nil {
			return nil, fmt.Errorf("ping: %w", err)
		}
		if ping := time.Since(began); i >= warmUp {
			checks = append(checks, harness.Took(check))
			echoes = append(echoes, harness.Took(echo))
			pings = append(pings, ping)
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

// A function sends its records after each answer to one of its first calls, then once a
// second. So its first quietCalls calls are quiet, and those from busyFrom on are busy.
const (
	quietCalls = 12
	busyFrom   = 50
	busyCalls  = 500
	quietTurns = 20
)

// afterAnswers measures how long the function continues to work after its answer. Lambda
// bills that time, but no client waits for it. A quiet function sends its records then, a
// busy function does not.
func (b *bench) afterAnswers(ctx context.Context) ([]figures.Figure, error) {
	var quiet, busy []time.Duration
	for range quietTurns {
		times, err := b.timesAfterAnswers(ctx, busyFrom+busyCalls)
		if err != nil {
			return nil, err
		}
		quiet, busy = append(quiet, times[:quietCalls]...), append(busy, times[busyFrom:]...)
	}
	return []figures.Figure{
		figures.InMicros("check.after_answer_quiet_p50_us", figures.Median(quiet)),
		figures.InMicros("check.after_answer_busy_p50_us", figures.Median(busy)),
	}, nil
}

// timesAfterAnswers returns how long a new function continued to work after each of its
// first answers.
func (b *bench) timesAfterAnswers(ctx context.Context, calls int) ([]time.Duration, error) {
	function, err := harness.Open(b.checkFunction())
	if err != nil {
		return nil, err
	}
	defer function.Close()
	var times []time.Duration
	for i := range calls {
		r, _, err := function.Invoke(ctx, b.events[i%callers])
		if err != nil {
			return nil, err
		}
		times = append(times, r.Done.Sub(r.Answered))
	}
	return times, nil
}

// coldStarts starts the check function and the echo function in turns.
func (b *bench) coldStarts(ctx context.Context) ([]figures.Figure, error) {
	times, err := harness.ColdStarts(ctx, b.starts, b.events, b.checkFunction(), b.echoFunction())
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

// globalLimit measures checks under a global limit. A key's first call under a version of
// the policies takes two round trips. The second call takes one, since the function has
// just allowed the caller.
func (b *bench) globalLimit(ctx context.Context) ([]figures.Figure, error) {
	function, err := harness.Open(b.checkFunction())
	if err != nil {
		return nil, err
	}
	defer function.Close()
	var first, known []time.Duration
	for len(known) < b.calls {
		if err := b.forget(ctx); err != nil {
			return nil, err
		}
		if _, _, err := function.Invoke(ctx, b.events[0]); err != nil { // reads the policies
			return nil, err
		}
		for _, event := range b.events[1:] {
			for _, times := range []*[]time.Duration{&first, &known} {
				r, _, err := function.Invoke(ctx, event)
				if err != nil {
					return nil, err
				}
				*times = append(*times, harness.Took(r))
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

// forget makes the function forget which callers it allowed lately. It saves a new
// version of the policies, with limits that are never reached.
func (b *bench) forget(ctx context.Context) error {
	return b.Edit(ctx, func(set *policy.Set) {
		set.Plans[0].Limits = []limiter.Limit{{Requests: 1_000_000, Window: time.Hour}}
		set.Global = policy.Scope{Limits: []limiter.Limit{{Requests: 100_000_000, Window: 10 * time.Second}}}
	})
}
