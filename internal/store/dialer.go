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

// dialer connects and logs in apart from the calls that need the connection. A call that
// does not wait for its connection leaves it to the next call that needs one.
//
// The library would log in within the time of one call, and close what takes longer.
type dialer struct {
	option          valkey.ClientOption
	connect, answer time.Duration
	ctx             context.Context //nolint:containedctx // of all attempts; ends with close
	cancel          context.CancelFunc

	mu    sync.Mutex
	nodes map[string]*node
}

// node is what the dialer knows of one address.
type node struct {
	left []*attempt // that no call waits for, oldest first
	// away means that Valkey stopped answering there, or that a call waited for a
	// connection in vain. Calls wait for connections within their time for answers then.
	away bool
}

// attempt is one connection that is being made. The rest is set when done is closed.
type attempt struct {
	done       chan struct{}
	prepared   bool // begun for the call that takes it
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

// dial returns a connection that is logged in. An attempt that an earlier call began may
// have failed in a freeze, so the call makes one of its own then.
func (d *dialer) dial(ctx context.Context, address string) (net.Conn, error) {
	for {
		a, own := d.begin(address)
		if err := d.await(ctx, address, a); err != nil {
			d.leave(address, a)
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

// begin returns an attempt that was left, or else begins one.
func (d *dialer) begin(address string) (a *attempt, own bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.node(address)
	if len(n.left) > 0 {
		a = n.left[0]
		n.left = n.left[1:]
		return a, a.prepared
	}
	return d.start(address), true
}

// prepare begins an attempt for a call to come.
func (d *dialer) prepare(address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.start(address)
	a.prepared = true
	n := d.node(address)
	n.left = append(n.left, a)
}

func (d *dialer) start(address string) *attempt {
	a := &attempt{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.connection, a.err = d.logIn(address)
	}()
	return a
}

// leave keeps an attempt for the next call, or closes its connection after close.
func (d *dialer) leave(address string, a *attempt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		go a.discard()
		return
	}
	a.prepared = false
	n := d.node(address)
	n.left = append(n.left, a)
}

// discard closes the connection once it is there.
func (a *attempt) discard() {
	<-a.done
	if a.err == nil {
		_ = a.connection.Close() // Nobody used it.
	}
}

// close ends all attempts and closes the connections that nobody took.
func (d *dialer) close() {
	d.cancel()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.nodes {
		for _, a := range n.left {
			go a.discard()
		}
		n.left = nil
	}
}

// node is what is known of an address. The caller holds mu.
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

// await waits for the attempt: on the call's time for connecting, unless the node is
// away.
func (d *dialer) await(ctx context.Context, address string, a *attempt) error {
	call, timed := ctx.Value(callTimeKey{}).(*callTime)
	if !d.away(address) {
		err := AwaitConnection(ctx, a.done)
		if err != nil && timed && call.Err() != nil {
			d.setAway(address, true)
		}
		return err
	}
	// The library asks for the topology anew after an error, but not once the call's own
	// context has ended: that would keep calls at a node that failed.
	ctx, cancel := context.WithTimeout(ctx, d.answer)
	defer cancel()
	return await(ctx, a.done)
}

// logIn connects, sends the log-in, and waits for the begin of the reply.
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
		_ = conn.Close() // Nothing was sent.
		return nil, err
	}
	return c, nil
}

// freezeCheck is how soon after a freeze an attempt finds out that its time is over.
const freezeCheck = 50 * time.Millisecond

// cancelAfterFreeze cancels an attempt whose time is over by the time of day. In a freeze
// the timer of its context may stand still while Valkey or the network gives it up.
func cancelAfterFreeze(ctx context.Context, cancel context.CancelFunc, limit time.Duration) {
	began := time.Now()
	tick := time.NewTicker(freezeCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if ElapsedAtMost(began, time.Now()) > limit {
				cancel()
				return
			}
		}
	}
}
