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
)

const unreachable = "10.1.2.3:6379"

// fixture is a function on a clock that a test moves, and a store that can be out of reach.
type fixture struct {
	*connector
	server *miniredis.Miniredis
	away   bool
	clock  time.Time
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{server: miniredis.RunT(t), clock: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)}
	c, err := readConfig(environment("VALKEY_URL=valkey://" + f.server.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	if f.connector, err = newConnector(c, testBundle(), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	reach := f.open
	f.open = func(ctx context.Context) (http.Handler, error) {
		if f.away {
			return nil, errors.New("dial tcp " + unreachable + ": connection refused")
		}
		return reach(ctx)
	}
	f.now = func() time.Time { return f.clock }
	return f
}

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "https://"+host+path, nil))
	return w
}

// A function that starts while the store is away says so, with its own look, and works as soon as the store is back.
func TestStoreAwayAtTheStart(t *testing.T) {
	f := newFixture(t)
	f.away = true
	for _, path := range []string{"/", "/keys", "/login", "/login/oidc", "/nothing", "/api/v1/me"} {
		w := get(f, path)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || w.Header().Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
		if strings.Contains(w.Body.String(), unreachable) {
			t.Errorf("%s says too much: %s", path, w.Body)
		}
	}
	for path, want := range map[string]int{"/healthz": 503, "/healthz/live": 200, "/static/s.css": 200} {
		if w := get(f, path); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
	f.away = false
	if w := get(f, "/login"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("tried again at once: %d", w.Code)
	}
	f.clock = f.clock.Add(retryPause)
	for path, want := range map[string]int{"/login": 200, "/healthz": 200, "/keys": 303} {
		if w := get(f, path); w.Code != want {
			t.Errorf("%s: %d after the store came back, want %d", path, w.Code, want)
		}
	}
}

// A store that goes away later is an error page too, and is found again by itself.
func TestStoreAwayLater(t *testing.T) {
	f := newFixture(t)
	if w := get(f, "/healthz"); w.Code != http.StatusOK {
		t.Fatalf("at first: %d", w.Code)
	}
	f.server.SetError("ERR out of order")
	if w := get(f, "/healthz"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("without the store: %d", w.Code)
	}
	f.server.SetError("")
	if w := get(f, "/healthz"); w.Code != http.StatusOK {
		t.Errorf("afterwards: %d", w.Code)
	}
}
