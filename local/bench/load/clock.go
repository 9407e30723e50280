//go:build unix

package main

import (
	"context"
	"time"
)

// clock is the clock of the load. Its times count from one epoch and never step.
type clock interface {
	Now() time.Duration
	// Wait waits until an instant. It returns at once if that is past, and false if ctx
	// ends first.
	Wait(ctx context.Context, until time.Duration) bool
}

// wallClock counts from its epoch.
type wallClock struct{ epoch time.Time }

func (c wallClock) Now() time.Duration { return time.Since(c.epoch) }

func (c wallClock) Wait(ctx context.Context, until time.Duration) bool {
	left := until - c.Now()
	if left <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
