//go:build linux

package crashes

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"
)

// killPoint is a request of an environment to Valkey or S3 at which the environment ends:
// before the request arrives, or once its answer arrives.
type killPoint struct {
	request int // from 1; 0 for never
	after   bool
}

// gates are the proxies between one environment and the servers that it uses.
type gates struct {
	mu       sync.Mutex
	point    killPoint
	faults   storeFaults
	requests int // requests since the last arm
}

// storeFaults are the faults of the journal's store. The zero value has none.
type storeFaults struct {
	refused     int           // answers that are 503 SlowDown
	lost        int           // requests that take effect but get no answer
	unavailable bool          // the store does not answer
	delay       time.Duration // of each answer
}

// arm makes the environment end at a killPoint; the zero killPoint means never.
func (g *gates) arm(m killPoint) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.point, g.requests = m, 0
}

// setFaults sets the faults of the journal's store; the zero value ends them.
func (g *gates) setFaults(f storeFaults) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faults = f
}

// currentFaults returns the store's faults.
func (g *gates) currentFaults() storeFaults {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.faults
}

// next returns the faults of the store's next request, and counts them down.
func (g *gates) next() storeFaults {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.faults
	switch {
	case now.refused > 0:
		g.faults.refused--
	case now.lost > 0:
		g.faults.lost--
	}
	return now
}

// pass counts a request, and reports whether the environment ends before or after it.
func (g *gates) pass() (before, after bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests++
	hit := g.point.request == g.requests
	return hit && !g.point.after, hit && g.point.after
}

// startS3 starts a proxy to an S3 server and returns its URL. end kills the environment.
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
		case now.unavailable:
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

// wait waits for the delay of an answer, or until ctx ends.
func (f storeFaults) wait(ctx context.Context) {
	if f.delay == 0 {
		return
	}
	slow := time.NewTimer(f.delay)
	defer slow.Stop()
	select {
	case <-slow.C:
	case <-ctx.Done():
	}
}
