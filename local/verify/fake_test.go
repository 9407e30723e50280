package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Addresses and secrets of the fake deployment.
const (
	fakeREST  = "https://rest123.execute-api.eu-west-1.amazonaws.com/prod"
	fakeHTTP  = "https://http123.execute-api.eu-west-1.amazonaws.com"
	fakeDash  = "https://dash.example/limits"
	fakeKey   = "tg_live_the-key"
	fakeToken = "tga_the-token"
	fakePep   = "0123456789abcdefghijABCDEFGHIJ0123456789abcdefghijABCDEFGHIJ0123"
)

// fake is a deployment that answers as this repository expects of AWS, on its own clock.
// It is written from AWS's documents, independent of the emulators in local.
type fake struct {
	lock       sync.Mutex
	clock      time.Time
	admitted   []time.Time // of the key, within the window
	limit      int
	overridden bool
	burst      map[string]int // calls by route since the clock advanced
	true429    bool           // the HTTP API's backend answers denials in the context with 429
	methods    []string       // method and path of every call except GET
	tamper     tamper
	commands   map[string]string // output by command of the AWS CLI
	ran        [][]string        // arguments of the commands that were run
}

// tamper changes an answer before the client gets it.
type tamper func(f *fake, r *http.Request, a *fakeAnswer)

type fakeAnswer struct {
	status int
	header http.Header
	body   string
	err    error
}

func (a *fakeAnswer) set(pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		a.header.Set(pairs[i], pairs[i+1])
	}
}

func newFake() *fake {
	return &fake{
		clock: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), limit: 10, burst: map[string]int{}, true429: true,
		tamper: func(*fake, *http.Request, *fakeAnswer) {},
		commands: map[string]string{
			"cloudformation describe-stacks":    `"UPDATE_COMPLETE"`,
			"elasticache describe-users":        `"active"`,
			"lambda get-function-configuration": `"` + fakePep + `"`,
			"logs describe-log-groups":          `[["/tidegate/dev/check", "arn:aws:kms:key"], ["/tidegate/dev/admin", "arn:aws:kms:key"]]`,
			"logs filter-log-events":            `["{\"level\":\"INFO\",\"msg\":\"REPORT of nothing\"}"]`,
			"execution log":                     fakeSteps,
			"apigateway get-authorizers":        `[{"ttl": 0, "source": "", "type": "REQUEST"}]`,
			"apigatewayv2 get-authorizers":      `[{"ttl": 0, "source": [], "type": "REQUEST"}]`,
			"apigateway get-gateway-response":   fakeParameters,
			"cloudwatch list-metrics":           `[["clusterId", "tidegate-dev"]]`,
			"cloudwatch describe-alarms":        `"OK"`,
		},
	}
}

// notFound is the output of a command about a missing resource.
const notFound = "not found"

const fakeSteps = `["Starting authorizer: a1 for request: 0-a", "Starting authorizer: a1 for request: 0-b",
	"Verifying Usage Plan for request: 0-b. API Key:  API Stage: rest123/prod",
	"Verifying Usage Plan for request: 0-a. API Key:  API Stage: rest123/prod"]`

const fakeParameters = `{"gatewayresponse.header.Retry-After": "context.authorizer.retryAfter", "gatewayresponse.header.RateLimit":
	"context.authorizer.rateLimit", "gatewayresponse.header.RateLimit-Policy": "context.authorizer.rateLimitPolicy"}`

// RoundTrip answers a call without a network.
func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	f.lock.Lock()
	defer f.lock.Unlock()
	if r.Method != http.MethodGet {
		f.methods = append(f.methods, r.Method+" "+r.URL.Path)
	}
	a := &fakeAnswer{status: http.StatusOK, header: http.Header{}}
	url := r.URL.Scheme + "://" + r.URL.Host + r.URL.EscapedPath()
	switch {
	case strings.HasPrefix(url, fakeREST+"/"):
		f.rest(r, strings.TrimPrefix(url, fakeREST), a)
	case strings.HasPrefix(url, fakeHTTP+"/"):
		f.http(r, strings.TrimPrefix(url, fakeHTTP), a)
	case strings.HasPrefix(url, fakeDash+"/"):
		f.dashboard(r, strings.TrimPrefix(url, fakeDash), a)
	default:
		return nil, fmt.Errorf("unknown address %s", url)
	}
	f.tamper(f, r, a)
	if a.err != nil {
		return nil, a.err
	}
	w := httptest.NewRecorder()
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = w.WriteString(a.body)
	return w.Result(), nil
}

func (f *fake) now() time.Time {
	f.lock.Lock()
	defer f.lock.Unlock()
	return f.clock
}

// advance moves the clock and restores the bursts of the throttles.
func (f *fake) advance(d time.Duration) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.clock = f.clock.Add(d)
	clear(f.burst)
}

// throttled counts a call of a route. It reports whether the call is above the burst, and
// then sets the answer to 429.
func (f *fake) throttled(route string, burst int, a *fakeAnswer) bool {
	f.burst[route]++
	if f.burst[route] <= burst {
		return false
	}
	a.status, a.body = tooMany, `{"message":"Too Many Requests"}`
	return true
}

// take takes a call from the sliding window of the key. It returns the remaining calls,
// or the seconds to wait.
func (f *fake) take() (remaining, wait int, policy string) {
	limit := f.limit
	if f.overridden {
		limit++
	}
	const window = 10 * time.Second
	f.admitted = slices.DeleteFunc(f.admitted, func(t time.Time) bool { return f.clock.Sub(t) >= window })
	policy = fmt.Sprintf(`"%d per 10 seconds";q=%d;w=10`, limit, limit)
	if len(f.admitted) >= limit {
		left := window - f.clock.Sub(f.admitted[0])
		return 0, int((left + time.Second - 1) / time.Second), policy
	}
	f.admitted = append(f.admitted, f.clock)
	return limit - len(f.admitted), 0, policy
}

func (f *fake) rest(r *http.Request, path string, a *fakeAnswer) {
	a.set("X-Amzn-Requestid", "1", "Cache-Control", "no-store", "Access-Control-Allow-Origin", "*",
		"Access-Control-Expose-Headers", "Retry-After,RateLimit,RateLimit-Policy")
	switch key := r.Header.Get("X-Api-Key"); {
	case len(r.Header.Get("A")) > 10_240:
		a.status = http.StatusRequestHeaderFieldsTooLarge
	case len(path) > 1600:
		a.status = http.StatusRequestURITooLong
	case r.Method == http.MethodOptions:
		a.status = http.StatusNoContent
		a.set("Access-Control-Allow-Headers", "Authorization,X-Api-Key")
	case key == "" && f.throttled("rest", 400, a):
	case key != fakeKey:
		a.status = http.StatusUnauthorized
		a.set("Content-Type", "application/problem+json", "WWW-Authenticate", `Bearer realm="tidegate"`)
		a.body = `{"type":"about:blank","status":401}`
	default:
		remaining, wait, policy := f.take()
		if wait > 0 {
			f.refuse(wait, policy, a)
			return
		}
		f.pass(path, remaining, policy, a, func(v any) any { return fmt.Sprint(v) })
	}
}

func (f *fake) http(r *http.Request, path string, a *fakeAnswer) {
	switch key := r.Header.Get("X-Api-Key"); {
	case len(r.Header.Get("A")) > 10_240:
		a.status = http.StatusRequestHeaderFieldsTooLarge
	case r.Method == http.MethodOptions:
		a.status = http.StatusNoContent
		a.set("Access-Control-Allow-Origin", "*", "Access-Control-Allow-Headers", "Authorization,X-Api-Key")
	case key != fakeKey:
		a.status, a.body = http.StatusForbidden, `{"message":"Forbidden"}`
	default:
		a.set("Access-Control-Allow-Origin", "*",
			"Access-Control-Expose-Headers", "Retry-After,RateLimit,RateLimit-Policy")
		remaining, wait, policy := f.take()
		switch {
		case wait == 0:
			f.pass(path, remaining, policy, a, func(v any) any { return v })
		case f.true429:
			f.refuse(wait, policy, a)
		default:
			a.status, a.body = http.StatusForbidden, `{"message":"Forbidden"}`
		}
	}
}

func (*fake) pass(path string, remaining int, policy string, a *fakeAnswer, typed func(any) any) {
	name, _, _ := strings.Cut(policy, ";")
	field := fmt.Sprintf("%s;r=%d;t=10", name, remaining)
	a.set("RateLimit", field, "RateLimit-Policy", policy, "Content-Type", "application/json")
	body, _ := json.Marshal(map[string]any{"path": path, "authorizer": map[string]any{
		"keyId": "key-id", "plan": "free", "rateLimit": field, "rateLimitPolicy": policy,
		"remaining": typed(remaining), "denied": typed(false),
	}})
	a.body = string(body)
}

func (*fake) refuse(wait int, policy string, a *fakeAnswer) {
	name, _, _ := strings.Cut(policy, ";")
	a.status = tooMany
	a.set("Content-Type", "application/problem+json", "Retry-After", fmt.Sprint(wait), "RateLimit",
		fmt.Sprintf("%s;r=0;t=%d", name, wait),
		"RateLimit-Policy", policy)
	a.body = fmt.Sprintf(
		`{"type":"urn:quota","status":429,"violated-policies":["10 per 10 seconds"],"retry-after":"%d"}`,
		wait)
}

func (f *fake) dashboard(r *http.Request, path string, a *fakeAnswer) {
	a.set("Content-Security-Policy", "default-src 'none'", "Strict-Transport-Security", "max-age=31536000",
		"X-Content-Type-Options", "nosniff",
		"Cache-Control", "no-store")
	known := r.Header.Get("Authorization") == "Bearer "+fakeToken
	switch {
	case path == "/":
		a.status = http.StatusSeeOther
		a.set("Location", "/limits/login?next=%2F")
	case path == "/login" && !f.throttled("login", 20, a):
		a.set("Content-Type", "text/html; charset=utf-8", "Set-Cookie",
			"__Secure-x=1; Path=/limits/; Secure; HttpOnly; SameSite=Lax")
		a.body = `<link rel="stylesheet" href="/limits/static/a.css">`
	case path == "/healthz":
		a.body = "alive\nstore ready\n"
	case path == "/static/a.css":
		a.set("Content-Type", "text/css; charset=utf-8", "Content-Encoding", "gzip")
		a.body = zipped("a{}")
	case strings.HasPrefix(path, "/api/v1/") && !known:
		a.status, a.body = http.StatusUnauthorized, `{"type":"about:blank","status":401}`
		a.set("Content-Type", "application/problem+json", "WWW-Authenticate", `Bearer realm="tidegate"`)
	case path == "/api/v1/keys/key-id/override":
		f.overridden = r.Method == http.MethodPut
	case path == "/api/v1/keys/key-id":
		a.set("ETag", `"1"`)
		a.body = `{"id":"key-id"}`
	}
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}

func (f *fake) aws(_ context.Context, args ...string) ([]byte, error) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.ran = append(f.ran, args)
	command := args[0] + " " + args[1]
	if strings.HasPrefix(args[3], "API-Gateway-Execution-Logs_rest123/prod") {
		command = "execution log"
	}
	out, known := f.commands[command]
	if out == notFound {
		return nil, fmt.Errorf("aws %s: An error occurred (ResourceNotFoundException)", command)
	}
	if !known {
		return nil, fmt.Errorf("unknown command %q", args)
	}
	return []byte(out), nil
}

func fakeOptions() options {
	return options{rest: fakeREST, http: fakeHTTP, dashboard: fakeDash, key: fakeKey, token: fakeToken,
		stack: "tidegate-dev", throttle: true}
}

// verify runs verify on the fake. It returns the output, the progress, the report and the
// exit status.
func (f *fake) verify(t *testing.T, o options) (out, progress string, r *report, code int) {
	t.Helper()
	s := newSession(o, f.aws)
	s.client.Transport, s.now = f, f.now
	s.sleep = func(_ context.Context, d time.Duration) { f.advance(d) }
	var table, plan bytes.Buffer
	o.json = t.TempDir() + "/report.json"
	s.json = o.json
	code = verify(t.Context(), s, &table, &plan)
	return table.String(), plan.String(), readReport(t, o.json), code
}
