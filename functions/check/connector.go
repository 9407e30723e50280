package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/decide"
	"tidegate/internal/enforce"
	"tidegate/internal/store"
	"tidegate/internal/usage"
)

// idleLimit is how long an unused connection is trusted. While Lambda freezes the
// function, Valkey or the network may close it.
const idleLimit = time.Second

// connector connects to Valkey in the background and retries until it succeeds. A
// function that starts while Valkey is unreachable must still answer.
type connector struct {
	config settings
	now    func() time.Time

	used        atomic.Int64 // time of the last command, in nanoseconds of the Unix epoch
	unavailable atomic.Bool  // whether Valkey did not answer the last check sent to it

	usage   *usage.Recorder
	sending sync.Mutex // held while records are sent after an answer, and at the end

	// connectTimedOut says that a call gave up waiting for the first connection. Later
	// calls wait for a connection only as long as for answers.
	connectTimedOut atomic.Bool

	mu      sync.Mutex
	attempt *attempt // succeeded or under way; nil after a failure
}

func newConnector(c settings, now func() time.Time) *connector {
	return &connector{config: c, now: now, usage: usage.NewRecorder(usage.Options{}, time.Now)}
}

// Check connects if necessary, and checks the call in Valkey. After a pause it probes the
// connection first, and it retries once where store.Retry may. It takes at most 3/2 of
// VALKEY_TIMEOUT, plus VALKEY_CONNECT_TIMEOUT while it waits for a connection.
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
		checked, err := a.checker.Check(ctx, call, with)
		call.Again = true
		return checked, err
	})
	with.Flush(ctx)
	c.unavailable.Store(decide.Unavailable(err))
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

// sendRecords sends usage records after the client has its answer. Without it, a rarely
// called environment would hold them until its next call. It takes at most
// VALKEY_TIMEOUT. While Valkey is unreachable it does nothing, and a later check sends
// the records.
func (c *connector) sendRecords() {
	client := c.reachable()
	if client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.config.ValkeyTimeout)
	defer cancel()
	c.sending.Lock()
	defer c.sending.Unlock()
	c.usage.FlushEarly(ctx, client)
}

// reachable returns the connection, or nil without one and while Valkey is unavailable.
func (c *connector) reachable() valkey.Client {
	if a := c.ready(); a != nil && !c.unavailable.Load() {
		return a.client
	}
	return nil
}

// Close sends the remaining usage records before the environment ends.
func (c *connector) Close() {
	c.sending.Lock()
	defer c.sending.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), c.limit())
	defer cancel()
	if a, err := c.connected(ctx); err == nil {
		c.usage.Flush(ctx, a.client)
	}
}

// limit returns the time for a check's answers. It leaves time for a retry when the first
// answer does not come within VALKEY_TIMEOUT.
func (c *connector) limit() time.Duration { return 3 * c.config.ValkeyTimeout / 2 }

func (c *connector) touch() { c.used.Store(c.now().UnixNano()) }

// idle compares wall-clock times, since the monotonic clock may stand still while Lambda
// freezes the function. A clock that was set back counts as idle.
func (c *connector) idle() bool {
	pause := c.now().UnixNano() - c.used.Load()
	return pause > int64(idleLimit) || pause < 0
}

// probe replaces a connection that was lost since the last call. It takes at most a third
// of the limit, which leaves time to connect and check. The check reports errors that
// remain.
func (c *connector) probe(ctx context.Context, s *enforce.Checker, call enforce.Call) {
	ctx, cancel := context.WithTimeout(ctx, c.limit()/3)
	defer cancel()
	_ = s.Probe(ctx, call)
}

// attempt is one attempt to connect. Its other fields are set before done is closed.
type attempt struct {
	done    chan struct{}
	client  valkey.Client
	checker *enforce.Checker
	err     error
}

// connectInBackground connects, and retries until it succeeds or ctx ends.
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

// connected waits for the connection. If an attempt of another call fails, perhaps
// because of a freeze, it starts its own. The first calls of an environment retry until
// their time is over, since they could only be denied.
func (c *connector) connected(ctx context.Context) (*attempt, error) {
	for failures := 0; ; failures++ {
		a, own := c.connect()
		if err := c.await(ctx, a.done); err != nil {
			return nil, fmt.Errorf("connect to Valkey: %w", err)
		}
		if a.err == nil || own && c.connectTimedOut.Load() {
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

// await waits for done, at most as long as a call may wait for a connection. After one
// call has waited in vain, it waits only until ctx ends.
func (c *connector) await(ctx context.Context, done <-chan struct{}) error {
	if !c.connectTimedOut.Load() {
		err := store.AwaitConnection(ctx, done)
		if err != nil {
			c.connectTimedOut.Store(true)
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
	minBackoff = 20 * time.Millisecond
	maxBackoff = time.Second
)

// backoff returns a channel that closes after a pause. The pause doubles with each
// failure; half of it is random.
func backoff(failures int) <-chan struct{} {
	pause := min(maxBackoff, minBackoff<<min(failures, 10))
	done := make(chan struct{})
	time.AfterFunc(pause/2+rand.N(pause/2), func() { close(done) }) //nolint:gosec // spreads load, keeps no secret
	return done
}

// MustCheck reports whether usage records are due. They leave with a check, since alone
// they would take a round trip of their own.
func (c *connector) MustCheck() bool { return c.usage.Due(c.now()) }

// Loaded returns the Checker of the connection, or nil without a connection or policy
// set.
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

// connect returns the attempt that succeeded or is under way. If there is none, it starts
// one and own is true.
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

// open connects. It continues after the call that started it ends, so that the next call
// finds the connection.
func (c *connector) open(a *attempt) {
	defer close(a.done)
	if a.err = c.load(a); a.err != nil {
		c.mu.Lock()
		c.attempt = nil
		c.mu.Unlock()
	}
}

// load connects and reads the policy set. The first check reports a set that cannot be
// used.
func (c *connector) load(a *attempt) error {
	client, err := store.Open(context.Background(), c.config.ValkeyURL, store.Options{
		Dial: c.config.ValkeyConnectTimeout, Write: c.config.ValkeyTimeout, Pooled: true, SkipPing: true,
	})
	if err != nil {
		return err
	}
	checker := enforce.NewChecker(client, c.config.pepper)
	checker.ReservationExpiry = c.config.ReservationLease
	if err := checker.Load(context.Background()); decide.Unavailable(err) {
		client.Close()
		return fmt.Errorf("connect to Valkey: %w", err)
	}
	a.client, a.checker = client, checker
	c.touch()
	return nil
}
