//go:build unix

package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/akrylysov/algnhsa"

	"tidegate/functions/admin/auth/token"
	"tidegate/internal/policy"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
	"tidegate/local/gateway"
	"tidegate/web/middleware"
)

// reports is a backend whose calls wait for the status to answer.
type reports struct {
	began chan struct{}
	end   chan int
}

// ServeHTTP writes a report for an admitted call.
func (b reports) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() { // at the beginning of the handler
		if _, err := middleware.Settle(r.Context(), 0); err != nil {
			slog.WarnContext(r.Context(), "the call counts as in flight for 10 minutes", "cause", err)
		}
	}()
	b.began <- struct{}{}
	w.WriteHeader(<-b.end)
}

// The policy of docs/backends.md admits two calls in flight. When a call ends, even
// with an error, it gives back what it took.
func TestCallsInFlight(t *testing.T) {
	url := valkeytest.Start(t)
	f := startCheck(t, url, map[string]string{"HTTP_API_DENY": "context"})
	admin := startAdmin(t, buildAdmin(t), map[string]string{"VALKEY_URL": url, "CHANGES_LOG": f.data})
	imported := admin.send(t, http.MethodPut, "/api/v1/policy.yaml?reason=reports&accept=true",
		documentedPolicy(t), "Content-Type", "application/yaml", "If-Match", "*",
		"Authorization", admin.token(t))
	if imported.status != http.StatusOK {
		t.Fatalf("%d %s", imported.status, imported.body)
	}
	_, secret := registrytest.Create(t, f.store, byTest,
		policy.NewKey{Name: "a key", Env: "test", Plan: "reports"})

	backend := reports{make(chan struct{}), make(chan int)}
	limits := middleware.Middleware{Source: authorizerContext,
		Settler: &middleware.Settler{URL: admin.url, Token: admin.machineToken(t, token.Settle)}}
	api := httptest.NewServer(&gateway.HTTP{Authorizer: f, Simple: true, Integration: algnhsa.New(
		limits.Wrap(backend), &algnhsa.Options{RequestType: algnhsa.RequestTypeAPIGatewayV2})})
	t.Cleanup(api.Close)

	answers := make(chan reply)
	call := func() {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, api.URL+"/report", http.NoBody)
		r.Header.Set("X-Api-Key", secret.Reveal())
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Error(err)
			answers <- reply{}
			return
		}
		_ = response.Body.Close()
		answers <- reply{status: response.StatusCode, header: response.Header}
	}
	begins := func() { go call(); waiting.For(t, "a call to begin", backend.began) }
	denied := func() {
		go call()
		got := waiting.For(t, "a denial", answers)
		wait, _ := strconv.Atoi(got.header.Get("Retry-After"))
		if got.status != http.StatusTooManyRequests || wait < 1 || wait > 600 {
			t.Errorf("a third call: got %d %v, want 429 and a wait of 1 to 600 s", got.status, got.header)
		}
	}
	ends := func(status int) reply {
		backend.end <- status
		got := waiting.For(t, "a call to end", answers)
		if got.status != status {
			t.Errorf("%d %v, want %d", got.status, got.header, status)
		}
		return got
	}
	begins()
	begins()
	denied()
	ends(http.StatusNoContent)
	begins()
	denied()
	ends(http.StatusInternalServerError)
	ends(http.StatusNoContent)
	begins()
	field := ends(http.StatusNoContent).header.Get("RateLimit")
	for _, left := range []string{`"2 at once on report";r=1`, `"1,000 per hour";r=999;`} {
		if !strings.Contains(field, left) {
			t.Errorf("one call in flight: got %s, want %s", field, left)
		}
	}
}

// documentedPolicy returns the policy of docs/backends.md.
func documentedPolicy(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../docs/backends.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, found := strings.Cut(string(page), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	if !found {
		t.Fatal("docs/backends.md has no policy")
	}
	return example
}
