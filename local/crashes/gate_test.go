//go:build linux

package crashes

import (
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
	end func() // kills the environment

	mu      sync.Mutex
	left    moment
	refused int           // answers of S3 that are 503 SlowDown
	away    bool          // S3 does not answer
	delay   time.Duration // of each answer of S3
	asked   int           // requests since the last arm
}

// arm ends the environment at a moment. Without one it ends at none.
func (g *gates) arm(m moment) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left, g.asked = m, 0
}

// trouble breaks S3, and without any heals it.
func (g *gates) trouble(refused int, away bool, delay time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused, g.away, g.delay = refused, away, delay
}

// pass counts a request and tells whether the environment ends before it or after it.
func (g *gates) pass() (before, after bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked++
	hit := g.left.request == g.asked
	return hit && !g.left.after, hit && g.left.after
}

// startS3 returns the address of a gate to an S3 server.
func (g *gates) startS3(t *testing.T, target string) string {
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
			g.end()
			panic(http.ErrAbortHandler)
		}
		if g.broken(w, r) {
			return
		}
		if after {
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			g.end()
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// broken answers in the place of S3 when that is to be broken.
func (g *gates) broken(w http.ResponseWriter, r *http.Request) bool {
	g.mu.Lock()
	away, refused, delay := g.away, g.refused > 0, g.delay
	if refused {
		g.refused--
	}
	g.mu.Unlock()
	switch {
	case away:
		panic(http.ErrAbortHandler)
	case refused:
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "<Error><Code>SlowDown</Code><Message>Slow down.</Message></Error>")
		return true
	case delay > 0:
		select {
		case <-time.After(delay):
		case <-r.Context().Done():
		}
	}
	return false
}

// startValkey returns the address of a gate to a Valkey.
func (g *gates) startValkey(t *testing.T, target string) string {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { g.link(client, strings.TrimPrefix(target, "valkey://")) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close() // which ends the loop
		g.end()
		running.Wait()
	})
	return "valkey://" + listener.Addr().String()
}

// link passes on one connection, a chunk at a time: an environment sends no more before
// it has read the answer.
func (g *gates) link(client net.Conn, target string) {
	server, err := net.Dial("tcp", target)
	if err != nil {
		_ = client.Close() // so that it sees the failure
		return
	}
	ending := make(chan struct{})
	var both sync.WaitGroup
	both.Go(func() { // the answers
		_, _ = io.Copy(client, &answers{server, ending, g.end})
		_ = client.Close() // which ends the other direction
	})
	buffer := make([]byte, 1<<20)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			break
		}
		before, after := g.pass()
		if before {
			g.end()
			break
		}
		if after {
			close(ending)
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
