//go:build unix

package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/testing/valkeytest"
	"tidegate/local/echo"
	"tidegate/local/gateway"
)

// A HEAD call through each kind of API has the cost of the rule for GET, so calls of both
// methods share the limit.
func TestHeadPaysWhatGetCosts(t *testing.T) {
	f := startCheck(t, valkeytest.Start(t), nil)
	set, err := f.store.Set(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	set.Plans[0].Limits = []limiter.Limit{{Requests: 50, Window: time.Hour}}
	set.PerIP = policy.Scope{}
	set.Routes = []policy.Route{
		{Name: "rest", Cost: 1, Pattern: route.Pattern{Method: "ANY", Path: "/{proxy+}"}},
		{Name: "report", Cost: 50, Pattern: route.Pattern{Method: "GET", Path: "/report"}},
	}
	if _, err := f.store.SaveSet(t.Context(), *set, byTest); err != nil {
		t.Fatal(err)
	}
	for name, api := range map[string]struct {
		handler http.Handler
		header  string
	}{
		"REST": {&gateway.REST{Authorizer: f, Integration: echo.Backend{}}, "X-Api-Key"},
		"REST, a token": {&gateway.REST{Authorizer: f, Integration: echo.Backend{}, Token: true},
			"Authorization"},
		"HTTP 1.0": {&gateway.HTTP{Authorizer: f, Integration: echo.Backend{},
			Format: gateway.Format1}, "X-Api-Key"},
		"HTTP 2.0": {&gateway.HTTP{Authorizer: f, Integration: echo.Backend{}, Simple: true}, "X-Api-Key"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(api.handler)
			t.Cleanup(server.Close)
			for _, first := range []string{http.MethodGet, http.MethodHead} {
				_, secret := f.newKey(t)
				for i, method := range []string{first, http.MethodHead, http.MethodGet, http.MethodHead} {
					want := http.StatusForbidden // these gateways do not map denials to 429
					if i == 0 {
						want = http.StatusOK
					}
					if got := statusOf(t, method, server.URL+"/report", api.header,
						secret.Reveal()); got != want {
						t.Errorf("after %s, call %d, %s: %d, want %d", first, i+1, method, got, want)
					}
				}
			}
		})
	}
}

func statusOf(t *testing.T, method, url, header, value string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(header, value)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}
