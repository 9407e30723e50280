package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"tidegate/internal/testing/waiting"
)

// Waiting for a connection does not count against the timeout for answers.
func TestWaitDoesNotCountAsAnswerTime(t *testing.T) {
	t.Parallel()
	ctx, cancel := WithTimeouts(t.Context(), 300*time.Millisecond, waiting.Timeout)
	defer cancel()
	connected := make(chan struct{})
	time.AfterFunc(time.Second, func() { close(connected) })
	if err := AwaitConnection(ctx, connected); err != nil {
		t.Fatalf("wait: got error %v", err)
	}
	if _, ok := ctx.Deadline(); !ok {
		t.Error("got no deadline")
	}
	<-ctx.Done()
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Errorf("context ended with %v, want the deadline", ctx.Err())
	}
}

// The context ends after its timeout for connecting, also if the wait uses a derived
// context.
func TestConnectTimeoutEndsContext(t *testing.T) {
	ctx, cancel := WithTimeouts(t.Context(), time.Hour, 100*time.Millisecond)
	defer cancel()
	derived, end := context.WithTimeout(ctx, 30*time.Minute)
	defer end()
	for range 2 { // the second wait has no time left
		if err := AwaitConnection(derived, make(chan struct{})); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait: got error %v, want the deadline", err)
		}
	}
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Errorf("context ended with %v, want the deadline", ctx.Err())
	}
}

// AwaitConnection returns at once for a ready connection. The end of the parent and
// cancel end the context.
func TestContextEndsWithParent(t *testing.T) {
	parent, end := context.WithCancel(t.Context())
	ctx, cancel := WithTimeouts(parent, time.Hour, time.Hour)
	defer cancel()
	connected := make(chan struct{})
	close(connected)
	if err := AwaitConnection(ctx, connected); err != nil {
		t.Errorf("ready connection: got error %v", err)
	}
	end()
	if err := AwaitConnection(ctx, make(chan struct{})); !errors.Is(err, context.Canceled) {
		t.Errorf("after the parent ended: got error %v, want %v", err, context.Canceled)
	}
	other, cancelOther := WithTimeouts(t.Context(), time.Hour, time.Hour)
	cancelOther()
	if err := other.Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("after cancel: got error %v, want %v", err, context.Canceled)
	}
}

// The time of two concurrent waits of a call counts once against its timeout for
// connecting.
func TestConcurrentWaitsCountOnce(t *testing.T) {
	ctx, cancel := WithTimeouts(t.Context(), time.Hour, waiting.Timeout)
	defer cancel()
	call, ok := ctx.(*callTime)
	if !ok {
		t.Fatalf("got a context of type %T, want *callTime", ctx)
	}
	call.pause()
	call.pause()
	before, _ := ctx.Deadline()
	time.AfterFunc(20*time.Millisecond, call.resume)
	call.resume()
	waiting.Until(t, "nothing waits", func() bool {
		call.mu.Lock()
		defer call.mu.Unlock()
		return call.waits == 0
	})
	after, _ := ctx.Deadline()
	if used := waiting.Timeout - call.connect; !after.After(before) || used < 20*time.Millisecond ||
		used > waiting.Timeout/2 {
		t.Errorf("deadline was %s, then %s; %s used for connecting, want a later deadline and about 20ms",
			before, after, used)
	}
}

// For times without a monotonic reading, both bounds are from the wall clock.
func TestElapsedWithoutMonotonicReading(t *testing.T) {
	from := time.Unix(1000, 0)
	for _, c := range []struct{ to, want time.Duration }{{0, 0}, {time.Second, time.Second},
		{-time.Hour, 0}} {
		if least, most := Elapsed(from, from.Add(c.to)); least != c.want || most != c.want {
			t.Errorf("%s later: got %s to %s, want %s", c.to, least, most, c.want)
		}
	}
}

// If both clocks agree, both bounds are their difference. A negative difference counts
// as 0.
func TestElapsedWithBothClocks(t *testing.T) {
	from := time.Now()
	to := from.Add(time.Minute)
	if least, most := Elapsed(from, to); least != time.Minute || most != time.Minute {
		t.Errorf("got %s to %s, want a minute", least, most)
	}
	if ElapsedAtLeast(from, to) != time.Minute || ElapsedAtMost(from, to) != time.Minute ||
		ElapsedAtMost(to, from) != 0 {
		t.Error("ElapsedAtLeast or ElapsedAtMost differs from Elapsed")
	}
}
