package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/akrylysov/algnhsa"
	"github.com/alexedwards/argon2id"
	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
)

const host = "abc123.execute-api.eu-central-1.amazonaws.com"

// secretHash returns the hash of the password "secret".
func secretHash(t *testing.T) string {
	t.Helper()
	hash, err := argon2id.CreateHash("secret",
		&argon2id.Params{Memory: 19456, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32})
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

// newFunction returns the function with these variables and its own Valkey, which has one
// key, acme.
func newFunction(t *testing.T, variables ...string) lambda.Handler {
	t.Helper()
	client := storetest.Connect(t, valkeytest.Start(t))
	c, err := readConfig(variables)
	if err != nil {
		t.Fatal(err)
	}
	c.ChangesLog = t.TempDir()
	keys := registrytest.Open(t, client, c.ChangesLog, c.pepper)
	by := registrytest.Edit
	plan := policy.Plan{Name: "free", Limits: []limits.Limit{{Requests: 10, Window: 10 * time.Second}}}
	registrytest.Save(t, keys, by, func(set *policy.Set) { set.Plans = []policy.Plan{plan} })
	if _, _, err := keys.Create(t.Context(), policy.NewKey{Name: "acme", Env: "test", Plan: "free"},
		by); err != nil {
		t.Fatal(err)
	}
	settings, err := c.dashboard()
	if err != nil {
		t.Fatal(err)
	}
	handler, err := newDashboard(t.Context(), c, settings, client, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return algnhsa.New(handler, lambdaOptions())
}

// event returns the event of an HTTP API for a browser's request below a stage.
func event(method, path, query string, cookies ...string) events.APIGatewayV2HTTPRequest {
	e := events.APIGatewayV2HTTPRequest{
		Version: "2.0", RouteKey: "$default", RawPath: path, RawQueryString: query, Cookies: cookies,
		Headers: map[string]string{
			"host": host, "origin": "https://" + host, "sec-fetch-site": "same-origin",
			"accept-encoding": "gzip",
			"content-type":    "application/x-www-form-urlencoded",
		},
	}
	e.RequestContext.HTTP.Method, e.RequestContext.HTTP.Path, e.RequestContext.HTTP.SourceIP = method,
		path, "192.0.2.1"
	return e
}

func invoke(t *testing.T, h lambda.Handler,
	e events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, string) {
	t.Helper()
	payload, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	out, err := h.Invoke(t.Context(), payload)
	if err != nil {
		t.Fatal(err)
	}
	var response events.APIGatewayV2HTTPResponse
	if err := json.Unmarshal(out, &response); err != nil {
		t.Fatal(err)
	}
	return response, bodyOf(t, response)
}

func bodyOf(t *testing.T, r events.APIGatewayV2HTTPResponse) string {
	t.Helper()
	body := []byte(r.Body)
	var err error
	if r.IsBase64Encoded {
		if body, err = base64.StdEncoding.DecodeString(r.Body); err != nil {
			t.Fatal(err)
		}
	}
	if r.Headers["Content-Encoding"] != "gzip" {
		return string(body)
	}
	plain, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body, err = io.ReadAll(plain); err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// Behind API Gateway, a browser logs in and gets the complete page that it requested.
// This needs cookies, queries, compressed bodies and bodies in base64.
func TestBehindAPIGateway(t *testing.T) {
	h := newFunction(t, environment("BASE_PATH=/prod", "ADMIN_PASSWORD_HASH="+secretHash(t))...)
	r, _ := invoke(t, h, event("GET", "/prod/keys", "q=ac%20me&live=5"))
	want := "/prod/login?next=" + url.QueryEscape("/prod/keys?q=ac%20me&live=5")
	if r.StatusCode != http.StatusSeeOther || r.Headers["Location"] != want {
		t.Fatalf("got %d to %q, want %q", r.StatusCode, r.Headers["Location"], want)
	}
	login := event("POST", "/prod/login", "")
	form := url.Values{"user": {"ada"}, "password": {"secret"}, "next": {"/prod/keys?q=a"}}
	login.Body, login.IsBase64Encoded = base64.StdEncoding.EncodeToString([]byte(form.Encode())), true
	r, _ = invoke(t, h, login)
	if r.StatusCode != http.StatusSeeOther || r.Headers["Location"] != "/prod/keys?q=a" ||
		len(r.Cookies) != 1 {
		t.Fatalf("login: got %d to %q, cookies %q", r.StatusCode, r.Headers["Location"], r.Cookies)
	}
	cookies := []string{"other=1"}
	for _, set := range r.Cookies {
		cookie, _, _ := strings.Cut(set, ";")
		cookies = append(cookies, cookie)
	}
	r, body := invoke(t, h, event("GET", "/prod/keys", "q=a", cookies...))
	if r.Headers["Content-Encoding"] != "gzip" || !strings.Contains(body, "acme") ||
		!strings.HasSuffix(body, "</html>") {
		t.Errorf("keys: got %d %v\n%s", r.StatusCode, r.Headers, body)
	}
}

// Behind API Gateway too, a form of another site is refused: Host and Origin are those of
// the browser.
func TestCrossSiteBehindAPIGateway(t *testing.T) {
	h := newFunction(t, environment("BASE_PATH=/prod")...)
	e := event("POST", "/prod/login", "")
	e.Headers["origin"] = "https://evil.example"
	delete(e.Headers, "sec-fetch-site")
	if r, _ := invoke(t, h, e); r.StatusCode != http.StatusForbidden {
		t.Errorf("other origin: got %d, want 403", r.StatusCode)
	}
	delete(e.Headers, "origin")
	if r, _ := invoke(t, h, e); r.StatusCode != http.StatusForbidden {
		t.Errorf("no origin: got %d, want 403", r.StatusCode)
	}
	if r, _ := invoke(t, h, event("POST", "/prod/login", "")); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("own origin, wrong password: got %d, want 401", r.StatusCode)
	}
}

// An event that is not of an HTTP API gets an error, not a crash.
func TestOtherEvents(t *testing.T) {
	h := newFunction(t, environment("BASE_PATH=/prod")...)
	for _, payload := range []string{"{}", "null", "[]", "x", `{"version":"1.0","httpMethod":"GET"}`,
		`{"version":"2.0"}`} {
		out, err := h.Invoke(t.Context(), []byte(payload))
		var r events.APIGatewayV2HTTPResponse
		if err == nil && (json.Unmarshal(out, &r) != nil || r.StatusCode < http.StatusMultipleChoices) {
			t.Errorf("%s: got %s, want an error", payload, out)
		}
	}
}
