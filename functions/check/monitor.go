package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"tidegate/internal/answer"
	"tidegate/internal/enforce"
	"tidegate/internal/telemetry"
)

// metricsInterval keeps lines of metrics few: one may hold all that ten seconds of calls
// did, and CloudWatch's minutes lose nothing by it.
const metricsInterval = 10 * time.Second

// monitor writes metrics of calls and lines of denials. Without a stage there are no metrics.
type monitor struct {
	log     *slog.Logger
	metrics *telemetry.Metrics // or nil
	denials *telemetry.Denials
}

func newMonitor(out io.Writer, stage string, log *slog.Logger, now func() time.Time) (*monitor, error) {
	m := &monitor{log: log, denials: telemetry.NewDenials(log, 0, now)}
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

// Checked records a call that was decided.
func (m *monitor) Checked(ctx context.Context, checked enforce.Result, asked enforce.Asked) {
	binding, _ := checked.Binding()
	if !checked.Allowed {
		m.denials.Log(ctx, denialOf(checked, binding))
	}
	if m.metrics == nil {
		return
	}
	m.metrics.Record(telemetry.Check{
		Denied: !checked.Allowed, ShadowDenied: checked.Allowed && !checked.WouldAllow,
		CandidateDenied: !checked.CandidateAllows, Degraded: checked.Degraded,
		StoreError: asked.Away, Store: asked.Took, Remaining: binding.Remaining,
		Limit: binding.Limit.Requests,
	})
	m.tick(ctx)
}

// Refused records a call without a good credential, and whether an error was the answer.
func (m *monitor) Refused(ctx context.Context, byError bool) {
	if m.metrics == nil {
		return
	}
	m.metrics.RecordRefused(byError)
	m.tick(ctx)
}

// Flush writes what is in no line yet. The function's environment is about to end.
func (m *monitor) Flush() {
	m.denials.Flush(context.Background())
	if m.metrics != nil {
		m.lost(context.Background(), m.metrics.Flush())
	}
}

func (m *monitor) tick(ctx context.Context) { m.lost(ctx, m.metrics.Tick()) }

func (m *monitor) lost(ctx context.Context, err error) {
	if err != nil {
		m.log.WarnContext(ctx, "metrics lost", "cause", err)
	}
}

func denialOf(checked enforce.Result, binding enforce.LimitState) telemetry.Denial {
	d := telemetry.Denial{KeyID: checked.ID, Rule: checked.Rule, RetryAfter: checked.RetryAfter()}
	if binding.Limit.Requests > 0 && checked.BannedUntil.IsZero() {
		d.Limit = answer.NameOf(binding)
	}
	return d
}
