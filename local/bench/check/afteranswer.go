//go:build unix

package check

import (
	"context"
	"time"

	"tidegate/local/bench/figures"
	"tidegate/local/bench/runtimeapi"
)

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
		figures.Of("check.after_answer_quiet_p50_us", figures.Micros(figures.Quantile(quiet, 0.5)), "µs"),
		figures.Of("check.after_answer_busy_p50_us", figures.Micros(figures.Quantile(busy, 0.5)), "µs"),
	}, nil
}

// held returns how long a new function worked on after each of its answers except the
// last.
func (b *bench) held(ctx context.Context, calls int) ([]time.Duration, error) {
	function, err := runtimeapi.Start(ctx, b.ours())
	if err != nil {
		return nil, err
	}
	defer function.Close()
	for i := range calls + 1 {
		if _, err := allowed(function, b.events[i%callers]); err != nil {
			return nil, err
		}
	}
	return function.Held()[:calls], nil
}
