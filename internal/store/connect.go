package store

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"
)

// client is a client whose calls do not connect, since a connection that the library
// makes in a call ends with that call. A call without a connection waits for an attempt
// in the background, which continues when the call stops waiting. The next call uses its
// connection.
type client struct {
	valkey.Client
	answer, connect time.Duration
	single          bool            // without a cluster, whose topology the library asks for
	ctx             context.Context //nolint:containedctx // of all attempts; ends with Close
	cancel          context.CancelFunc

	dedicated atomic.Int64 // calls of Dedicated

	mu    sync.Mutex
	nodes map[string]*node
}

// node is the client's state of one address.
type node struct {
	idle []*attempt // attempts under way without a waiting call, oldest first
	// unavailable says that the node stopped answering, or that a call waited for a
	// connection without success. Calls then wait for connections within their timeout
	// for answers.
	unavailable bool
}

// attempt is one attempt to connect. err is set when done is closed.
type attempt struct {
	done    chan struct{}
	began   time.Time
	expired bool // its time passed while the function was frozen
	err     error
}

func newClient(option valkey.ClientOption, answer time.Duration) *client {
	c := &client{answer: answer, connect: option.Dialer.Timeout, single: option.ForceSingleClient,
		nodes: map[string]*node{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Close also ends the attempts.
func (c *client) Close() {
	c.cancel()
	c.Client.Close()
}

// Dedicated calls do with a connection that no other call uses, which the library makes.
func (c *client) Dedicated(do func(valkey.DedicatedClient) error) error {
	c.dedicated.Add(1)
	defer c.dedicated.Add(-1)
	return c.Client.Dedicated(do)
}

// A call connects again if other calls took the connection, and if the node redirected it
// to itself, for which the library makes a new pool. From quickConnects on it pauses
// before, twice as long each time, since then calls wait for each other, or it does not
// end.
const (
	quickConnects = 2
	maxConnects   = 8
)

// mayConnect reports whether a call that has connected some times may do so again.
func mayConnect(ctx context.Context, connects int) bool {
	return connects < quickConnects ||
		connects < maxConnects && pause(ctx, retryPause<<(connects-quickConnects))
}

// Do sends a command. The answer may take Options.Write.
func (c *client) Do(ctx context.Context, command valkey.Completed) valkey.ValkeyResult {
	for connects := 0; ; connects++ {
		answer, cancel := c.answerContext(ctx)
		result := c.Client.Do(answer, command)
		cancel()
		missing, ok := errors.AsType[*missingError](result.NonValkeyError())
		if !ok || !mayConnect(ctx, connects) {
			return result
		}
		if err := c.await(ctx, missing.address); err != nil {
			return valkey.NewErrorResult(err)
		}
	}
}

// DoMulti sends commands together. The answers may take Options.Write.
func (c *client) DoMulti(ctx context.Context, commands ...valkey.Completed) []valkey.ValkeyResult {
	results := c.send(ctx, commands)
	for connects := 0; ; connects++ {
		var again []valkey.Completed
		var indexes []int
		missing := c.missing(results)
		if len(missing) == 0 || !mayConnect(ctx, connects) {
			return results
		}
		for address, missed := range missing {
			err := c.await(ctx, address)
			for _, i := range missed {
				if err != nil {
					results[i] = valkey.NewErrorResult(err)
					continue
				}
				again, indexes = append(again, commands[i]), append(indexes, i)
			}
		}
		if len(again) == 0 {
			return results
		}
		for i, result := range c.send(ctx, again) {
			results[indexes[i]] = result
		}
	}
}

func (c *client) send(ctx context.Context, commands []valkey.Completed) []valkey.ValkeyResult {
	answer, cancel := c.answerContext(ctx)
	defer cancel()
	return c.Client.DoMulti(answer, commands...)
}

// missing returns the results without a connection by their addresses, and starts to
// connect to all of these.
func (c *client) missing(results []valkey.ValkeyResult) map[string][]int {
	var missing map[string][]int
	for i, result := range results {
		if e, ok := errors.AsType[*missingError](result.NonValkeyError()); ok {
			if missing == nil {
				missing = map[string][]int{}
			}
			if missing[e.address] == nil {
				a, _ := c.begin(e.address)
				c.release(e.address, a) // for await
			}
			missing[e.address] = append(missing[e.address], i)
		}
	}
	return missing
}

type (
	attemptKey struct{} // of an attempt's context
	inCallKey  struct{} // of the contexts that answerContext returns
)

// answerContext returns the context of an answer, with which dial does not connect.
func (c *client) answerContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return withinAnswer(context.WithValue(ctx, inCallKey{}, true), c.answer)
}

// missingError says that a call found no connection to an address.
type missingError struct{ address string }

func (e *missingError) Error() string { return "no connection to " + e.address }

// await waits for a connection to the address. If the attempt of an earlier call failed,
// for example because the environment was frozen, await starts its own.
func (c *client) await(ctx context.Context, address string) error {
	for {
		a, own := c.begin(address)
		if err := c.awaitAttempt(ctx, address, a); err != nil {
			c.release(address, a)
			return fmt.Errorf("connect to %s: %w", address, err)
		}
		if a.err == nil || own {
			return a.err
		}
	}
}

// awaitAttempt waits for the attempt. The wait counts as connecting (see WithTimeouts),
// unless the node is unavailable.
func (c *client) awaitAttempt(ctx context.Context, address string, a *attempt) error {
	if c.unavailable(address) {
		ctx, cancel := withinAnswer(ctx, c.answer)
		defer cancel()
		return await(ctx, a.done)
	}
	err := AwaitConnection(ctx, a.done)
	if errors.Is(err, context.DeadlineExceeded) && timeOf(ctx) != nil {
		c.setUnavailable(address, true)
	}
	return err
}

// begin returns an idle attempt, or starts one; own says that it started it. A freeze
// stops the timers of an attempt, while Valkey or the network may drop its connection. So
// begin does not return an attempt whose time has passed by the wall clock.
func (c *client) begin(address string) (a *attempt, own bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.node(address)
	for len(n.idle) > 0 {
		a, n.idle = n.idle[0], n.idle[1:]
		if a.expired = ElapsedAtMost(a.began, time.Now()) > c.connect; !a.expired {
			return a, false
		}
	}
	a = &attempt{done: make(chan struct{}), began: time.Now()}
	go c.run(address, a)
	return a, true
}

// release keeps an attempt that is under way for the next call.
func (c *client) release(address string, a *attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-a.done:
	default:
		n := c.node(address)
		n.idle = append(n.idle, a)
	}
}

func (c *client) run(address string, a *attempt) {
	err := c.logIn(address)
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.node(address)
	n.idle = slices.DeleteFunc(n.idle, func(other *attempt) bool { return other == a })
	if err == nil || errors.Is(err, context.DeadlineExceeded) && !a.expired {
		n.unavailable = err != nil
	}
	a.err = err
	close(a.done)
}

// logIn makes the library connect, log in, and keep the connection for calls.
func (c *client) logIn(address string) error {
	node, ok := c.Nodes()[address]
	if !ok {
		return nil // the node left the cluster, so the next command goes elsewhere
	}
	ctx, cancel := context.WithTimeout(context.WithValue(c.ctx, attemptKey{}, true), c.connect)
	defer cancel()
	return node.Do(ctx, node.B().Ping().Build()).NonValkeyError()
}

func (c *client) knows(address string) bool { return c.Nodes()[address] != nil }

// node returns the state of an address. The caller holds mu.
func (c *client) node(address string) *node {
	n := c.nodes[address]
	if n == nil {
		n = &node{}
		c.nodes[address] = n
	}
	return n
}

func (c *client) unavailable(address string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.node(address).unavailable
}

func (c *client) setUnavailable(address string, unavailable bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.node(address).unavailable = unavailable
}

// dial connects for attempts, for Dedicated, and for the library's questions about a
// cluster. A call itself connects to a node that was redirected to and is not yet in the topology.
func (c *client) dial(ctx context.Context, address string, dialer *net.Dialer, secure *tls.Config) (net.Conn,
	error) {
	if ctx.Value(attemptKey{}) == nil && c.dedicated.Load() == 0 && (c.single ||
		ctx.Value(inCallKey{}) != nil && c.knows(address)) {
		return nil, &missingError{address}
	}
	var conn net.Conn
	var err error
	if secure == nil {
		conn, err = dialer.DialContext(ctx, "tcp", address)
	} else {
		conn, err = (&tls.Dialer{NetDialer: dialer, Config: secure}).DialContext(ctx, "tcp", address)
	}
	if err != nil {
		return nil, err
	}
	silent := func() { c.setUnavailable(address, true) }
	return &connection{Conn: conn, answerTimeout: idleAfter + c.answer, silent: silent}, nil
}

// idleAfter is how long after its last answer a connection counts as in use. Valkey or
// the network may close a connection while the function is frozen. So a missing answer on
// an older one does not make the node unavailable.
const idleAfter = time.Second

// connection is a connection that notices what the library does not.
type connection struct {
	net.Conn
	lastRead      time.Time
	answerTimeout time.Duration
	silent        func()      // called when Valkey stops answering on a connection in use
	demoted       atomic.Bool // the node said that it is a replica now
}

// errDemoted ends a connection to a node that has become a replica. Such a node keeps its
// connections, and would refuse every write for good. Nothing was sent, so Retry makes the
// call again on a new connection, which reaches the new primary.
var errDemoted = fmt.Errorf("the node has become a replica: %w", io.EOF)

func (c *connection) Write(p []byte) (int, error) {
	if c.demoted.Load() {
		return 0, errDemoted
	}
	return c.Conn.Write(p)
}

// readOnly begins the reply of a replica to a write, after the end of the reply before.
var readOnly = []byte("\n-READONLY ")

func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	switch now := time.Now(); {
	case n > 0:
		c.lastRead = now
		if bytes.HasPrefix(p[:n], readOnly[1:]) || bytes.Contains(p[:n], readOnly) {
			c.demoted.Store(true)
		}
	case errors.Is(err, os.ErrDeadlineExceeded) && ElapsedAtMost(c.lastRead, now) < c.answerTimeout:
		c.silent()
	}
	return n, err
}
