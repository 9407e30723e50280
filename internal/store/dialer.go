package store

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"
)

// dialer connects and logs in independently of the calls that need connections. When a
// call stops waiting, the next call that needs a connection takes its attempt.
//
// The library itself would log in within the time of one call, and close a connection
// that takes longer.
type dialer struct {
	option          valkey.ClientOption
	connect, answer time.Duration
	ctx             context.Context //nolint:containedctx // of all attempts; ends with close
	cancel          context.CancelFunc

	mu    sync.Mutex
	nodes map[string]*node
}

// node is the dialer's state of one address.
type node struct {
	idle []*attempt // without a waiting call, oldest first
	// away says that Valkey stopped answering there, or that a call waited for a
	// connection without success. Calls then wait for connections within their time for
	// answers.
	away bool
}

// attempt is one attempt to connect. connection and err are set when done is closed.
type attempt struct {
	done       chan struct{}
	connection *connection
	err        error
}

func newDialer(option valkey.ClientOption) *dialer {
	d := &dialer{
		option: option, connect: option.Dialer.Timeout, answer: option.ConnWriteTimeout,
		nodes: map[string]*node{},
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// dial returns a connection that is logged in. If an attempt of an earlier call failed,
// perhaps because of a freeze, it starts its own.
func (d *dialer) dial(ctx context.Context, address string) (net.Conn, error) {
	for {
		a, own := d.begin(address)
		if err := d.await(ctx, address, a); err != nil {
			d.release(address, a)
			return nil, fmt.Errorf("connect to %s: %w", address, err)
		}
		if a.err == nil {
			return a.connection, nil
		}
		if own {
			return nil, a.err
		}
	}
}

// begin returns an idle attempt, or starts one. own says that no earlier call started it.
func (d *dialer) begin(address string) (a *attempt, own bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.node(address)
	if len(n.idle) > 0 {
		a = n.idle[0]
		n.idle = n.idle[1:]
		return a, false
	}
	return d.start(address), true
}

// prepare starts an attempt for a later call.
func (d *dialer) prepare(address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.node(address)
	n.idle = append(n.idle, d.start(address))
}

func (d *dialer) start(address string) *attempt {
	a := &attempt{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.connection, a.err = d.logIn(address)
	}()
	return a
}

// release keeps an attempt for the next call. After close it closes the attempt's
// connection.
func (d *dialer) release(address string, a *attempt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		go a.discard()
		return
	}
	n := d.node(address)
	n.idle = append(n.idle, a)
}

// discard waits for the attempt and closes its connection.
func (a *attempt) discard() {
	<-a.done
	if a.err == nil {
		_ = a.connection.Close() // was never used
	}
}

// close ends all attempts and closes unused connections.
func (d *dialer) close() {
	d.cancel()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.nodes {
		for _, a := range n.idle {
			go a.discard()
		}
		n.idle = nil
	}
}

// node returns the state of an address. The caller holds mu.
func (d *dialer) node(address string) *node {
	n := d.nodes[address]
	if n == nil {
		n = &node{}
		d.nodes[address] = n
	}
	return n
}

func (d *dialer) away(address string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.node(address).away
}

func (d *dialer) setAway(address string, away bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.node(address).away = away
}

// await waits for the attempt. The wait counts as connecting, unless the node is away.
func (d *dialer) await(ctx context.Context, address string, a *attempt) error {
	call, timed := ctx.Value(callTimeKey{}).(*callTime)
	if !d.away(address) {
		err := AwaitConnection(ctx, a.done)
		if err != nil && timed && call.Err() != nil {
			d.setAway(address, true)
		}
		return err
	}
	// After an error the library asks for the topology again, but not after the call's
	// own context ended. Without a shorter time, calls would stay at a failed node.
	ctx, cancel := context.WithTimeout(ctx, d.answer)
	defer cancel()
	return await(ctx, a.done)
}

// logIn connects, sends the log-in, and waits until its reply begins.
func (d *dialer) logIn(address string) (*connection, error) {
	ctx, cancel := context.WithTimeout(d.ctx, d.connect)
	defer cancel()
	go cancelAfterFreeze(ctx, cancel, d.connect)
	c, err := d.open(ctx, address)
	if err == nil {
		err = c.logIn(ctx)
	}
	if err == nil {
		d.setAway(address, false)
		return c, nil
	}
	if ctx.Err() != nil {
		d.setAway(address, true)
	}
	return nil, err
}

func (d *dialer) open(ctx context.Context, address string) (*connection, error) {
	var conn net.Conn
	var err error
	if d.option.TLSConfig == nil {
		conn, err = d.option.Dialer.DialContext(ctx, "tcp", address)
	} else {
		conn, err = (&tls.Dialer{NetDialer: &d.option.Dialer, Config: d.option.TLSConfig}).DialContext(ctx,
			"tcp", address)
	}
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: conn, answerTimeout: idleAfter + d.answer, silent: func() {
		d.setAway(address, true)
	}}
	if c.hello, err = d.hello(conn); err != nil {
		_ = conn.Close() // nothing was sent
		return nil, err
	}
	return c, nil
}
