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
	"sync"
	"sync/atomic"
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
	idle []*attempt // attempts without a waiting call, oldest first
	// unavailable says that the node stopped answering, or that a call waited for a
	// connection without success. Calls then wait for connections within their timeout
	// for answers.
	unavailable bool
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

// dial returns a connection that is logged in. If the attempt of an earlier call failed,
// for example because the environment was frozen, dial starts its own.
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

// begin returns an idle attempt, or starts one; own says that it started it.
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

// start starts an attempt in a goroutine.
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

func (d *dialer) unavailable(address string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.node(address).unavailable
}

func (d *dialer) setUnavailable(address string, unavailable bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.node(address).unavailable = unavailable
}

// await waits for the attempt. The wait counts as connecting (see WithTimeouts), unless
// the node is unavailable.
func (d *dialer) await(ctx context.Context, address string, a *attempt) error {
	call, timed := ctx.Value(callTimeKey{}).(*callTime)
	if !d.unavailable(address) {
		err := AwaitConnection(ctx, a.done)
		if err != nil && timed && call.Err() != nil {
			d.setUnavailable(address, true)
		}
		return err
	}
	// After an error the library gets the topology again, but not if the call's own
	// context has ended. Without this shorter timeout, calls would stay at a failed node.
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
		d.setUnavailable(address, false)
		return c, nil
	}
	if ctx.Err() != nil {
		d.setUnavailable(address, true)
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
		d.setUnavailable(address, true)
	}}
	if c.hello, err = d.hello(conn); err != nil {
		_ = conn.Close() // nothing was sent
		return nil, err
	}
	return c, nil
}

// idleAfter is how long after its last answer a connection counts as in use. Valkey or
// the network may close a connection while the function is frozen. So a missing answer on
// an older one does not make the node unavailable.
const idleAfter = time.Second

// connection is a connection that logs in before the library gets it. The library writes
// its own log-in first; Write drops that, and Read returns the stored reply.
type connection struct {
	net.Conn
	hello         []byte // the log-in request; nil after the library wrote its own
	reply         []byte // the unread part of the reply to hello
	lastRead      time.Time
	answerTimeout time.Duration
	silent        func()      // called when Valkey stops answering on a connection in use
	demoted       atomic.Bool // the node said that it is a replica now
}

// hello returns the log-in request that the library would write to conn.
func (d *dialer) hello(conn net.Conn) ([]byte, error) {
	user, password := d.option.Username, d.option.Password
	if d.option.AuthCredentialsFn != nil {
		credentials, err := d.option.AuthCredentialsFn(valkey.AuthCredentialsContext{
			Address: conn.RemoteAddr()})
		if err != nil {
			return nil, err
		}
		user, password = credentials.Username, credentials.Password
	}
	words := []string{"HELLO", "3"}
	switch {
	case user != "":
		words = append(words, "AUTH", user, password)
	case password != "":
		words = append(words, "AUTH", "default", password)
	}
	request := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, word := range words {
		request = fmt.Appendf(request, "$%d\r\n%s\r\n", len(word), word)
	}
	return request, nil
}

// maxHelloReply is enough for the beginning of the reply to a log-in.
const maxHelloReply = 4 << 10

// logIn sends the log-in request and waits until its reply begins. It closes the
// connection after an error.
func (c *connection) logIn(ctx context.Context) error {
	// SetDeadline fails only on a closed connection.
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	err := c.exchange()
	if !stop() {
		err = fmt.Errorf("log in: %w", ctx.Err())
	}
	if err != nil {
		_ = c.Close() // the log-in's error matters
	}
	return err
}

func (c *connection) exchange() error {
	if _, err := c.Conn.Write(c.hello); err != nil {
		return fmt.Errorf("log in: %w", err)
	}
	buffer := make([]byte, maxHelloReply)
	n, err := c.Conn.Read(buffer)
	if n == 0 {
		return fmt.Errorf("log in: %w", err)
	}
	c.reply = buffer[:n]
	c.lastRead = time.Now()
	return nil
}

var (
	errHello   = errors.New("the client library's log-in differs from this connection's")
	errNoHello = errors.New("the client library did not log in")
)

// errDemoted ends a connection to a node that has become a replica. Such a node keeps its
// connections, and would refuse every write for good. Nothing was sent, so Retry makes the
// call again on a new connection, which reaches the new primary.
var errDemoted = fmt.Errorf("the node has become a replica: %w", io.EOF)

// Write sends everything except the library's log-in.
func (c *connection) Write(p []byte) (int, error) {
	if c.demoted.Load() {
		return 0, errDemoted
	}
	if c.hello == nil {
		return c.Conn.Write(p)
	}
	// The library signs its own IAM token, so only the part before the token is the same.
	if command := len("*5\r\n$5\r\nHELLO\r\n$1\r\n3\r\n"); len(p) < command ||
		!bytes.Equal(p[:command], c.hello[:command]) {
		return 0, errHello
	}
	c.hello = nil
	return len(p), nil
}

// readOnly begins the reply of a replica to a write, after the end of the reply before.
var readOnly = []byte("\n-READONLY ")

// Read returns the stored reply first, and then what Valkey sends. Before the library has
// written its log-in, Read returns an error. If the call ends that early, the library
// closes the connection with a last command, and would panic at a reply to another one.
func (c *connection) Read(p []byte) (int, error) {
	if c.hello != nil {
		return 0, errNoHello
	}
	if len(c.reply) > 0 {
		n := copy(p, c.reply)
		c.reply = c.reply[n:]
		return n, nil
	}
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
