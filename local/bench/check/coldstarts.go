//go:build unix

package check

import (
	"context"
	"fmt"
	"time"

	"tidegate/local/bench/figures"
	"tidegate/local/bench/runtimeapi"
)

// coldStarts starts both functions in turns.
func (b *bench) coldStarts(ctx context.Context) ([]figures.Figure, error) {
	var checks, echoes []time.Duration
	for i := range b.starts {
		event := b.events[i%callers]
		check, answer, err := runtimeapi.ColdStart(ctx, b.ours(), event)
		if err := mustAllow(answer, err); err != nil {
			return nil, fmt.Errorf("cold start of check: %w", err)
		}
		echo, _, err := runtimeapi.ColdStart(ctx, b.bare(), event)
		if err != nil {
			return nil, fmt.Errorf("cold start of echo: %w", err)
		}
		checks, echoes = append(checks, check), append(echoes, echo)
	}
	check, echo := figures.Quantile(checks, 0.5), figures.Quantile(echoes, 0.5)
	return []figures.Figure{
		figures.Of("check.coldstart_ms", figures.Millis(check), "ms"),
		figures.Of("check.coldstart_echo_ms", figures.Millis(echo), "ms"),
		figures.Of("check.coldstart_over_echo_ms", figures.Millis(check-echo), "ms"),
	}, nil
}
