package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/policy"
	"tidegate/internal/store"
	"tidegate/internal/usage"
)

// idleLimit is how long a connection is trusted without use. Between two calls the function may be frozen while Valkey or the network closes it.
const idleLimit = time.Second

// connector is a checker that connects to Valkey when it is first used, and tries again as long as it could not: a function that starts while
// Valkey is away must still answer.
type connector struct {
	config config
	now    func() time.Time

	used atomic.Int64 // when Valkey was last asked, in nanoseconds of the Unix epoch

	usage *usage.Recorder

	mu      sync.Mutex
	attempt *attempt // that succeeded or is under way; nil when the last one failed
}

func newConnector(c config) *connector {
	return &connector{config: c, now: time.Now, usage: usage.NewRecorder(usage.Options{}, time.Now)}
}

// Check connects if need be, and checks as policy.Store does: after a pause it probes first, and it tries again once where store.Retry may. It
// takes up to 3/2 of VALKEY_TIMEOUT, and as much again while there is no connection yet.
func (c *connector) Check(ctx context.Context, call policy.Call) (policy.Checked, error) {
	a, err := c.connected(ctx)
	if err != nil {
		return policy.Checked{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.limit())
	defer cancel()
	defer c.touch()
	if c.idle() {
		c.probe(ctx, a.checker, call)
	}
	with := c.passengers(a)
	checked, err := store.Retry(ctx, func(ctx context.Context) (policy.Checked, error) { return a.checker.Check(ctx, call, with) })
	with.Walk(ctx)
	return checked, err
}

// passengers are the records of usage that are due, or nil.
func (c *connector) passengers(a *attempt) *policy.Passengers {
	batch := c.usage.Batch(c.now())
	if batch == nil {
		return nil
	}
	return policy.NewPassengers(a.client, batch.Commands(a.client), func(results []valkey.ValkeyResult) { batch.Settle(results) })
}

// Close sends what was recorded. The function's environment is about to end.
func (c *connector) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), c.limit())
	defer cancel()
	if a, err := c.connected(ctx); err == nil {
		c.usage.Flush(ctx, a.client)
	}
}

// limit leaves time for a second answer when the first one does not come within VALKEY_TIMEOUT.
func (c *connector) limit() time.Duration { return 3 * c.config.ValkeyTimeout / 2 }

func (c *connector) touch() { c.used.Store(c.now().UnixNano()) }

// idle goes by the time of day, since the monotonic clock may stand still in a frozen function. When it was set back, nobody knows.
func (c *connector) idle() bool {
	pause := c.now().UnixNano() - c.used.Load()
	return pause > int64(idleLimit) || pause < 0
}

// probe replaces a connection that went bad meanwhile. It takes a third of the limit at most, so that the check can connect and have its time too.
// What stays wrong, the check finds.
func (c *connector) probe(ctx context.Context, s *policy.Checker, call policy.Call) {
	ctx, cancel := context.WithTimeout(ctx, c.limit()/3)
	defer cancel()
	_ = s.Probe(ctx, call)
}

// attempt to connect; the rest is set when done is closed.
type attempt struct {
	done    chan struct{}
	client  valkey.Client
	checker *policy.Checker
	err     error
}

// connected waits for the connection. An attempt that somebody else began may have failed in a freeze, so it makes one of its own then.
func (c *connector) connected(ctx context.Context) (*attempt, error) {
	ctx, cancel := context.WithTimeout(ctx, c.limit())
	defer cancel()
	for {
		a, own := c.connect()
		select {
		case <-a.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to Valkey: %w", ctx.Err())
		}
		if a.err == nil || own {
			return a, a.err
		}
	}
}

// loaded is the checker of the connection, or nil when there is none, or none that could read a Set.
func (c *connector) loaded() *policy.Checker {
	c.mu.Lock()
	a := c.attempt
	c.mu.Unlock()
	if a == nil {
		return nil
	}
	select {
	case <-a.done:
	default:
		return nil
	}
	if a.checker == nil || a.checker.Set() == nil {
		return nil
	}
	return a.checker
}

// connect returns the attempt that succeeded or is under way, or else begins one of the caller's own.
func (c *connector) connect() (a *attempt, own bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attempt != nil {
		return c.attempt, false
	}
	c.attempt = &attempt{done: make(chan struct{})}
	go c.open(c.attempt)
	return c.attempt, true
}

// open outlasts the call that began it, so that a connection that takes longer is there for the next.
func (c *connector) open(a *attempt) {
	defer close(a.done)
	if a.err = c.load(a); a.err != nil {
		c.mu.Lock()
		c.attempt = nil
		c.mu.Unlock()
	}
}

// load connects by reading the Set. What is wrong with the Set itself, the first check finds.
func (c *connector) load(a *attempt) error {
	timeout := c.config.ValkeyTimeout
	client, err := store.Open(context.Background(), c.config.ValkeyURL, store.Options{Dial: timeout, Write: timeout, Pooled: true, Unproven: true})
	if err != nil {
		return err
	}
	checker := policy.NewChecker(client, c.config.pepper)
	if err := checker.Load(context.Background()); isAway(err) {
		client.Close()
		return fmt.Errorf("connect to Valkey: %w", err)
	}
	a.client, a.checker = client, checker
	c.touch()
	return nil
}
