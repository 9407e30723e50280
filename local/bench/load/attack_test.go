//go:build unix

package main

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"
)

// fakeClock advances when somebody waits, and by pass.
type fakeClock struct {
	mu  sync.Mutex
	now time.Duration
}

func (c *fakeClock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) Wait(ctx context.Context, until time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = max(c.now, until)
	return ctx.Err() == nil
}

func (c *fakeClock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += d
}

func expectAll(outcome) bool { return true }

// One worker calls 100 times a second. The server answers in 1 ms and stalls once for a
// second. Latency of the calls that were due during the stall includes their wait,
// although each was answered in 1 ms.
func TestStallShowsInAllCallsThatItDelays(t *testing.T) {
	c := &fakeClock{now: time.Hour}
	all := newTally(c.Now(), 10*time.Second, expectAll)
	a := &attack{
		clock: c, schedule: constant(100), duration: 10 * time.Second, drain: time.Second, workers: 1,
		done: all.add,
		call: func(_ context.Context, n int64) outcome {
			c.pass(time.Millisecond)
			if n == 200 {
				c.pass(time.Second)
			}
			return outcome{}
		},
	}
	if unsent := a.run(t.Context()); unsent != 0 || len(all.outcomes) != 1000 {
		t.Fatalf("%d calls, %d never sent; want 1000, 0", len(all.outcomes), unsent)
	}
	if p90, p99 := quantile(all.latency, 90), quantile(all.latency, 99); p90 < 50*time.Millisecond ||
		p99 < 800*time.Millisecond {
		t.Errorf("p90 %s, p99 %s: the stall is hidden", p90, p99)
	}
	if p99 := quantile(all.service, 99); p99 > 2*time.Millisecond {
		t.Errorf("p99 %s of the service alone: the test does not test what it should", p99)
	}
	// The n-th call after the stall was due n/100 s later and is answered n ms later.
	for n, want := range map[int]time.Duration{
		200: 1001 * time.Millisecond, 201: 992 * time.Millisecond, 250: 551 * time.Millisecond,
		500: time.Millisecond,
	} {
		if got := all.outcomes[n].took(); got != want {
			t.Errorf("call %d took %s, want %s", n, got, want)
		}
	}
}

// Calls that were never sent, since the server stalled, are counted.
func TestUnsentCallsAreCounted(t *testing.T) {
	c := &fakeClock{}
	calls := 0
	a := &attack{
		clock: c, schedule: constant(10), duration: 10 * time.Second, drain: 5 * time.Second, workers: 1,
		done: func(outcome) { calls++ },
		call: func(context.Context, int64) outcome {
			c.pass(time.Second)
			return outcome{}
		},
	}
	if unsent := a.run(t.Context()); int64(calls)+unsent != 100 || calls != 16 {
		t.Errorf("%d calls, %d never sent; want 16 in 15 s and what is left of 100", calls, unsent)
	}
}

// When the load is stopped, calls under way end and no other begins.
func TestStop(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	c := &fakeClock{}
	var done []outcome
	a := &attack{
		clock: c, schedule: constant(10), duration: time.Hour, workers: 1, done: func(o outcome) {
			done = append(done, o)
		},
		call: func(ctx context.Context, n int64) outcome {
			if n == 7 {
				stop()
			}
			if ctx.Err() != nil {
				return outcome{kind: broken}
			}
			return outcome{kind: admitted}
		},
	}
	a.run(ctx)
	if len(done) != 8 || done[7].kind != admitted {
		t.Errorf("%d calls, the last %v; want 8, the last answered", len(done), done[len(done)-1].kind)
	}
}

// Workers share a schedule: every call is made once, however many there are.
func TestWorkersShareTheSchedule(t *testing.T) {
	var mu sync.Mutex
	var made []int64
	a := &attack{
		clock: wallClock{time.Now()}, schedule: constant(100_000), duration: 20 * time.Millisecond,
		drain: time.Hour, workers: 50,
		done: func(outcome) {},
		call: func(_ context.Context, n int64) outcome {
			mu.Lock()
			defer mu.Unlock()
			made = append(made, n)
			return outcome{}
		},
	}
	a.run(t.Context())
	slices.Sort(made)
	if len(made) != 2000 || made[0] != 0 || made[1999] != 1999 {
		t.Errorf("%d calls, want 2000", len(made))
	}
}

// The boundary attack calls before and after each boundary, evenly, and at no other time.
func TestAroundBoundaries(t *testing.T) {
	const rate, window, reach, first = 100, 2 * time.Second, 200 * time.Millisecond, 700 * time.Millisecond
	s := around(rate, window, reach, first)
	for n, want := range map[int64]time.Duration{
		0: 500 * time.Millisecond, 20: 700 * time.Millisecond, 39: 890 * time.Millisecond,
		40: 2500 * time.Millisecond, 60: 2700 * time.Millisecond,
		400: 20500 * time.Millisecond,
	} {
		if got := s(n); got != want {
			t.Errorf("call %d at %s, want %s", n, got, want)
		}
	}
	epoch := time.Unix(1_000_000_000, 0) // a boundary of every window that divides 10 s
	for offset, want := range map[time.Duration]time.Duration{
		0: 2 * time.Second, 100 * time.Millisecond: 1900 * time.Millisecond,
		1800 * time.Millisecond: 200 * time.Millisecond,
		1900 * time.Millisecond: 2100 * time.Millisecond,
	} {
		if got := firstBoundary(epoch.Add(offset), window, reach); got != want {
			t.Errorf("at %s the first boundary is %s away, want %s", offset, got, want)
		}
	}
}
