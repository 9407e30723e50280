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
	answer, end := withinAnswer(ctx, time.Hour)
	defer end()
	if err := answer.Err(); err != nil {
		t.Errorf("after the wait: got error %v, want time for answers", err)
	}
	<-answer.Done()
	if ctx.Err() != nil {
		t.Errorf("after the time for answers: got error %v, want time for connecting", ctx.Err())
	}
}

// A call waits for connections at most its timeout for connecting, also with a derived
// context.
func TestConnectTimeoutEndsWaits(t *testing.T) {
	ctx, cancel := WithTimeouts(t.Context(), time.Hour, 100*time.Millisecond)
	defer cancel()
	derived, end := context.WithTimeout(ctx, 30*time.Minute)
	defer end()
	for range 2 { // the second wait has no time left
		if err := AwaitConnection(derived, make(chan struct{})); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait: got error %v, want the deadline", err)
		}
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

// AtLeast returns a context that leaves the time, also when the call's time for answers
// is over. It keeps a context that leaves enough.
func TestAtLeast(t *testing.T) {
	for answer, outlives := range map[time.Duration]bool{0: true, time.Hour: false} {
		ctx, cancel := WithTimeouts(t.Context(), answer, time.Hour)
		longer, end := AtLeast(ctx, time.Minute)
		cancel()
		left, ok := answersEnd(longer)
		if outlives != (longer.Err() == nil) || !ok || time.Until(left) < 30*time.Second {
			t.Errorf("answers may take %s: got a context that ends at %s, error %v; want one that outlives "+
				"the call: %t", answer, left, longer.Err(), outlives)
		}
		end()
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
