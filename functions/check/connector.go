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
	"tidegate/internal/limits"
	"tidegate/internal/records"
	"tidegate/internal/store"
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

	records *records.Recorder
	sending sync.Mutex // held while records are sent after an answer, and at the end

	begin   sync.Once
	wanted  chan struct{}         // a call that waits ends the pause before the next attempt
	failure atomic.Pointer[error] // of the last attempt

	connected chan struct{} // closed when client and checker are set
	client    valkey.Client
	checker   *enforce.Checker

	// connectTimedOut says that a call gave up waiting for the first connection. Later
	// calls wait for a connection only as long as for answers.
	connectTimedOut atomic.Bool
}

func newConnector(c settings, now func() time.Time) *connector {
	return &connector{config: c, now: now, records: records.NewRecorder(now),
		wanted: make(chan struct{}), connected: make(chan struct{})}
}

// Check connects if necessary, and checks the call in Valkey. After a pause it probes the
// connection first, and it retries once where store.Retry may. It takes at most 3/2 of
// VALKEY_TIMEOUT, plus VALKEY_CONNECT_TIMEOUT while it waits for a connection.
func (c *connector) Check(ctx context.Context, call enforce.Call) (enforce.Result, error) {
	ctx, cancel := store.WithTimeouts(ctx, c.limit(), c.config.ValkeyConnectTimeout)
	defer cancel()
	if err := c.await(ctx); err != nil {
		return enforce.Result{}, err
	}
	defer c.touch()
	if c.idle() {
		c.probe(ctx, call)
	}
	result, err := store.Retry(ctx, func(ctx context.Context) (enforce.Result, error) {
		checked, err := c.checker.Check(ctx, call)
		call.Again = true
		return checked, err
	})
	c.unavailable.Store(decide.Unavailable(err))
	return result, err
}

// Settle connects if necessary, and settles a call.
func (c *connector) Settle(ctx context.Context, text string,
	actual limits.Costs) (enforce.Settlement, error) {
	ctx, cancel := store.WithTimeouts(ctx, c.limit(), c.config.ValkeyConnectTimeout)
	defer cancel()
	if err := c.await(ctx); err != nil {
		return enforce.Settlement{}, err
	}
	defer c.touch()
	return c.checker.Settle(ctx, text, actual)
}

// healthy returns an error unless Valkey answers.
func (c *connector) healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.limit())
	defer cancel()
	if err := c.await(ctx); err != nil {
		return err
	}
	return c.client.Do(ctx, c.client.B().Ping().Build()).Error()
}

// sendRecords sends what is recorded after the client has its answer: the environment may
// never be called again. It takes at most VALKEY_TIMEOUT. While Valkey is unavailable it
// does nothing, and a later answer sends the records.
func (c *connector) sendRecords() {
	client := c.reachable()
	if client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.config.ValkeyTimeout)
	defer cancel()
	c.sending.Lock()
	defer c.sending.Unlock()
	c.records.Send(ctx, client)
}

// reachable returns the connection, or nil without one and while Valkey is unavailable.
func (c *connector) reachable() valkey.Client {
	if !c.isConnected() || c.unavailable.Load() {
		return nil
	}
	return c.client
}

// Close sends the remaining records before the environment ends.
func (c *connector) Close() {
	c.sending.Lock()
	defer c.sending.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), c.limit())
	defer cancel()
	if err := c.await(ctx); err == nil {
		c.records.Flush(ctx, c.client)
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
func (c *connector) probe(ctx context.Context, call enforce.Call) {
	ctx, cancel := context.WithTimeout(ctx, c.limit()/3)
	defer cancel()
	_ = c.checker.Probe(ctx, call)
}

// start starts to connect. The goroutine ends when it has succeeded.
func (c *connector) start() {
	c.begin.Do(func() {
		go func() {
			for failures := 0; ; failures++ {
				err := c.open()
				if err == nil {
					close(c.connected)
					return
				}
				c.failure.Store(&err)
				select {
				case <-backoff(failures):
				case <-c.wanted:
				}
			}
		}()
	})
}

// await waits for the first connection, at most as long as a call may wait for one. After
// one call has waited in vain, it waits only as long as for answers.
func (c *connector) await(ctx context.Context) error {
	if c.isConnected() {
		return nil
	}
	c.start()
	select {
	case c.wanted <- struct{}{}:
	default: // an attempt is under way
	}
	if c.connectTimedOut.Load() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.limit())
		defer cancel()
	}
	if store.AwaitConnection(ctx, c.connected) == nil {
		return nil
	}
	c.connectTimedOut.Store(true)
	if err := c.failure.Load(); err != nil {
		return *err
	}
	return fmt.Errorf("connect to Valkey: %w", context.DeadlineExceeded)
}

func (c *connector) isConnected() bool {
	select {
	case <-c.connected:
		return true
	default:
		return false
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

// Loaded returns the Checker of the connection, or nil without a connection or policy
// set.
func (c *connector) Loaded() *enforce.Checker {
	if !c.isConnected() || c.checker.Set() == nil {
		return nil
	}
	return c.checker
}

// open connects and reads the policy set. The first check reports a set that cannot be
// used.
func (c *connector) open() error {
	client, err := store.Open(context.Background(), c.config.ValkeyURL, store.Options{
		Dial: c.config.ValkeyConnectTimeout, Write: c.config.ValkeyTimeout, Pooled: true,
	})
	if err != nil {
		return err
	}
	checker := enforce.NewChecker(client, c.config.pepper)
	checker.SettlementExpiry = c.config.SettleWithin
	if err := checker.Load(context.Background()); decide.Unavailable(err) {
		client.Close()
		return fmt.Errorf("connect to Valkey: %w", err)
	}
	c.client, c.checker = client, checker
	c.touch()
	return nil
}
