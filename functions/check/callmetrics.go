package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"tidegate/internal/answer"
	"tidegate/internal/crossing"
	"tidegate/internal/decide"
	"tidegate/internal/enforce"
	"tidegate/internal/telemetry"
)

// metricsInterval is the minimum time between two lines of metrics. CloudWatch aggregates
// by the minute.
const metricsInterval = 10 * time.Second

// callMetrics writes metrics of calls, and logs denials and crossed thresholds. Without a
// stage it writes no metrics.
type callMetrics struct {
	log       *slog.Logger
	metrics   *telemetry.Metrics // or nil
	denials   *telemetry.Denials
	crossings *crossing.Log
}

func newCallMetrics(
	out io.Writer, stage string, log *slog.Logger, now func() time.Time,
) (*callMetrics, error) {
	m := &callMetrics{log: log, denials: telemetry.NewDenials(log, 0, now),
		crossings: crossing.NewLog(log)}
	if stage == "" {
		return m, nil
	}
	var err error
	m.metrics, err = telemetry.NewMetrics(out,
		telemetry.Options{Service: telemetry.CheckService, Stage: stage, Interval: metricsInterval}, now)
	if err != nil {
		return nil, fmt.Errorf("STAGE: %w", err)
	}
	return m, nil
}

// RecordCheck records the result of a check.
func (m *callMetrics) RecordCheck(ctx context.Context, result enforce.Result, asked decide.Asked) {
	binding, _ := result.Binding()
	if !result.Allowed {
		m.denials.Log(ctx, denialOf(result, binding))
	}
	if m.metrics == nil {
		return
	}
	m.metrics.Record(telemetry.Check{
		Denied: !result.Allowed, ShadowDenied: result.Allowed && !result.WouldAllow,
		CandidateDenied: !result.CandidateAllows, Degraded: result.Degraded,
		StoreError: asked.Away, Store: asked.Took, Remaining: binding.Remaining,
		Limit: binding.Limit.Requests,
	})
	m.tick(ctx)
}

// RecordRefusal records a call without a good credential. byError reports whether the
// function answered it with an error.
func (m *callMetrics) RecordRefusal(ctx context.Context, byError bool) {
	if m.metrics == nil {
		return
	}
	m.metrics.RecordRefused(byError)
	m.tick(ctx)
}

// Flush writes the counts that no line has yet, before the environment ends.
func (m *callMetrics) Flush() {
	m.denials.Flush(context.Background())
	if m.metrics != nil {
		m.lost(context.Background(), m.metrics.Flush())
	}
}

func (m *callMetrics) tick(ctx context.Context) { m.lost(ctx, m.metrics.Tick()) }

func (m *callMetrics) lost(ctx context.Context, err error) {
	if err != nil {
		m.log.WarnContext(ctx, "metrics lost", "cause", err)
	}
}

func denialOf(result enforce.Result, binding enforce.LimitState) telemetry.Denial {
	d := telemetry.Denial{KeyID: result.ID, Rule: result.Rule, RetryAfter: result.RetryAfter()}
	if binding.Limit.Requests > 0 && result.BannedUntil.IsZero() {
		d.Limit = answer.NameOf(binding)
	}
	return d
}
