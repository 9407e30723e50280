//go:build linux

package crashes

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// moment is where an environment ends: before a request of its own reaches Valkey or S3,
// or when the answer comes.
type moment struct {
	request int // from 1; 0 for never
	after   bool
}

// gates stand between one environment and the servers that it asks.
type gates struct {
	mu      sync.Mutex
	left    moment
	instead func() // what happens at the moment instead of the environment's end; may be nil
	trouble trouble
	asked   int // requests since the last arm
}

// trouble is what is wrong with the journal's store. The zero value is nothing.
type trouble struct {
	refused int           // answers that are 503 SlowDown
	lost    int           // requests that are done and not answered
	away    bool          // it does not answer
	delay   time.Duration // of each answer
}

// arm ends the environment at a moment. Without one it ends at none.
func (g *gates) arm(m moment) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left, g.instead, g.asked = m, nil, 0
}

// armWith has something else than the environment's end happen at a moment.
func (g *gates) armWith(m moment, what func()) {
	g.arm(m)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.instead = what
}

// strike makes happen what is to happen at the moment.
func (g *gates) strike(end func()) {
	g.mu.Lock()
	what := g.instead
	g.mu.Unlock()
	if what == nil {
		what = end
	}
	what()
}

// breakStore breaks the journal's store, and without any trouble heals it.
func (g *gates) breakStore(how trouble) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trouble = how
}

// troubled returns what is wrong now.
func (g *gates) troubled() trouble {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.trouble
}

// next returns what is wrong with the next request of the store.
func (g *gates) next() trouble {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.trouble
	switch {
	case now.refused > 0:
		g.trouble.refused--
	case now.lost > 0:
		g.trouble.lost--
	}
	return now
}

// pass counts a request and says whether the environment ends before it or after it.
func (g *gates) pass() (before, after bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked++
	hit := g.left.request == g.asked
	return hit && !g.left.after, hit && g.left.after
}

// startS3 returns the address of a gate to an S3 server. end kills the environment.
func (g *gates) startS3(t *testing.T, target string, end func()) string {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = u.Scheme, u.Host },
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		before, after := g.pass()
		if before {
			end()
			panic(http.ErrAbortHandler)
		}
		switch now := g.next(); {
		case now.away:
			panic(http.ErrAbortHandler)
		case now.refused > 0:
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "<Error><Code>SlowDown</Code><Message>Slow down.</Message></Error>")
			return
		case now.lost > 0:
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		default:
			now.wait(r.Context())
		}
		if after {
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			end()
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// wait is the delay of an answer.
func (t trouble) wait(ctx context.Context) {
	if t.delay == 0 {
		return
	}
	slow := time.NewTimer(t.delay)
	defer slow.Stop()
	select {
	case <-slow.C:
	case <-ctx.Done():
	}
}

// valkeyGate stands between an environment and a Valkey until it is closed.
type valkeyGate struct {
	*gates
	target   func() string // the Valkey's URL, which a failover changes
	end      func()        // kills the environment
	listener net.Listener
	running  sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]bool
	closed bool
}

// startValkey starts a gate. end kills the environment.
func (g *gates) startValkey(target func() string, end func()) (*valkeyGate, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	v := &valkeyGate{gates: g, target: target, end: end, listener: listener, open: map[net.Conn]bool{}}
	v.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			v.running.Go(func() { v.link(client) })
		}
	})
	return v, nil
}

func (v *valkeyGate) url() string { return "valkey://" + v.listener.Addr().String() }

// close ends every connection. Nothing that a client sends from then on arrives.
func (v *valkeyGate) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
	_ = v.listener.Close() // it was closed, or ends the loop
	for c := range v.open {
		_ = c.Close() // either side may have closed it
	}
}

// keep notes connections that close is to end. It reports false when the gate is closed.
func (v *valkeyGate) keep(connections ...net.Conn) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range connections {
		if v.closed {
			_ = c.Close() // nobody used it
			continue
		}
		v.open[c] = true
	}
	return !v.closed
}

func (v *valkeyGate) forget(connections ...net.Conn) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range connections {
		delete(v.open, c)
	}
}

func (v *valkeyGate) over() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.closed
}

// link passes on one connection, a chunk at a time: an environment sends no more before
// it has read the answer.
func (v *valkeyGate) link(client net.Conn) {
	server, err := net.Dial("tcp", strings.TrimPrefix(v.target(), "valkey://"))
	if err != nil {
		_ = client.Close() // so that it sees the failure
		return
	}
	if !v.keep(client, server) {
		return
	}
	defer v.forget(client, server)
	ending := make(chan struct{})
	var both sync.WaitGroup
	both.Go(func() { // the answers
		_, _ = io.Copy(client, &answers{server, ending, func() { v.strike(v.end) }})
		_ = client.Close() // which ends the other direction
	})
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			break
		}
		before, after := v.pass()
		if before {
			v.strike(v.end)
			break
		}
		if after {
			close(ending)
		}
		if v.over() {
			break
		}
		if _, err := server.Write(buffer[:n]); err != nil || after {
			break
		}
	}
	select {
	case <-ending: // the answer ends it
	default:
		_ = server.Close() // which ends the answers
	}
	both.Wait()
	_ = server.Close() // again, after ending
}

// answers are those of a server, up to the one at which the environment ends.
type answers struct {
	server net.Conn
	ending chan struct{}
	end    func()
}

func (a *answers) Read(buffer []byte) (int, error) {
	n, err := a.server.Read(buffer)
	select {
	case <-a.ending:
		a.end()
		return 0, io.EOF
	default:
		return n, err
	}
}
