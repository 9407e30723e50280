//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/akrylysov/algnhsa"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
	"tidegate/local/echo"
	"tidegate/local/gateway"
	"tidegate/web/middleware"
)

// answer is a client's response.
type answer struct {
	status int
	header http.Header
	body   string
}

// caller makes calls over connections that it keeps, as a client in production does.
type caller struct {
	t      *testing.T
	client *http.Client
}

func newCaller(t *testing.T, connections int) caller {
	transport := &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections}
	t.Cleanup(transport.CloseIdleConnections)
	return caller{t, &http.Client{Transport: transport}}
}

func (c caller) get(url, key string) answer {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		c.t.Error(err)
		return answer{}
	}
	if key != "" {
		r.Header.Set("X-Api-Key", key)
	}
	response, err := c.client.Do(r)
	if err != nil {
		c.t.Error(err)
		return answer{}
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Error(err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

// wait waits for d.
func wait(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

// twelveCalls is twelveCallsTo with the REST API.
func twelveCalls(t *testing.T, flags []string) (p *program, c caller, statuses []int, last answer) {
	t.Helper()
	return twelveCallsTo(t, "rest", flags)
}

// twelveCallsTo makes 12 calls to an API within one window. If the machine stalls for
// most of it, twelveCallsTo starts again.
func twelveCallsTo(t *testing.T, api string, flags []string) (p *program, c caller, statuses []int,
	last answer) {
	t.Helper()
	waiting.Until(t, "12 calls within one window", func() bool {
		p, c, statuses = start(t, flags...), newCaller(t, 1), nil
		began := time.Now()
		for range 12 {
			last = c.get(p.url(api)+"/orders", p.key("free"))
			statuses = append(statuses, last.status)
		}
		return time.Since(began) < 9*time.Second
	})
	return p, c, statuses, last
}

// Of 12 calls in a row with the free key ten are allowed and two denied. Waiting exactly
// for Retry-After is enough.
func TestTwelveCalls(t *testing.T) {
	for name, flags := range map[string][]string{"embedded": nil,
		"valkey": {"-valkey", valkeytest.Start(t), "-data", t.TempDir()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, c, statuses, last := twelveCalls(t, flags)
			if want := slices.Concat(slices.Repeat([]int{200}, 10),
				[]int{429, 429}); !slices.Equal(statuses, want) {
				t.Fatalf("statuses %v, want %v", statuses, want)
			}
			seconds := checkDenied(t, last, "10 per 10 seconds", 10, 10)
			wait(t, time.Duration(seconds)*time.Second)
			if a := c.get(p.url("rest")+"/orders", p.key("free")); a.status != http.StatusOK {
				t.Errorf("after waiting %d s: %d %s", seconds, a.status, a.body)
			}
		})
	}
}

// checkDenied checks a REST API's answer to a call over a limit, and returns its
// Retry-After.
func checkDenied(t *testing.T, a answer, name string, requests, window int) int {
	t.Helper()
	seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
	if err != nil || seconds < 1 || seconds > window {
		t.Fatalf("Retry-After %q, want 1 to %d", a.header.Get("Retry-After"), window)
	}
	for header, want := range map[string]string{
		"RateLimit": strconv.Quote(name) + ";r=0;t=" + strconv.Itoa(seconds),
		"RateLimit-Policy": strconv.Quote(name) + ";q=" + strconv.Itoa(requests) + ";w=" +
			strconv.Itoa(window),
		"Content-Type": "application/problem+json",
	} {
		if got := a.header.Get(header); got != want {
			t.Errorf("%s is %q, want %q", header, got, want)
		}
	}
	var problem struct {
		Type, Title, Detail string
		Status              int
		Violated            []string `json:"violated-policies"`
	}
	if err := json.Unmarshal([]byte(a.body), &problem); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
	if problem.Type != "https://iana.org/assignments/http-problem-types#quota-exceeded" ||
		problem.Status != http.StatusTooManyRequests ||
		!slices.Equal(problem.Violated, []string{name}) ||
		!strings.Contains(problem.Detail, a.header.Get("Retry-After")+" second") {
		t.Errorf("problem document %+v is wrong for the limit %s", problem, name)
	}
	return seconds
}

// The backend gets the decision on an allowed call, and the answer has RateLimit fields.
func TestAllowedCallCarriesTheDecision(t *testing.T) {
	p, c := start(t), newCaller(t, 1)
	a := c.get(p.url("rest")+"/orders", p.key("pro"))
	var echo struct {
		Authorizer map[string]string `json:"authorizer"`
	}
	if err := json.Unmarshal([]byte(a.body), &echo); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
	if got := echo.Authorizer; got["plan"] != "pro" || got["remaining"] == "" ||
		got["keyId"] != got["principalId"] || got["policyVersion"] != "2" {
		t.Errorf("authorizer context %v", got)
	}
	if want := `"100 per 10 seconds";r=99;t=10, "1,000 per 10 minutes";r=999;t=600`; a.header.Get(
		"RateLimit") != want {
		t.Errorf("RateLimit %s, want %s", a.header.Get("RateLimit"), want)
	}
}

// Both APIs count a key's calls against one limit.
func TestAPIsShareTheLimit(t *testing.T) {
	p, c := start(t), newCaller(t, 1)
	for i := range 10 {
		url := p.url("rest")
		if i%2 == 1 {
			url = p.url("http")
		}
		if a := c.get(url+"/x", p.key("free")); a.status != http.StatusOK {
			t.Fatalf("call %d: %+v", i, a)
		}
	}
	if a := c.get(p.url("http")+"/x", p.key("free")); a.status != http.StatusForbidden {
		t.Errorf("call 11 on the HTTP API: %+v", a)
	}
	if a := c.get(p.url("rest")+"/x", p.key("free")); a.status != http.StatusTooManyRequests {
		t.Errorf("call 12 on the REST API: %+v", a)
	}
}

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
		policies := `"2 per hour";q=2;w=3600`
		if want == http.StatusOK { // a call over the caller's own limits skips shared limits
			policies += `, "100 per hour each address";q=100;w=3600`
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

// A HEAD call has the cost of the route for GET in each kind of API, so calls of both
// methods share the limit.
func TestHeadCostsAsMuchAsGet(t *testing.T) {
	f := startCheck(t, valkeytest.Start(t), nil)
	registrytest.Save(t, f.store, byTest, func(set *policy.Set) {
		set.Plans[0].Limits = registrytest.Limits("50 per hour")
		set.Limits = nil
		set.Routes = []limits.Route{
			{Name: "rest", Match: []route.Pattern{{Method: "ANY", Path: "/{proxy+}"}}},
			{Name: "report", Match: []route.Pattern{{Method: "GET", Path: "/report"}},
				Cost: limits.Costs{Units: map[string]int64{limits.Cost: 50}}},
		}
	})
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
					got, _, _ := send(t, method, server.URL+"/report", api.header, secret.Reveal())
					if got != want {
						t.Errorf("after %s, call %d, %s: %d, want %d", first, i+1, method, got, want)
					}
				}
			}
		})
	}
}
