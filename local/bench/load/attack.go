//go:build unix

package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// attack makes the calls of a schedule, each by the next free worker. While all workers
// are busy, due calls wait. Latency counts from when a call was due, so that a stall of
// the server shows in every call that it delays.
type attack struct {
	clock    clock
	schedule schedule
	duration time.Duration // calls that are due later are not made
	drain    time.Duration // after duration; calls that still wait then are never sent
	workers  int
	call     func(ctx context.Context, n int64) outcome
	done     func(outcome)

	begin time.Duration
	next  atomic.Int64
}

// run returns how many calls that were due were never sent. When ctx ends no further call
// becomes due, and those under way end by themselves.
func (a *attack) run(ctx context.Context) (unsent int64) {
	a.begin = a.clock.Now()
	var group sync.WaitGroup
	var left atomic.Int64
	for range a.workers {
		group.Go(func() {
			for a.one(ctx, &left) {
			}
		})
	}
	group.Wait()
	return left.Load()
}

// one makes the next call; it returns false when there is none.
func (a *attack) one(ctx context.Context, unsent *atomic.Int64) bool {
	n := a.next.Add(1) - 1
	due := a.schedule(n)
	if due >= a.duration || !a.clock.Wait(ctx, a.begin+due) {
		return false
	}
	sent := a.clock.Now()
	if sent > a.begin+a.duration+a.drain {
		unsent.Add(1)
		return true
	}
	o := a.call(context.WithoutCancel(ctx), n)
	o.intended, o.sent, o.received = a.begin+due, sent, a.clock.Now()
	a.done(o)
	return true
}
