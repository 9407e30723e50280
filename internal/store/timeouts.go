package store

import (
	"context"
	"sync/atomic"
	"time"
)

// callTime is the time of one call.
type callTime struct {
	ends    time.Time     // of the time for answers, without waits for connections
	connect time.Duration // the time for such waits
	waited  atomic.Int64  // nanoseconds of such waits
}

type callTimeKey struct{}

// WithTimeouts returns a context whose answers may take the time answer together. The
// time that the call waits for connections counts against connect instead.
func WithTimeouts(parent context.Context, answer, connect time.Duration) (context.Context,
	context.CancelFunc) {
	ends := time.Now().Add(answer)
	ctx, cancel := context.WithDeadline(parent, ends.Add(connect))
	return context.WithValue(ctx, callTimeKey{}, &callTime{ends: ends, connect: connect}), cancel
}

// timeOf returns the time of the call of ctx; nil without WithTimeouts.
func timeOf(ctx context.Context) *callTime {
	c, _ := ctx.Value(callTimeKey{}).(*callTime)
	return c
}

// answersEnd returns when the time for answers ends.
func answersEnd(ctx context.Context) (time.Time, bool) {
	end, ends := ctx.Deadline()
	if c := timeOf(ctx); c != nil {
		if own := c.ends.Add(time.Duration(c.waited.Load())); own.Before(end) {
			return own, true
		}
	}
	return end, ends
}

// withinAnswer returns a context that ends after timeout or with the call's time for
// answers.
func withinAnswer(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	end := time.Now().Add(timeout)
	if answers, ok := answersEnd(ctx); ok && answers.Before(end) {
		end = answers
	}
	return context.WithDeadline(ctx, end)
}

// AtLeast returns ctx, or a context that outlives it if ctx leaves less than the time d
// for answers.
func AtLeast(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if end, ends := answersEnd(ctx); ctx.Err() == nil && (!ends || time.Until(end) >= d) {
		return ctx, func() {}
	}
	ctx = context.WithValue(context.WithoutCancel(ctx), callTimeKey{}, (*callTime)(nil))
	return context.WithTimeout(ctx, d)
}

// AwaitConnection waits until connected is closed or ctx ends. With a context of
// WithTimeouts the wait counts as connecting.
func AwaitConnection(ctx context.Context, connected <-chan struct{}) error {
	if c := timeOf(ctx); c != nil {
		start := time.Now()
		defer func() { c.waited.Add(int64(time.Since(start))) }()
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.connect-time.Duration(c.waited.Load()))
		defer cancel()
	}
	return await(ctx, connected)
}

func await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	default:
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Elapsed returns bounds of the time between two results of time.Now. The monotonic clock
// stands still while a function is frozen, and the wall clock may have been set. Both
// bounds are at least 0.
func Elapsed(from, to time.Time) (least, most time.Duration) {
	monotonic, wall := to.Sub(from), to.Round(0).Sub(from.Round(0))
	return max(0, min(monotonic, wall)), max(0, monotonic, wall)
}

// ElapsedAtLeast returns the smaller bound of Elapsed.
func ElapsedAtLeast(from, to time.Time) time.Duration { least, _ := Elapsed(from, to); return least }

// ElapsedAtMost returns the larger bound of Elapsed.
func ElapsedAtMost(from, to time.Time) time.Duration { _, most := Elapsed(from, to); return most }
