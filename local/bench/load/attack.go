//go:build unix

package main

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// attack makes the calls of a schedule, each by the next free worker. While all workers
// are busy, due calls wait. Latency counts from the time at which a call was due, so that
// a stall of the server shows in every call that it delays.
type attack struct {
	clock    clock
	schedule schedule
	duration time.Duration // calls that are due later are not made
	drain    time.Duration // how long after duration a due call may still be sent
	workers  int
	call     func(ctx context.Context, n int64) outcome
	done     func(outcome)

	begin time.Duration
	next  atomic.Int64
}

// run makes the calls and returns the number of due calls that were never sent. When ctx
// ends, no further call becomes due, and calls in flight are completed.
func (a *attack) run(ctx context.Context) (unsent int64) {
	a.begin = a.clock.now()
	var group sync.WaitGroup
	var never atomic.Int64
	for range a.workers {
		group.Go(func() {
			for a.callNext(ctx, &never) {
			}
		})
	}
	group.Wait()
	return never.Load()
}

// callNext makes the next call, or counts it in unsent if it is too late. It returns
// false if no further call is due.
func (a *attack) callNext(ctx context.Context, unsent *atomic.Int64) bool {
	n := a.next.Add(1) - 1
	due := a.schedule(n)
	if due >= a.duration || !a.clock.wait(ctx, a.begin+due) {
		return false
	}
	sent := a.clock.now()
	if sent > a.begin+a.duration+a.drain {
		unsent.Add(1)
		return true
	}
	o := a.call(context.WithoutCancel(ctx), n)
	o.intended, o.sent, o.received = a.begin+due, sent, a.clock.now()
	a.done(o)
	return true
}

// schedule returns the time since the start of the load at which call n is due. It is
// never before that of call n-1. It does not depend on the answers: the load is
// open-loop.
type schedule func(n int64) time.Duration

// constant returns an even schedule of rate calls a second.
func constant(rate float64) schedule {
	return func(n int64) time.Duration {
		return time.Duration(math.Round(float64(n) / rate * float64(time.Second)))
	}
}

// around returns a schedule of rate calls a second within reach before and after every
// boundary of a window, and no calls between. first is the time of the first boundary, at
// least reach.
func around(rate float64, window, reach, first time.Duration) schedule {
	busy := constant(rate)
	return func(n int64) time.Duration {
		at := busy(n)
		boundary := int64(at / (2 * reach))
		return first - reach + window*time.Duration(boundary) + at%(2*reach)
	}
}

// firstBoundary returns the time from now to the next boundary of a window that is
// aligned to the epoch. It is at least reach.
func firstBoundary(now time.Time, window, reach time.Duration) time.Duration {
	next := now.Add(reach).Truncate(window)
	for next.Before(now.Add(reach)) {
		next = next.Add(window)
	}
	return next.Sub(now)
}

// clock is the monotonic clock of the load. Its times count from an epoch.
type clock struct{ epoch time.Time }

func (c clock) now() time.Duration { return time.Since(c.epoch) }

// wait waits until an instant, which may be past. It returns false if ctx ends first.
func (c clock) wait(ctx context.Context, until time.Duration) bool {
	left := until - c.now()
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
