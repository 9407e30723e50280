//go:build unix

package check

import (
	"context"
	"fmt"
	"time"

	"tidegate/local/bench/figures"
	"tidegate/local/bench/runtimeapi"
)

// warmUp is how many calls are not counted.
const warmUp = 200

// trips makes calls one by one: a check, the same event echoed, and a PING, in turns.
func (b *bench) trips(ctx context.Context) ([]figures.Figure, error) {
	ours, err := runtimeapi.Start(ctx, b.ours())
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	bare, err := runtimeapi.Start(ctx, b.bare())
	if err != nil {
		return nil, err
	}
	defer bare.Close()
	var checks, echoes, pings []time.Duration
	for i := range b.calls + warmUp {
		event := b.events[i%callers]
		check, err := allowed(ours, event)
		if err != nil {
			return nil, err
		}
		echo, _, err := bare.Invoke(event)
		if err != nil {
			return nil, err
		}
		began := time.Now()
		if err := b.client.Do(ctx, b.client.B().Ping().Build()).Error(); err != nil {
			return nil, fmt.Errorf("ping: %w", err)
		}
		if ping := time.Since(began); i >= warmUp {
			checks, echoes, pings = append(checks, check), append(echoes, echo), append(pings, ping)
		}
	}
	check, echo, ping := figures.Quantile(checks, 0.5), figures.Quantile(echoes, 0.5),
		figures.Quantile(pings, 0.5)
	return []figures.Figure{
		figures.Of("check.p50_us", figures.Micros(check), "µs"),
		figures.Of("check.p99_us", figures.Micros(figures.Quantile(checks, 0.99)), "µs"),
		figures.Of("check.ping_p50_us", figures.Micros(ping), "µs"),
		figures.Of("check.p50_vs_ping", float64(check)/float64(ping), "ratio"),
		figures.Of("check.echo_p50_us", figures.Micros(echo), "µs"),
		figures.Of("check.p50_over_echo_vs_ping", float64(check-echo)/float64(ping), "ratio"),
	}, nil
}
