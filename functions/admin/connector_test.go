package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
	"tidegate/web/static"
)

const unreachable = "10.1.2.3:6379"

// fixture is a function with a clock that the test sets, and a Valkey that can be
// unavailable.
type fixture struct {
	*connector
	server      *miniredis.Miniredis
	unavailable bool
	clock       time.Time
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{server: miniredis.RunT(t), clock: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)}
	c, err := readConfig(environment("VALKEY_URL=valkey://"+f.server.Addr(), "CHANGES_LOG="+t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	if f.connector, err = newConnector(c, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	open := f.open
	f.open = func(ctx context.Context) (site, error) {
		if f.unavailable {
			return site{}, errors.New("dial tcp " + unreachable + ": connection refused")
		}
		return open(ctx)
	}
	f.now = func() time.Time { return f.clock }
	return f
}

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "https://"+host+path, nil))
	return w
}

// A function that starts while Valkey is unavailable serves error pages, and connects
// when Valkey is available again.
func TestStoreUnavailableAtTheStart(t *testing.T) {
	f := newFixture(t)
	f.unavailable = true
	for _, path := range []string{"/", "/keys", "/login", "/login/oidc", "/nothing", "/api/v1/me"} {
		w := get(f, path)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" ||
			w.Header().Get("Content-Security-Policy") == "" {
			t.Errorf("%s: got %d %v, want 503 with Retry-After and a policy", path, w.Code, w.Header())
		}
		if strings.Contains(w.Body.String(), unreachable) {
			t.Errorf("%s: the page has the cause: %s", path, w.Body)
		}
	}
	style := "/static/" + static.Load().Style
	for path, want := range map[string]int{"/healthz": 503, "/healthz/live": 200, style: 200} {
		if w := get(f, path); w.Code != want {
			t.Errorf("%s: got %d, want %d", path, w.Code, want)
		}
	}
	f.unavailable = false
	if w := get(f, "/login"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("within retryPause: got %d, want 503", w.Code)
	}
	f.clock = f.clock.Add(retryPause)
	for path, want := range map[string]int{"/login": 200, "/healthz": 200, "/keys": 303} {
		if w := get(f, path); w.Code != want {
			t.Errorf("%s with Valkey available: got %d, want %d", path, w.Code, want)
		}
	}
}

// The first request succeeds even if logging in to Valkey takes longer than storeTimeout,
// on one node and on a cluster.
func TestSlowLogIn(t *testing.T) {
	for name, proxies := range map[string][]*valkeytest.Proxy{
		"node":    {valkeytest.StartProxy(t, valkeytest.Start(t), nil)},
		"cluster": valkeytest.StartProxiedCluster(t, 3),
	} {
		for _, p := range proxies {
			p.DelayFirstReplies(storeTimeout * 3 / 2)
		}
		url := "VALKEY_URL=" + proxies[0].URL()
		if name == "cluster" {
			url += "?cluster=true"
		}
		c, err := readConfig(environment(url, "CHANGES_LOG="+t.TempDir(), "VALKEY_CONNECT_TIMEOUT=8s"))
		if err != nil {
			t.Fatal(err)
		}
		handler, err := newConnector(c, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]int{"/login": 200, "/keys": 303} {
			if w := get(handler, path); w.Code != want {
				t.Errorf("%s: %s: got %d, want %d", name, path, w.Code, want)
			}
		}
	}
}

// A request that waits for an attempt of another request makes its own if that one fails.
func TestAttemptFailsWhileARequestWaits(t *testing.T) {
	f := newFixture(t)
	open := f.open
	began, fails := make(chan struct{}), make(chan struct{})
	f.open = func(context.Context) (site, error) {
		close(began)
		<-fails
		return site{}, errors.New("the connection was lost in a freeze")
	}
	first := make(chan int)
	go func() { first <- get(f, "/login").Code }()
	waiting.For(t, "the first attempt", began)
	f.open = open // for later attempts
	second := make(chan int)
	go func() { second <- get(f, "/login").Code }()
	close(fails)
	if code := waiting.For(t, "the first answer", first); code != http.StatusServiceUnavailable {
		t.Errorf("the request that began the attempt: got %d, want 503", code)
	}
	code := waiting.For(t, "the second answer", second)
	if code == http.StatusServiceUnavailable { // it began after the attempt failed
		f.clock = f.clock.Add(retryPause)
		code = get(f, "/login").Code
	}
	if code != http.StatusOK {
		t.Errorf("the next request: got %d, want 200", code)
	}
}

// A failed attempt that began before a freeze does not keep the first request from
// connecting.
func TestAttemptFailsInAFreeze(t *testing.T) {
	f := newFixture(t)
	open := f.open
	thawed := make(chan struct{})
	f.open = func(context.Context) (site, error) {
		<-thawed
		return site{}, errors.New("the connection was lost in a freeze")
	}
	a, _ := f.connect(t.Context(), false) // at the start of the environment
	f.clock = f.clock.Add(time.Minute)
	close(thawed)
	waiting.For(t, "the end of the attempt", a.done)
	f.open = open
	if w := get(f, "/login"); w.Code != http.StatusOK {
		t.Errorf("the first request after the freeze: got %d, want 200", w.Code)
	}
}

// If Valkey becomes unavailable later, /healthz reports it, and recovers with Valkey.
func TestStoreUnavailableLater(t *testing.T) {
	f := newFixture(t)
	if w := get(f, "/healthz"); w.Code != http.StatusOK {
		t.Fatalf("at first: got %d, want 200", w.Code)
	}
	f.server.SetError("ERR out of order")
	if w := get(f, "/healthz"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("without Valkey: got %d, want 503", w.Code)
	}
	f.server.SetError("")
	if w := get(f, "/healthz"); w.Code != http.StatusOK {
		t.Errorf("afterwards: got %d, want 200", w.Code)
	}
}
