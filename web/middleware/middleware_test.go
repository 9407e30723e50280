package middleware

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	allowed = map[string]any{
		"denied": false, "keyId": "abc", "keyName": "orders", "plan": "free", "policyVersion": 3.0,
		"keyVersion": 2.0, "limit": 10.0, "remaining": 9.0,
		"reset": 10.0, "rateLimit": `"10 per 10 seconds";r=9;t=10`,
		"rateLimitPolicy": `"10 per 10 seconds";q=10;w=10`,
	}
	denied = map[string]any{
		"denied": true, "rateLimit": `"10 per 10 seconds";r=0;t=7`,
		"rateLimitPolicy": `"10 per 10 seconds";q=10;w=10`, "retryAfter": "7",
		"message":          "The limit of 10 per 10 seconds is reached. Retry after 7 seconds.",
		"violatedPolicies": `["10 per 10 seconds"]`,
		"problemType":      "https://iana.org/assignments/http-problem-types#quota-exceeded",
	}
)

func as(context map[string]any) Source { return func(*http.Request) map[string]any { return context } }

// serve runs one request through the middleware. The handler says whom it served.
func serve(source Source, header ...string) *httptest.ResponseRecorder {
	m := Middleware{Source: source, Log: slog.New(slog.DiscardHandler)}
	r := httptest.NewRequest(http.MethodGet, "/orders", http.NoBody)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, ok := FromContext(r.Context())
		_, _ = io.WriteString(w, map[bool]string{true: "served " + d.KeyID}[ok])
	})).ServeHTTP(w, r)
	return w
}

func TestAllowed(t *testing.T) {
	w := serve(as(allowed))
	if w.Code != http.StatusOK || w.Body.String() != "served abc" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	want := http.Header{"Ratelimit": {`"10 per 10 seconds";r=9;t=10`},
		"Ratelimit-Policy": {`"10 per 10 seconds";q=10;w=10`}}
	w.Header().Del("Content-Type")
	if diff := cmp.Diff(want, w.Header()); diff != "" {
		t.Error(diff)
	}
}

// A denied call never reaches the handler, and gets what a REST API's client gets.
func TestDenied(t *testing.T) {
	w := serve(as(denied))
	want := http.Header{
		"Ratelimit": {`"10 per 10 seconds";r=0;t=7`}, "Ratelimit-Policy": {`"10 per 10 seconds";q=10;w=10`},
		"Retry-After":  {"7"},
		"Content-Type": {"application/problem+json"}, "Cache-Control": {"no-store"},
		"Access-Control-Allow-Origin":   {"*"},
		"Access-Control-Expose-Headers": {"Retry-After, RateLimit, RateLimit-Policy"},
	}
	if diff := cmp.Diff(want, w.Header()); diff != "" || w.Code != http.StatusTooManyRequests {
		t.Errorf("%d %s", w.Code, diff)
	}
	body :=
		`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many Requests","status":429,` +
			`"detail":"The limit of 10 per 10 seconds is reached. Retry after 7 seconds.","violated-policies":["10 per 10 seconds"]}` + "\n"
	if diff := cmp.Diff(body, w.Body.String()); diff != "" {
		t.Error(diff)
	}
}

// Scripts of the listed origins may read a 429; of any without a list. What a handler
// before has set stays.
func TestAllowOrigins(t *testing.T) {
	for name, c := range map[string]struct {
		origins     []string
		origin, set string
		allow, vary string
		exposes     bool
	}{
		"any":  {nil, "https://a.example", "", "*", "", true},
		"none": {[]string{}, "https://a.example", "", "", "", false},
		"listed": {[]string{"https://b.example", "https://a.example"}, "https://a.example", "",
			"https://a.example", "Origin", true},
		"another": {[]string{"https://b.example"}, "https://a.example", "", "", "Origin", false},
		"set":     {nil, "https://a.example", "https://c.example", "https://c.example", "", false},
	} {
		m := Middleware{Source: as(denied), AllowOrigins: c.origins}
		r := httptest.NewRequest(http.MethodGet, "/orders", http.NoBody)
		r.Header.Set("Origin", c.origin)
		w := httptest.NewRecorder()
		if c.set != "" {
			w.Header().Set("Access-Control-Allow-Origin", c.set)
		}
		m.Wrap(http.NotFoundHandler()).ServeHTTP(w, r)
		h := w.Header()
		if h.Get("Access-Control-Allow-Origin") != c.allow || h.Get("Vary") != c.vary ||
			(h.Get("Access-Control-Expose-Headers") != "") != c.exposes {
			t.Errorf("%s: %v", name, h)
		}
	}
}

// A call that can never pass has nothing to wait for.
func TestDeniedForEver(t *testing.T) {
	w := serve(as(map[string]any{"denied": "true", "message": "Never.", "violatedPolicies": "[]"}))
	if w.Code != http.StatusTooManyRequests || w.Header()["Retry-After"] != nil ||
		!strings.Contains(w.Body.String(), `"type":"about:blank"`) {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

// Without a plain yes or no the request is refused, whatever else is there.
func TestNoDecisionIsRefused(t *testing.T) {
	for name, source := range map[string]Source{
		"none":            as(nil),
		"empty":           as(map[string]any{}),
		"no denied":       as(map[string]any{"keyId": "abc", "rateLimit": "x"}),
		"odd denied":      as(map[string]any{"denied": "maybe"}),
		"null denied":     as(map[string]any{"denied": nil}),
		"object":          as(map[string]any{"denied": map[string]any{"a": 1}}),
		"odd list":        as(map[string]any{"denied": false, "violatedPolicies": "x"}),
		"no header":       Headers("X-Tidegate-"),
		"no context":      RequestContext("X-Amzn-Request-Context"),
		"malformed":       RequestContext("X-Malformed"),
		"twice":           Headers("X-Twice-"),
		"no authorizer":   RequestContext("X-Empty"),
		"other's context": RequestContext("X-Other"),
	} {
		w := serve(source, "X-Malformed", "{", "X-Twice-denied", "false", "X-Twice-Denied", "false",
			"X-Empty", "{}", "X-Other",
			`{"authorizer":{"jwt":{"claims":{"denied":"false"}}}}`)
		if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "served") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// The context looks the same whichever way it came.
func TestSources(t *testing.T) {
	text := map[string]any{}
	var headers []string
	for key := range allowed {
		text[key] = values(allowed).text(key)
		headers = append(headers, "X-Tidegate-"+key, values(allowed).text(key))
	}
	want, err := parseDecision(allowed)
	if err != nil {
		t.Fatal(err)
	}
	rest, _ := json.Marshal(map[string]any{"stage": "prod", "authorizer": text})
	http2, _ := json.Marshal(map[string]any{"stage": "prod", "authorizer": map[string]any{"lambda": allowed}})
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.Header.Set("X-Rest", string(rest))
	r.Header.Set("X-Amzn-Request-Context", string(http2))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	for name, source := range map[string]Source{
		"strings": as(text), "REST": RequestContext("x-rest"),
		"HTTP": RequestContext("x-amzn-request-context"), "headers": Headers("x-tidegate-"),
	} {
		got, err := parseDecision(source(r))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	if want.KeyName != "orders" || want.Remaining != 9 || want.PolicyVersion != 3 || want.Denied {
		t.Errorf("%+v", want)
	}
}

// settling serves one request whose handler settles.
func settling(t *testing.T, reservation string, api http.HandlerFunc) (Settlement, error) {
	t.Helper()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	values := map[string]any{"denied": false, "reservation": reservation}
	m := Middleware{Source: as(values),
		Settler: &Settler{URL: server.URL + "/prod/", Token: "machine", Client: server.Client()}}
	var settled Settlement
	var err error
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody).WithContext(gone)
	m.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		settled, err = Settle(r.Context(), 7)
	})).ServeHTTP(httptest.NewRecorder(), r)
	return settled, err
}

// A handler settles even when its client has gone.
func TestSettle(t *testing.T) {
	got, err := settling(t, "tgr_x", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/prod/api/v1/reservations/settle" ||
			r.Header.Get("Authorization") != "Bearer machine" ||
			string(body) != `{"cost":7,"reservation":"tgr_x"}` {
			t.Errorf("%s %s %s", r.URL, r.Header, body)
		}
		_, _ = io.WriteString(w,
			`{"reserved":9,"actual":7,"short":1,"settleMax":90,"aboveMax":3,"partial":true}`)
	})
	if err != nil || got != (Settlement{Reserved: 9, Actual: 7, Short: 1, SettleMax: 90, AboveMax: 3,
		Partial: true}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestSettleWithoutAReservation(t *testing.T) {
	got, err := settling(t, "", func(http.ResponseWriter, *http.Request) { t.Error("asked") })
	if err != nil || got != (Settlement{}) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := Settle(t.Context(), 1); !errors.Is(err, ErrNoSettler) {
		t.Errorf("outside of a request: %v", err)
	}
}
