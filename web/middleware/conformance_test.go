package middleware

import (
	stdcmp "cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidegate/internal/testing/browsertest"
	"tidegate/internal/testing/tier"
)

// conformance is the table of cases that the middleware of every language passes.
type conformance struct {
	Answers     map[string]answerCase `json:"answers"`
	Requests    []requestCase         `json:"requests"`
	Settlements []settlementCase      `json:"settlements"`
}

// requestCase has one of Authorizer, RequestContext and Headers. Want is an answerCase or
// the name of one.
type requestCase struct {
	Name           string
	Method         string          // GET if it is empty
	Authorizer     json.RawMessage // requestContext.authorizer of the event
	RequestContext []string        // values of the header X-Amzn-Request-Context
	Headers        [][2]string     // names and values, for the prefix X-Tidegate-
	Mapped         []string        // keys of the context that the source reads; nil for all
	AllowOrigins   []string
	Origin         string
	Want           json.RawMessage
}

// keys are all keys of the context.
var keys = []string{
	"denied", "keyId", "keyName", "plan", "route", "policyVersion", "keyVersion", "limit", "remaining",
	"reset", "rateLimit", "rateLimitPolicy", "retryAfter", "wait",
	"message", "problemType", "violatedPolicies", "reference", "settlement", "shadowDenied", "degraded",
}

type answerCase struct {
	Status  int
	Headers map[string]string // all headers of the response among comparedHeaders
	Body    map[string]any    // for a served request the decision without zero values
}

// settlementCase has the API's responses to successive attempts, and the result of the
// settlement. No attempt follows the last response.
type settlementCase struct {
	Name    string
	Cost    map[string]any // by unit; nil for a cost of 7
	Answers []struct {
		Fault            string // broken, hangs or unreachable; empty for a response
		Status           int
		RetryAfter, Body string
	}
	Pauses [][2]int // minimum and maximum milliseconds between the starts of two attempts
	Want   struct {
		Settled *Settlement
		Status  int    // of the error; 0 for an error without a response
		Detail  string // of the error; why if it is empty
	}
}

var comparedHeaders = []string{
	"RateLimit", "RateLimit-Policy", "Retry-After", "Content-Type", "Cache-Control",
	"Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Access-Control-Expose-Headers",
	"Vary",
}

func readConformance(t *testing.T) conformance {
	t.Helper()
	text, err := os.ReadFile("testdata/conformance.json")
	if err != nil {
		t.Fatal(err)
	}
	var c conformance
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Requests) < 50 || len(c.Settlements) < 35 {
		t.Fatalf("got %d requests and %d settlements, want at least 50 and 35",
			len(c.Requests), len(c.Settlements))
	}
	return c
}

// Each request of the table gets its response.
func TestRequests(t *testing.T) {
	table := readConformance(t)
	for _, c := range table.Requests {
		t.Run(c.Name, func(t *testing.T) {
			var name string
			var want answerCase
			if json.Unmarshal(c.Want, &name) == nil {
				want = table.Answers[name]
			} else if err := json.Unmarshal(c.Want, &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, c.answer(t)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// answer serves the request with a handler that responds with the decision.
func (c requestCase) answer(t *testing.T) answerCase {
	t.Helper()
	m := Middleware{Source: WebAdapter, AllowOrigins: c.AllowOrigins,
		Log: slog.New(slog.DiscardHandler)}
	r := httptest.NewRequest(stdcmp.Or(c.Method, http.MethodGet), "/orders", http.NoBody)
	if c.Authorizer != nil {
		r.Header.Set("X-Amzn-Request-Context", `{"stage":"prod","authorizer":`+string(c.Authorizer)+`}`)
	}
	for _, value := range c.RequestContext {
		r.Header.Add("X-Amzn-Request-Context", value)
	}
	if c.Headers != nil {
		mapped := c.Mapped
		if mapped == nil {
			mapped = keys
		}
		m.Source = Headers("X-Tidegate-", mapped...)
	}
	for _, h := range c.Headers {
		r.Header.Add(h[0], h[1])
	}
	if c.Origin != "" {
		r.Header.Set("Origin", c.Origin)
	}
	w := httptest.NewRecorder()
	m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, _ := FromContext(r.Context())
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(d.nonzero())
	})).ServeHTTP(w, r)
	got := answerCase{Status: w.Code, Headers: map[string]string{}}
	for _, name := range comparedHeaders {
		if value := w.Header().Get(name); value != "" {
			got.Headers[name] = value
		}
	}
	if w.Body.Len() == 0 {
		return got
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got.Body); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return got
}

// nonzero returns the decision's values other than zero, under the keys of the context.
func (d Decision) nonzero() map[string]any {
	all := map[string]any{
		"denied": d.Denied, "keyId": d.KeyID, "keyName": d.KeyName, "plan": d.Plan, "route": d.Route,
		"policyVersion": d.PolicyVersion, "keyVersion": d.KeyVersion, "limit": d.Limit,
		"remaining": d.Remaining, "reset": d.Reset, "rateLimit": d.RateLimit,
		"rateLimitPolicy": d.RateLimitPolicy, "retryAfter": d.RetryAfter, "wait": d.Wait,
		"message": d.Message, "problemType": d.ProblemType, "reference": d.Reference,
		"settlement":   d.Settlement,
		"shadowDenied": d.ShadowDenied, "degraded": d.Degraded,
	}
	if len(d.Violated) > 0 {
		all["violatedPolicies"] = d.Violated
	}
	maps.DeleteFunc(all, func(_ string, value any) bool {
		return reflect.ValueOf(value).IsZero()
	})
	return all
}

// A settlement retries temporary failures a bounded number of times, after pauses. It
// does not retry refusals.
func TestSettlements(t *testing.T) {
	for _, c := range readConformance(t).Settlements {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, attempts, err := c.settle(t)
				var refused *SettleError
				switch {
				case len(attempts) != len(c.Answers):
					t.Errorf("got %d attempts, want %d", len(attempts), len(c.Answers))
				case c.Want.Settled != nil && (err != nil || !cmp.Equal(got, *c.Want.Settled)):
					t.Errorf("got %+v, %v, want %+v", got, err, *c.Want.Settled)
				case c.Want.Settled == nil && err == nil,
					errors.As(err, &refused) != (c.Want.Status != 0),
					refused != nil && (refused.Status != c.Want.Status ||
						refused.Detail != stdcmp.Or(c.Want.Detail, "why")):
					t.Errorf("got error %v, want status %d", err, c.Want.Status)
				}
				for i, pause := range c.Pauses {
					took := attempts[i+1].Sub(attempts[i])
					if took < time.Duration(pause[0])*time.Millisecond ||
						took > time.Duration(pause[1])*time.Millisecond {
						t.Errorf("pause %d is %s, want %d ms", i+1, took, pause)
					}
				}
			})
		})
	}
}

// Pauses are random, so that backends which failed together do not retry together.
func TestPausesDiffer(t *testing.T) {
	for _, c := range readConformance(t).Settlements {
		if c.Name != "throttled once" {
			continue
		}
		pauses := map[time.Duration]bool{}
		for range 20 {
			synctest.Test(t, func(t *testing.T) {
				_, attempts, _ := c.settle(t)
				pauses[attempts[1].Sub(attempts[0])] = true
			})
		}
		if len(pauses) < 10 {
			t.Errorf("got %d different pauses of 20, want at least 10", len(pauses))
		}
		return
	}
	t.Error("the table has no case \"throttled once\"")
}

// settle returns the result of the settlement and the start of each attempt.
func (c settlementCase) settle(t *testing.T) (Settlement, []time.Time, error) {
	t.Helper()
	var attempts []time.Time
	api := transport(func(r *http.Request) (*http.Response, error) {
		var request map[string]any
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Error(err)
		}
		want := map[string]any{"settlement": "tgr_x", "cost": 7.0}
		if c.Cost != nil {
			want["cost"] = c.Cost
		}
		if diff := cmp.Diff(want, request); diff != "" {
			t.Error(diff)
		}
		attempts = append(attempts, time.Now())
		if len(attempts) > len(c.Answers) {
			t.Fatalf("got attempt %d, want %d", len(attempts), len(c.Answers))
		}
		switch a := c.Answers[len(attempts)-1]; a.Fault {
		case "":
			return &http.Response{StatusCode: a.Status, Header: http.Header{"Retry-After": {a.RetryAfter}},
				Body: io.NopCloser(strings.NewReader(a.Body)), Request: r}, nil
		case "unreachable":
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errBroken}
		case "hangs":
			<-r.Context().Done()
			return nil, r.Context().Err()
		default:
			return nil, errBroken
		}
	})
	s := &Settler{URL: "https://tidegate.example/prod", Token: "machine",
		Client: &http.Client{Transport: api}}
	costs := Costs{"cost": 7}
	if c.Cost != nil {
		costs = Costs{}
		for unit, cost := range c.Cost {
			costs[unit] = int64(cost.(float64))
		}
	}
	got, err := s.SettleUnits(t.Context(), "tgr_x", costs)
	return got, attempts, err
}

var errBroken = errors.New("connection reset")

type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// run runs a program in a folder and returns its output.
func run(t *testing.T, folder, program string, arguments ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, program, arguments...)
	command.Dir = folder
	output, err := command.CombinedOutput()
	if err != nil {
		t.Errorf("%s %s: %v, %v\n%s", program, strings.Join(arguments, " "), err, ctx.Err(), output)
	}
	return string(output)
}

// The middleware in Node.js passes the table of cases in Express, Fastify and Lambda
// handlers.
func TestNode(t *testing.T) {
	tier.Two(t, "needs npm packages")
	node, err := exec.LookPath("node")
	browsertest.Need(t, err, "install Node.js 20 or newer")
	_, err = os.Stat(filepath.Join("node", "node_modules", "fastify"))
	browsertest.Need(t, err, "install it: npm ci --ignore-scripts --prefix web/middleware/node")
	if output := run(t, "node", node, "--test"); !regexp.MustCompile(`pass [2-9]\d\d\n`).MatchString(output) {
		t.Errorf("too few tests ran:\n%s", output)
	}
}

// The middleware in Python passes the table of cases in WSGI, ASGI and Lambda handlers.
func TestPython(t *testing.T) {
	tier.Two(t, "needs Python")
	python, err := exec.LookPath("python3")
	browsertest.Need(t, err, "install Python 3.10 or newer")
	if output := run(t, "python", python, "-B", "-W", "error", "-m",
		"unittest"); !strings.Contains(output, "Ran 1") {
		t.Errorf("too few tests ran:\n%s", output)
	}
}
