package store

import (
	"context"
	"sync"
	"time"
)

// callTime is the context of a call with one timeout for answers and another for
// connecting. The timeout for answers is paused while the call waits for a connection.
type callTime struct {
	context.Context //nolint:containedctx // the parent
	done            chan struct{}

	mu      sync.Mutex
	err     error
	waits   int           // current number of waits for a connection
	since   time.Time     // when waits last became 1
	answer  time.Duration // time for answers that remained at since
	connect time.Duration // time for connecting that remained at since
	ends    time.Time     // when the time for answers ends, unless the call waits
	timer   *time.Timer
}

type callTimeKey struct{}

// WithTimeouts returns a context that ends after answer. The time that the call waits for
// connections counts against connect instead, so the context lasts at most answer plus
// connect.
func WithTimeouts(parent context.Context, answer, connect time.Duration) (context.Context,
	context.CancelFunc) {
	c := &callTime{
		Context: parent, done: make(chan struct{}), answer: answer, connect: connect,
		ends: time.Now().Add(answer),
	}
	c.mu.Lock()
	c.timer = time.AfterFunc(answer, c.expire)
	c.mu.Unlock()
	stop := context.AfterFunc(parent, func() { c.finish(parent.Err()) })
	return c, func() {
		stop()
		c.finish(context.Canceled)
	}
}

// AwaitConnection waits until connected is closed or ctx ends. With a context of
// WithTimeouts the wait counts as connecting.
func AwaitConnection(ctx context.Context, connected <-chan struct{}) error {
	select {
	case <-connected:
		return nil
	default:
	}
	if c, ok := ctx.Value(callTimeKey{}).(*callTime); ok {
		c.pause()
		defer c.resume()
	}
	return await(ctx, connected)
}

func await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Deadline returns when the context ends if no further wait for a connection starts and
// current ones end now.
func (c *callTime) Deadline() (time.Time, bool) {
	c.mu.Lock()
	ends := c.ends
	if c.waits > 0 {
		ends = time.Now().Add(c.answer)
	}
	c.mu.Unlock()
	if parent, ok := c.Context.Deadline(); ok && parent.Before(ends) {
		return parent, true
	}
	return ends, true
}

func (c *callTime) Done() <-chan struct{} { return c.done }

func (c *callTime) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *callTime) Value(key any) any {
	if key == (callTimeKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// pause starts a wait for a connection. The first wait stops the time for answers and
// starts the time for connecting.
func (c *callTime) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waits++
	if c.waits == 1 && c.err == nil {
		c.since = time.Now()
		c.answer = c.ends.Sub(c.since)
		c.timer.Reset(c.connect)
	}
}

// resume ends a wait for a connection. The last wait stops the time for connecting and
// continues the time for answers.
func (c *callTime) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waits--
	if c.waits == 0 && c.err == nil {
		now := time.Now()
		c.connect -= now.Sub(c.since)
		c.ends = now.Add(c.answer)
		c.timer.Reset(c.answer)
	}
}

// expire ends the context unless the timer was reset while it fired.
func (c *callTime) expire() {
	c.mu.Lock()
	ends := c.ends
	if c.waits > 0 {
		ends = c.since.Add(c.connect)
	}
	c.mu.Unlock()
	if !time.Now().Before(ends) {
		c.finish(context.DeadlineExceeded)
	}
}

func (c *callTime) finish(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		c.timer.Stop()
		close(c.done)
	}
}

// freezeCheck is the interval at which an attempt reads the wall clock, which a freeze of
// the environment does not stop.
const freezeCheck = 50 * time.Millisecond

// cancelAfterFreeze cancels an attempt when limit has passed by the wall clock. The timer
// of its context may stand still during a freeze, while Valkey or the network closes the
// connection. It returns when ctx ends.
func cancelAfterFreeze(ctx context.Context, cancel context.CancelFunc, limit time.Duration) {
	start := time.Now()
	tick := time.NewTicker(freezeCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if ElapsedAtMost(start, time.Now()) > limit {
				cancel()
				return
			}
		}
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
