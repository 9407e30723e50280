//go:build unix

package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"tidegate/local/gateway"
)

// minuteEvent is the event with which the stack's schedule invokes the admin function.
const minuteEvent = `{"tidegate":"minute"}`

// minute makes the admin function bring Valkey to the newest change of the log.
func minute(ctx context.Context, admin gateway.Invoker) error {
	if _, err := admin.Invoke(ctx, []byte(minuteEvent)); err != nil {
		return fmt.Errorf("catch up with the log of changes: %w", err)
	}
	return nil
}

// everyMinute does so each minute until ctx ends or stop is called, which waits for it.
func everyMinute(ctx context.Context, admin gateway.Invoker, log *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	ticker := time.NewTicker(time.Minute)
	go func() {
		defer close(ended)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if err := minute(ctx, admin); err != nil && ctx.Err() == nil {
				log.Error("the minute", "cause", err)
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}
