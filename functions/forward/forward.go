package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"tidegate/internal/telemetry"
)

// event is a crossed limit on its way.
type event struct {
	id     string // of the line in CloudWatch Logs: the same when it is sent again
	at     time.Time
	detail []byte // JSON: the line, and id
}

const (
	// attempts of one batch. When the last fails, Lambda invokes the function anew, with
	// all events, and at last puts them into the queue of failures.
	attempts = 3
	pause    = 200 * time.Millisecond
)

// forwarder hands events to a target.
type forwarder struct {
	target target
	log    *slog.Logger
	pause  time.Duration
}

// Forward handles what a subscription filter of CloudWatch Logs delivers. It fails when
// the target did not take every event.
func (f *forwarder) Forward(ctx context.Context, delivered events.CloudwatchLogsEvent) error {
	data, err := delivered.AWSLogs.Parse()
	if err != nil {
		return fmt.Errorf("read what CloudWatch Logs delivered: %w", err)
	}
	for batch := range slices.Chunk(f.eventsOf(data), maxBatch) {
		if err := f.send(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// eventsOf reads the lines of crossed limits. Other lines are none of its business: the
// filter leaves them out.
func (f *forwarder) eventsOf(data events.CloudwatchLogsData) []event {
	var all []event
	for _, line := range data.LogEvents {
		detail := map[string]any{}
		if err := json.Unmarshal([]byte(line.Message), &detail); err != nil ||
			detail["event"] != telemetry.LimitCrossed {
			f.log.Warn("not a crossed limit", "line", line.ID)
			continue
		}
		detail["id"] = line.ID
		text, err := json.Marshal(detail)
		if err != nil {
			f.log.Warn("not a crossed limit", "line", line.ID)
			continue
		}
		all = append(all, event{id: line.ID, at: time.UnixMilli(line.Timestamp).UTC(), detail: text})
	}
	return all
}

// send sends a batch, and again what of it was not taken.
func (f *forwarder) send(ctx context.Context, batch []event) error {
	for attempt := 1; ; attempt++ {
		failed, err := f.target.send(ctx, batch)
		if len(failed) == 0 {
			return nil
		}
		if attempt == attempts {
			return fmt.Errorf("%d events were not taken: %w", len(failed), err)
		}
		batch = failed
		select {
		case <-time.After(f.pause << attempt):
		case <-ctx.Done():
			return fmt.Errorf("%d events were not taken: %w", len(failed), ctx.Err())
		}
	}
}
