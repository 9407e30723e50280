package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/enforce"
	"tidegate/internal/store"
	"tidegate/internal/usage"
)

// idleLimit is how long a connection is trusted without use. Between two calls the
// function may be frozen while Valkey or the network closes it.
const idleLimit = time.Second

// connector is a checker that connects to Valkey in the background, and tries again as
// long as it could not: a function that starts while Valkey is away must still answer.
type connector struct {
	config settings
	now    func() time.Time

	used atomic.Int64 // when Valkey was last asked, in nanoseconds of the Unix epoch
	away atomic.Bool  // Valkey did not answer the last check that asked it

	usage   *usage.Recorder
	sending sync.Mutex // held while records are sent after an answer, and at the end

	// late means that a call waited for the first connection in vain. Later calls wait
	// for it within their time for answers.
	late atomic.Bool

	mu      sync.Mutex
	attempt *attempt // that succeeded or is under way; nil when the last one failed
}

func newConnector(c settings) *connector {
	return &connector{config: c, now: time.Now, usage: usage.NewRecorder(usage.Options{}, time.Now)}
}

// Check connects if need be, and checks as policy.Store does: after a pause it probes
// first, and it tries again once where store.Retry may. It takes up to 3/2 of
// VALKEY_TIMEOUT, and VALKEY_CONNECT_TIMEOUT more while it waits for connections.
func (c *connector) Check(ctx context.Context, call enforce.Call) (enforce.Result, error) {
	ctx, cancel := store.WithTimeouts(ctx, c.limit(), c.config.ValkeyConnectTimeout)
	defer cancel()
	a, err := c.connected(ctx)
	if err != nil {
		return enforce.Result{}, err
	}
	defer c.touch()
	if c.idle() {
		c.probe(ctx, a.checker, call)
	}
	with := c.piggyback(a)
	result, err := store.Retry(ctx, func(ctx context.Context) (enforce.Result, error) {
		return a.checker.Check(ctx, call, with)
	})
	with.Flush(ctx)
	c.away.Store(enforce.Away(err))
	return result, err
}

// piggyback returns the records of usage that are due, or nil.
func (c *connector) piggyback(a *attempt) *enforce.Piggyback {
	batch := c.usage.Batch(c.now())
	if batch == nil {
		return nil
	}
	return enforce.NewPiggyback(a.client, batch.Commands(a.client), func(results []valkey.ValkeyResult) {
		batch.Acknowledge(results)
	})
}

// sendRecords sends what was recorded once the client has its answer. An environment that
// is called rarely would keep it until its next call. It takes VALKEY_TIMEOUT at most;
// while Valkey is away it does nothing, and a check takes the records along later.
func (c *connector) sendRecords() {
	a := c.ready()
	if a == nil || c.away.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.config.ValkeyTimeout)
	defer cancel()
	c.sending.Lock()
	defer c.sending.Unlock()
	c.usage.FlushEarly(ctx, a.client)
}

// Close sends what was recorded. The function's environment is about to end.
func (c *connector) Close() {
	c.sending.Lock()
	defer c.sending.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), c.limit())
	defer cancel()
	if a, err := c.connected(ctx); err == nil {
		c.usage.Flush(ctx, a.client)
	}
}

// limit leaves time for a second answer when the first one does not come within
// VALKEY_TIMEOUT.
func (c *connector) limit() time.Duration { return 3 * c.config.ValkeyTimeout / 2 }

func (c *connector) touch() { c.used.Store(c.now().UnixNano()) }

// idle goes by the time of day, since the monotonic clock may stand still in a frozen
// function. A clock that was set back counts as idle.
func (c *connector) idle() bool {
	pause := c.now().UnixNano() - c.used.Load()
	return pause > int64(idleLimit) || pause < 0
}

// probe replaces a connection that went bad meanwhile. It takes a third of the limit at
// most, so that the check can connect and have its time too. What stays wrong, the check
// finds.
func (c *connector) probe(ctx context.Context, s *enforce.Checker, call enforce.Call) {
	ctx, cancel := context.WithTimeout(ctx, c.limit()/3)
	defer cancel()
	_ = s.Probe(ctx, call)
}

// attempt to connect; the rest is set when done is closed.
type attempt struct {
	done    chan struct{}
	client  valkey.Client
	checker *enforce.Checker
	err     error
}

// connectInBackground tries until there is a connection or ctx ends.
func (c *connector) connectInBackground(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; failures++ {
		a, _ := c.connect()
		<-a.done
		if a.err == nil {
			return
		}
		<-backoff(failures)
	}
}

// connected waits for the connection. An attempt that somebody else began may have failed
// in a freeze, so it makes one of its own then. The first calls of an environment try
// again until their time is over, since they could only be denied.
func (c *connector) connected(ctx context.Context) (*attempt, error) {
	for failures := 0; ; failures++ {
		a, own := c.connect()
		if err := c.await(ctx, a.done); err != nil {
			return nil, fmt.Errorf("connect to Valkey: %w", err)
		}
		if a.err == nil || own && c.late.Load() {
			return a, a.err
		}
		if !own {
			continue
		}
		if err := c.await(ctx, backoff(failures)); err != nil {
			return nil, a.err
		}
	}
}

// await waits on the call's time for connecting, until that was in vain once.
func (c *connector) await(ctx context.Context, done <-chan struct{}) error {
	if !c.late.Load() {
		err := store.AwaitConnection(ctx, done)
		if err != nil {
			c.late.Store(true)
		}
		return err
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

const (
	leastBackoff = 20 * time.Millisecond
	mostBackoff  = time.Second
)

// backoff is closed after a pause that doubles with each failure, half of it random.
func backoff(failures int) <-chan struct{} {
	pause := min(mostBackoff, leastBackoff<<min(failures, 10))
	done := make(chan struct{})
	time.AfterFunc(pause/2+rand.N(pause/2), func() { close(done) }) //nolint:gosec // spreads load, keeps no secret
	return done
}

// MustAsk reports whether records of usage are due. They leave with a check, and without
// one would take a round trip of their own.
func (c *connector) MustAsk() bool { return c.usage.Due(c.now()) }

// Loaded returns the Checker of the connection; nil without a connection or policy set.
func (c *connector) Loaded() *enforce.Checker {
	a := c.ready()
	if a == nil || a.checker.Set() == nil {
		return nil
	}
	return a.checker
}

// ready returns the attempt that succeeded, or nil.
func (c *connector) ready() *attempt {
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
	if a.err != nil {
		return nil
	}
	return a
}

// connect returns the attempt that succeeded or is under way, or else begins one of the
// caller's own.
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

// open outlasts the call that began it, so that a connection that takes longer is there
// for the next.
func (c *connector) open(a *attempt) {
	defer close(a.done)
	if a.err = c.load(a); a.err != nil {
		c.mu.Lock()
		c.attempt = nil
		c.mu.Unlock()
	}
}

// load connects by reading the Set. What is wrong with the Set itself, the first check
// finds.
func (c *connector) load(a *attempt) error {
	client, err := store.Open(context.Background(), c.config.ValkeyURL, store.Options{
		Dial: c.config.ValkeyConnectTimeout, Write: c.config.ValkeyTimeout, Pooled: true, Unproven: true,
	})
	if err != nil {
		return err
	}
	checker := enforce.NewChecker(client, c.config.pepper)
	checker.ReservationExpiry = c.config.ReservationLease
	if err := checker.Load(context.Background()); enforce.Away(err) {
		client.Close()
		return fmt.Errorf("connect to Valkey: %w", err)
	}
	a.client, a.checker = client, checker
	c.touch()
	return nil
}
