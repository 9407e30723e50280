//go:build unix

package main

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pass waits in a bubble, where time advances at once.
func pass(d time.Duration) { <-time.After(d) }

func expectAll(outcome) bool { return true }

// The latency of calls that were due during a stall includes their wait. One worker calls
// 100 times a second. The server answers in 1 ms, and stalls once for a second.
func TestStallShowsInAllCallsThatItDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTally(0, expectAll)
		a := &attack{
			clock: clock{time.Now()}, schedule: constant(100), duration: 10 * time.Second, drain: time.Second,
			workers: 1, done: all.add,
			call: func(_ context.Context, n int64) outcome {
				pass(time.Millisecond)
				if n == 200 {
					pass(time.Second)
				}
				return outcome{}
			},
		}
		if unsent := a.run(t.Context()); unsent != 0 || len(all.outcomes) != 1000 {
			t.Fatalf("got %d calls, %d never sent; want 1000, 0", len(all.outcomes), unsent)
		}
		if p := quantiles(all.outcomes, outcome.latency, 0.9, 0.99); p[0] < 50*time.Millisecond ||
			p[1] < 800*time.Millisecond {
			t.Errorf("got p90 %s, p99 %s of the latency, want at least 50ms and 800ms", p[0], p[1])
		}
		if p := quantiles(all.outcomes, outcome.service, 0.99); p[0] > 2*time.Millisecond {
			t.Errorf("got p99 %s of the service time, want at most 2ms, or the test proves nothing", p[0])
		}
		// The n-th call after the stall was due n/100 s later and is answered n ms later.
		for n, want := range map[int]time.Duration{
			200: 1001 * time.Millisecond, 201: 992 * time.Millisecond, 250: 551 * time.Millisecond,
			500: time.Millisecond,
		} {
			if got := all.outcomes[n].latency(); got != want {
				t.Errorf("latency of call %d: got %s, want %s", n, got, want)
			}
		}
	})
}

// run counts due calls that were never sent because the server was too slow.
func TestUnsentCallsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		a := &attack{
			clock: clock{time.Now()}, schedule: constant(10), duration: 10 * time.Second,
			drain: 5 * time.Second, workers: 1, done: func(outcome) { calls++ },
			call: func(context.Context, int64) outcome {
				pass(time.Second)
				return outcome{}
			},
		}
		if unsent := a.run(t.Context()); int64(calls)+unsent != 100 || calls != 16 {
			t.Errorf("got %d calls, %d never sent; want 16 in 15 s, and 84 never sent", calls, unsent)
		}
	})
}

// When the load is stopped, calls in flight are completed and no other call begins.
func TestStop(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var done []outcome
	a := &attack{
		clock: clock{time.Now()}, schedule: constant(10_000), duration: time.Hour, workers: 1,
		done: func(o outcome) { done = append(done, o) },
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
		t.Errorf("got %d calls, the last %v; want 8, the last admitted", len(done), done[len(done)-1].kind)
	}
}

// Workers share the schedule: every call is made exactly once.
func TestWorkersShareTheSchedule(t *testing.T) {
	var mu sync.Mutex
	var made []int64
	a := &attack{
		clock: clock{time.Now()}, schedule: constant(100_000), duration: 20 * time.Millisecond,
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
		t.Errorf("got %d calls, want each of 2000 once", len(made))
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
			t.Errorf("call %d: got %s, want %s", n, got, want)
		}
	}
	epoch := time.Unix(1_000_000_000, 0) // a boundary of every window that divides 10 s
	for offset, want := range map[time.Duration]time.Duration{
		0: 2 * time.Second, 100 * time.Millisecond: 1900 * time.Millisecond,
		1800 * time.Millisecond: 200 * time.Millisecond,
		1900 * time.Millisecond: 2100 * time.Millisecond,
	} {
		if got := firstBoundary(epoch.Add(offset), window, reach); got != want {
			t.Errorf("first boundary at %s: got %s, want %s", offset, got, want)
		}
	}
}
