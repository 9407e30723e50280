package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"tidegate/internal/testing/waiting"
)

// Waiting for a connection takes none of the time for answers.
func TestWaitingTakesNoTimeForAnswers(t *testing.T) {
	t.Parallel()
	ctx, cancel := WithTimeouts(t.Context(), 300*time.Millisecond, waiting.Timeout)
	defer cancel()
	connected := make(chan struct{})
	time.AfterFunc(time.Second, func() { close(connected) })
	if err := AwaitConnection(ctx, connected); err != nil {
		t.Fatalf("waited: %v", err)
	}
	if _, ok := ctx.Deadline(); !ok {
		t.Error("no deadline")
	}
	<-ctx.Done()
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Errorf("ended with %v", ctx.Err())
	}
}

// The time for connecting ends the context, also through contexts that come of it.
func TestTimeForConnectingEnds(t *testing.T) {
	ctx, cancel := WithTimeouts(t.Context(), time.Hour, 100*time.Millisecond)
	defer cancel()
	derived, end := context.WithTimeout(ctx, 30*time.Minute)
	defer end()
	for range 2 { // the second wait has no time left
		if err := AwaitConnection(derived, make(chan struct{})); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waited: %v", err)
		}
	}
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Errorf("ended with %v", ctx.Err())
	}
}

// A connection that is there is taken at once; the parent's end and cancel end the
// context.
func TestCallTimeEndsWithItsParent(t *testing.T) {
	parent, end := context.WithCancel(t.Context())
	ctx, cancel := WithTimeouts(parent, time.Hour, time.Hour)
	defer cancel()
	connected := make(chan struct{})
	close(connected)
	if err := AwaitConnection(ctx, connected); err != nil {
		t.Error(err)
	}
	end()
	if err := AwaitConnection(ctx, make(chan struct{})); !errors.Is(err, context.Canceled) {
		t.Errorf("after the parent ended: %v", err)
	}
	other, cancelOther := WithTimeouts(t.Context(), time.Hour, time.Hour)
	cancelOther()
	if err := other.Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("after cancel: %v", err)
	}
}

// Two parts of a call that wait at once use the time for connecting once.
func TestPartsWaitTogether(t *testing.T) {
	ctx, cancel := WithTimeouts(t.Context(), time.Hour, waiting.Timeout)
	defer cancel()
	call, ok := ctx.(*callTime)
	if !ok {
		t.Fatalf("%T", ctx)
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
		t.Errorf("ends %s and then %s; %s used for connecting", before, after, used)
	}
}

// Without a monotonic reading, the times of day decide alone.
func TestBetweenTimesOfDay(t *testing.T) {
	from := time.Unix(1000, 0)
	for _, c := range []struct{ to, want time.Duration }{{0, 0}, {time.Second, time.Second},
		{-time.Hour, 0}} {
		if least, most := Elapsed(from, from.Add(c.to)); least != c.want || most != c.want {
			t.Errorf("%s later: %s to %s, want %s", c.to, least, most, c.want)
		}
	}
}

// Readings of both clocks give bounds that hold whichever of them is off; Round(0) is a
// reading whose monotonic clock does not count.
func TestBetweenReadingsOfBothClocks(t *testing.T) {
	from := time.Now()
	to := from.Add(time.Minute)
	if least, most := Elapsed(from, to); least != time.Minute || most != time.Minute {
		t.Errorf("%s to %s, want a minute", least, most)
	}
	if ElapsedAtLeast(from, to) != time.Minute || ElapsedAtMost(from, to) != time.Minute ||
		ElapsedAtMost(to, from) != 0 {
		t.Error("AtLeast and AtMost differ from Between")
	}
}
