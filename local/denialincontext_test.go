//go:build unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/akrylysov/algnhsa"

	"tidegate/internal/testing/valkeytest"
	"tidegate/local/gateway"
	"tidegate/web/middleware"
)

// An HTTP API whose authorizer puts denials into the context, and whose backend runs the
// middleware, answers 429 over the limit. An unknown caller gets the API's own 403, and a
// backend without an authorizer serves no call.
func TestDenialsInTheContextOfAnHTTPAPI(t *testing.T) {
	f := startCheck(t, valkeytest.Start(t), map[string]string{"HTTP_API_DENY": "context"})
	_, secret := f.newKey(t)
	m := middleware.Middleware{Source: authorizerContext}
	backend := algnhsa.New(m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, _ := middleware.FromContext(r.Context())
		_, _ = fmt.Fprintf(w, "hello %s", d.KeyName)
	})), &algnhsa.Options{RequestType: algnhsa.RequestTypeAPIGatewayV2})
	api := httptest.NewServer(&gateway.HTTP{Authorizer: f, Simple: true, Integration: backend})
	t.Cleanup(api.Close)
	open := httptest.NewServer(&gateway.HTTP{Integration: backend})
	t.Cleanup(open.Close)

	for i, want := range []int{200, 200, 429} {
		status, header, body := request(t, api.URL+"/orders", "X-Api-Key", secret.Reveal())
		policies := `"2 per 1 hour";q=2;w=3600`
		if want == http.StatusOK { // a denial by the caller's own limits asks no shared limit
			policies += `, "ip 100 per 1 hour";q=100;w=3600`
		}
		if status != want || header.Get("RateLimit-Policy") != policies {
			t.Errorf("call %d: %d %s %s", i+1, status, header, body)
		}
		if denied := want == 429; (header.Get("Retry-After") != "") != denied ||
			(header.Get("Content-Type") == "application/problem+json") != denied {
			t.Errorf("call %d: %s %s", i+1, header, body)
		}
	}
	if status, _, body := request(t, api.URL+"/orders", "X-Api-Key",
		secret.Reveal()+"x"); status != http.StatusForbidden {
		t.Errorf("a bad key: %d %s", status, body)
	}
	if status, _, body := request(t, open.URL+"/orders", "X-Api-Key",
		secret.Reveal()); status != http.StatusInternalServerError {
		t.Errorf("without an authorizer: %d %s", status, body)
	}
}

// With -http-deny context the command answers 429 on both APIs.
func TestRunWithDenialsInTheContext(t *testing.T) {
	_, _, statuses, _ := twelveCallsTo(t, "http", []string{"-http-deny", "context"})
	if want := slices.Concat(slices.Repeat([]int{200}, 10), []int{429, 429}); !slices.Equal(statuses, want) {
		t.Fatalf("statuses %v, want %v", statuses, want)
	}
}
