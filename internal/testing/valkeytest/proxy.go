package valkeytest

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// Proxy passes data between clients and a server, such as Valkey or S3, and injects faults
// on request.
type Proxy struct {
	listener net.Listener
	target   string
	ended    chan struct{}

	mu     sync.Mutex
	closed bool
	links  map[*link]bool
	made   int           // connections so far
	delay  time.Duration // of the first reply of each connection
	word   []byte        // in the requests whose replies are dropped
	drops  int           // replies still to drop
	admit  func(login []byte) bool
	ends   func() (before, after bool)
	end    func()
	fault  Fault
	// changed is closed when the fault changes.
	changed chan struct{}
}

// Fault harms every connection of a Proxy. The zero value harms none.
type Fault struct {
	Delay  time.Duration // of each reply, shorter or longer by up to Jitter
	Jitter time.Duration
	// Rate is the number of bytes of replies in a second; 0 for no bound.
	Rate   int
	Silent bool // replies arrive when the fault ends, as after lost packets
	Reset  bool // replies are replaced by an RST
	Refuse bool // requests end their connection
}

// link is one connection through the proxy.
type link struct {
	client, server net.Conn
	replied        bool
	silent, drop   bool
	ends           bool // with the next reply
}

// StartProxy starts a proxy to the server at url. With secure, its clients use TLS.
func StartProxy(t testing.TB, url string, secure *tls.Config) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("start proxy: %v", err)
	}
	if secure != nil {
		listener = tls.NewListener(listener, secure)
	}
	p := &Proxy{listener: listener, target: strings.TrimPrefix(url, "valkey://"), ended: make(chan struct{}),
		links: map[*link]bool{}, changed: make(chan struct{})}
	var running sync.WaitGroup
	running.Go(func() { p.accept(&running) })
	t.Cleanup(func() {
		p.close()
		running.Wait()
	})
	return p
}

// StartSilent starts a server that accepts connections and never replies, and returns its
// URL.
func StartSilent(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("start silent server: %v", err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return "valkey://" + listener.Addr().String()
}

// Address returns HOST:PORT.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// URL returns valkey://HOST:PORT.
func (p *Proxy) URL() string { return "valkey://" + p.Address() }

// Silence stops all data on the connections that are open now, and leaves them open. New
// connections work.
func (p *Proxy) Silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.silent = true
	}
}

// DropReplies drops the replies to the next n requests that contain the word. It forwards
// the request, and closes the connection when the reply comes.
func (p *Proxy) DropReplies(word string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.word, p.drops = []byte(word), n
}

// Admit makes the proxy ask admit about each request that logs in. It answers WRONGPASS to
// those for which admit returns false, and closes their connections.
func (p *Proxy) Admit(admit func(login []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.admit = admit
}

// EndClient makes the proxy ask at each request whether the client ends: before the request
// arrives, or once its reply arrives. Then it calls end, and closes the connection.
func (p *Proxy) EndClient(ends func() (before, after bool), end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ends, p.end = ends, end
}

// SetFault replaces the fault. Replies that the last one holds back go on at once.
func (p *Proxy) SetFault(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	close(p.changed)
	p.changed = make(chan struct{})
}

// Redirect makes new connections reach the server at url, as the name of a primary does
// after a failover.
func (p *Proxy) Redirect(url string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = strings.TrimPrefix(url, "valkey://")
}

// DelayFirstReplies delays the first reply of every connection, as a slow log-in does.
func (p *Proxy) DelayFirstReplies(delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = delay
}

// Connections returns how many clients have connected so far.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made
}

// Cut closes the connections that are open now. New connections work.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
}

func (p *Proxy) accept(running *sync.WaitGroup) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target := p.target
		p.mu.Unlock()
		server, err := net.Dial("tcp", target)
		if err != nil {
			_ = client.Close() // the client sees a closed connection
			continue
		}
		if l := (&link{client: client, server: server}); p.add(l) {
			running.Go(func() { p.pass(l, client, server, p.request) })
			running.Go(func() { p.pass(l, server, client, p.reply) })
		}
	}
}

// add returns false, and closes the link, if the proxy is closed.
func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		l.close()
		return false
	}
	p.links[l] = true
	p.made++
	return true
}

var (
	errDropped  = errors.New("the reply is dropped")
	errRejected = errors.New("the login is rejected")
	errEnded    = errors.New("the client ends")
	errRefused  = errors.New("the connection is refused")
	errReset    = errors.New("the connection is reset")
)

// pass copies the data that inspect returns from one side to the other. It ends the link
// at the first error.
func (p *Proxy) pass(l *link, from io.Reader, to io.Writer, inspect func(*link, []byte) ([]byte, error)) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err == nil {
			var data []byte
			if data, err = inspect(l, buffer[:n]); err == nil {
				_, err = to.Write(data)
			}
		}
		if err != nil {
			p.mu.Lock()
			delete(p.links, l)
			p.mu.Unlock()
			l.close()
			return
		}
	}
}

func (p *Proxy) request(l *link, data []byte) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case l.silent:
		return nil, nil
	case p.fault.Refuse:
		return nil, errRefused
	}
	if p.admit != nil && bytes.Contains(data, []byte("AUTH")) && !p.admit(data) {
		_, _ = l.client.Write([]byte("-WRONGPASS invalid username-password pair\r\n")) // the link ends
		return nil, errRejected
	}
	if p.ends != nil {
		before, after := p.ends()
		if before {
			p.end()
			return nil, errEnded
		}
		l.ends = l.ends || after
	}
	if p.drops > 0 && bytes.Contains(data, p.word) {
		p.drops--
		l.drop = true
	}
	return data, nil
}

func (p *Proxy) reply(l *link, data []byte) ([]byte, error) {
	p.awaitDelay(l, len(data))
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case l.silent:
		return nil, nil
	case p.fault.Reset:
		reset(l.client)
		return nil, errReset
	case l.drop:
		return nil, errDropped
	case l.ends:
		p.end()
		return nil, errEnded
	}
	return data, nil
}

// reset makes the end of a connection an RST.
func reset(c net.Conn) {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	if plain, ok := c.(*net.TCPConn); ok {
		_ = plain.SetLinger(0) // it may be closed already
	}
}

// awaitDelay waits until a reply of n bytes may pass.
func (p *Proxy) awaitDelay(l *link, n int) {
	p.mu.Lock()
	f, changed := p.fault, p.changed
	delay := f.Delay
	if f.Jitter > 0 {
		delay += time.Duration(rand.Int64N(int64(2*f.Jitter))) - f.Jitter //nolint:gosec // only delays
	}
	if f.Rate > 0 {
		delay += time.Duration(n) * time.Second / time.Duration(f.Rate)
	}
	if !l.replied {
		delay += p.delay
	}
	l.replied = true
	p.mu.Unlock()
	if f.Silent {
		delay = math.MaxInt64
	}
	if delay <= 0 {
		return
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-p.ended:
	}
}

func (p *Proxy) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	close(p.ended)
	_ = p.listener.Close()
	for l := range p.links {
		l.close()
	}
}

func (l *link) close() {
	_ = l.client.Close() // either side may be closed already
	_ = l.server.Close()
}
