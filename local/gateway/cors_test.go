package gateway_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/akrylysov/algnhsa"
	"github.com/chromedp/chromedp"

	"tidegate/internal/testing/browsertest"
	"tidegate/local/echo"
	"tidegate/local/gateway"
	"tidegate/web/middleware"
)

const app = "https://app.example"

// withCORS returns an HTTP API whose backend sets its own CORS headers.
func withCORS(authorizer *fake, cors *gateway.CORS) *gateway.HTTP {
	api := newHTTP(authorizer, &fake{answer: `{"statusCode":200,"headers":{
		"Access-Control-Allow-Origin":"https://backend.example","Access-Control-Max-Age":"1","Vary":"Origin"}}`})
	api.CORS = cors
	return api
}

// A preflight's answer comes from the CORS configuration alone; neither the authorizer
// nor the backend is invoked. An origin that is not allowed gets no CORS headers.
func TestHTTPPreflight(t *testing.T) {
	for name, c := range map[string]struct {
		cors gateway.CORS
		want map[string]string
	}{
		"any": {gateway.CORS{AllowOrigins: []string{"*"}}, map[string]string{"Allow-Origin": "*"}},
		"one": {gateway.CORS{AllowOrigins: []string{"https://a.example", app}},
			map[string]string{"Allow-Origin": app}},
		"another": {gateway.CORS{AllowOrigins: []string{"https://a.example"}, AllowMethods: []string{"GET"}},
			nil},
		"all": {
			gateway.CORS{
				AllowOrigins: []string{app}, AllowMethods: []string{"GET", "PUT"},
				AllowHeaders:     []string{"x-api-key"},
				AllowCredentials: true,
			},
			map[string]string{
				"Allow-Origin": app, "Allow-Methods": "GET,PUT", "Allow-Headers": "x-api-key",
				"Allow-Credentials": "true",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			authorizer := &fake{}
			api := withCORS(authorizer, &c.cors)
			got := do(api, newRequest("OPTIONS", "/orders", "", "Origin", app,
				"Access-Control-Request-Method", "GET"))
			if got.status != http.StatusNoContent || authorizer.invocations() != 0 {
				t.Errorf("got status %d and %d invocations, want 204 and 0", got.status,
					authorizer.invocations())
			}
			wantHeaders(t, got.header, corsFields(c.want))
		})
	}
}

// corsFields returns all CORS fields of an answer; those that named lacks are empty.
func corsFields(named map[string]string) map[string]string {
	all := map[string]string{}
	for _, name := range []string{
		"Allow-Origin", "Allow-Methods", "Allow-Headers", "Allow-Credentials", "Max-Age", "Expose-Headers",
	} {
		all["Access-Control-"+name] = named[name]
	}
	return all
}

// OPTIONS is an ordinary request if it has no origin, names no method, or goes to an API
// without a CORS configuration.
func TestOptionsThatIsNoPreflight(t *testing.T) {
	open := &gateway.CORS{AllowOrigins: []string{"*"}}
	for name, c := range map[string]struct {
		cors   *gateway.CORS
		header []string
	}{
		"no origin":        {open, []string{"Access-Control-Request-Method", "GET"}},
		"no method":        {open, []string{"Origin", app}},
		"no configuration": {nil, []string{"Origin", app, "Access-Control-Request-Method", "GET"}},
	} {
		authorizer := &fake{answer: `{"isAuthorized":false}`}
		got := do(withCORS(authorizer, c.cors), newRequest("OPTIONS", "/orders", "", c.header...))
		if got.status != http.StatusForbidden {
			t.Errorf("%s: got status %d, want 403", name, got.status)
		}
	}
}

// The configuration's CORS headers replace the backend's, and only an allowed origin gets
// them. Without a configuration the backend's headers stay.
func TestHTTPReplacesCORSHeaders(t *testing.T) {
	cors := &gateway.CORS{AllowOrigins: []string{app}, ExposeHeaders: []string{"Retry-After", "RateLimit"}}
	for name, c := range map[string]struct {
		cors   *gateway.CORS
		origin []string
		want   map[string]string
	}{
		"allowed": {cors, []string{"Origin", app}, map[string]string{
			"Allow-Origin": app, "Expose-Headers": "Retry-After,RateLimit",
		}},
		"another": {cors, []string{"Origin", "https://other.example"}, nil},
		"none":    {cors, nil, nil},
		"no configuration": {nil, []string{"Origin", app}, map[string]string{
			"Allow-Origin": "https://backend.example", "Max-Age": "1",
		}},
	} {
		got := do(withCORS(authorizing(`{}`), c.cors), get("/orders", c.origin...))
		t.Run(name, func(t *testing.T) { wantHeaders(t, got.header, corsFields(c.want)) })
	}
}

// The gateway's own refusals have no CORS headers. Amazon's guide promises them only for
// the response of an integration.
func TestRefusalsHaveNoCORSHeaders(t *testing.T) {
	for status, authorizer := range map[int]*fake{
		403: {answer: `{"isAuthorized":false}`}, 500: {err: reported("boom")},
	} {
		got := do(withCORS(authorizer, &gateway.CORS{AllowOrigins: []string{"*"}}),
			get("/orders", "Origin", app))
		if got.status != status {
			t.Errorf("status %d, want %d", got.status, status)
		}
		wantHeaders(t, got.header, corsFields(nil))
	}
}

// The deployed template allows scripts of any origin on both APIs. OpenTo allows one
// origin, with credentials, or none.
func TestOpenTo(t *testing.T) {
	const allow, vary = "gatewayresponse.header.Access-Control-Allow-Origin", "gatewayresponse.header.Vary"
	const credentials = "Access-Control-Allow-Credentials"
	for origin, want := range map[string]struct{ literal, vary, credentials string }{
		"*": {"'*'", "", ""}, app: {"'" + app + "'", "'Origin'", "'true'"}, "none": {},
	} {
		apis := deployed(t)
		cors := apis.HTTP.CORS
		if cors == nil || !slices.Equal(cors.AllowOrigins, []string{"*"}) ||
			!slices.Contains(cors.ExposeHeaders, "Retry-After") {
			t.Fatalf("deployed: %+v", cors)
		}
		apis.OpenTo(origin)
		for kind, r := range apis.REST.Responses {
			if r.ResponseParameters[allow] != want.literal || r.ResponseParameters[vary] != want.vary ||
				r.ResponseParameters["gatewayresponse.header."+credentials] != want.credentials {
				t.Errorf("%s, %s: %v", origin, kind, r.ResponseParameters)
			}
		}
		if origin == "none" {
			if apis.REST.Preflight != nil || apis.HTTP.CORS != nil {
				t.Errorf("none: %v, %+v", apis.REST.Preflight, apis.HTTP.CORS)
			}
			continue
		}
		preflight := apis.REST.Preflight
		if preflight["Access-Control-Allow-Origin"] != origin ||
			preflight[credentials] != strings.Trim(want.credentials, "'") ||
			apis.HTTP.CORS.AllowCredentials != (want.credentials != "") ||
			!slices.Equal(apis.HTTP.CORS.AllowOrigins, []string{origin}) {
			t.Errorf("%s: %v, %+v", origin, preflight, apis.HTTP.CORS)
		}
	}
}

const deniedContext = `{"denied":true,"rateLimit":"\"default\";r=0;t=7","rateLimitPolicy":"\"default\";q=10;w=10","retryAfter":"7",
	"message":"Wait.","violatedPolicies":"[]","violatedPolicy":"default","problemType":"about:blank"}`

const allowedContext = `{"denied":false,"rateLimit":"\"default\";r=9;t=1",
	"rateLimitPolicy":"\"default\";q=10;w=10"}`

// read has the parts of an answer from another origin that a page's script can read.
type read struct {
	Status           int
	Retry, RateLimit string
	Failed           bool
}

func TestMain(m *testing.M) { os.Exit(browsertest.Run(m)) }

// Where CORS allows its origin, a script of another origin reads the status, Retry-After
// and RateLimit of a 200, a 401 and a 429. It reads nothing elsewhere, nor the 403 of an
// HTTP API. A script that sends cookies reads them only where CORS names its origin.
func TestBrowsersReadDenials(t *testing.T) {
	tab := browsertest.Start(t)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
	}))
	t.Cleanup(page.Close)
	if err := chromedp.Do(tab, chromedp.Navigate(page.URL)); err != nil {
		t.Fatal(err)
	}
	denies := &fake{answer: policyAnswer("Deny", "*", deniedContext)}
	allows := &fake{answer: policyAnswer("Allow", "*", allowedContext)}
	over := read{Status: 429, Retry: "7", RateLimit: `"default";r=0;t=7`}
	allowed := read{Status: 200, RateLimit: `"default";r=9;t=1`}
	const another = "https://other.example"
	for name, c := range map[string]struct {
		api  http.Handler
		want read
	}{
		"200":      {openREST(t, allows, "*"), allowed},
		"200, off": {openREST(t, allows, "none"), read{Failed: true}},
		"429":      {openREST(t, denies, "*"), over},
		"401": {openREST(t, &fake{err: reported("Unauthorized")}, "*"),
			read{Status: 401}},
		"429 for the page":      {openREST(t, denies, page.URL), over},
		"429 for another":       {openREST(t, denies, another), read{Failed: true}},
		"429, off":              {openREST(t, denies, "none"), read{Failed: true}},
		"HTTP 200":              {openHTTP(t, authorizing(allowedContext), "*"), allowed},
		"HTTP 200 for the page": {openHTTP(t, authorizing(allowedContext), page.URL), allowed},
		"HTTP 200 for another":  {openHTTP(t, authorizing(allowedContext), another), read{Failed: true}},
		"HTTP 200, off":         {openHTTP(t, authorizing(allowedContext), "none"), read{Failed: true}},
		"HTTP 429":              {openHTTP(t, authorizing(deniedContext), "*"), over},
		"HTTP 429 for another":  {openHTTP(t, authorizing(deniedContext), another), read{Failed: true}},
		"HTTP 403": {openHTTP(t, &fake{answer: `{"isAuthorized":false}`}, "*"),
			read{Failed: true}},
		"middleware":              {refusing(nil), over},
		"middleware for the page": {refusing([]string{"https://other.example", page.URL}), over},
		"middleware for another":  {refusing([]string{another}), read{Failed: true}},
		"middleware, off":         {refusing([]string{}), read{Failed: true}},

		"200, cookies":              {openREST(t, allows, "*"), read{Failed: true}},
		"200 for the page, cookies": {openREST(t, allows, page.URL), allowed},
		"429, cookies":              {openREST(t, denies, "*"), read{Failed: true}},
		"429 for the page, cookies": {openREST(t, denies, page.URL), over},
		"HTTP 429, cookies":         {openHTTP(t, authorizing(deniedContext), "*"), read{Failed: true}},

		"HTTP 429 for the page, cookies":   {openHTTP(t, authorizing(deniedContext), page.URL), over},
		"middleware, cookies":              {refusing(nil), read{Failed: true}},
		"middleware for the page, cookies": {refusing([]string{page.URL}), over},
	} {
		server := httptest.NewServer(c.api)
		t.Cleanup(server.Close)
		credentials := "omit"
		if strings.HasSuffix(name, "cookies") {
			credentials = "include"
		}
		script := `fetch('` + server.URL + `/orders', {credentials: '` + credentials + `',
			headers: {'X-Api-Key': 'k'}}).then(
			a => ({
				Status: a.status, Retry: a.headers.get('Retry-After') ?? '',
				RateLimit: a.headers.get('RateLimit') ?? '',
			}),
			() => ({Failed: true}))`
		got, err := chromedp.Run(tab, chromedp.Evaluate[read](script, chromedp.EvalAwaitPromise))
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
}

// openREST returns the deployed REST API with the echo backend. Scripts of origin may
// read its answers.
func openREST(t *testing.T, authorizer *fake, origin string) http.Handler {
	t.Helper()
	apis := deployed(t)
	apis.OpenTo(origin)
	apis.REST.Authorizer, apis.REST.Integration = authorizer, echo.Backend{Origin: origin}
	return apis.REST
}

// openHTTP returns the deployed HTTP API with a backend that runs the middleware. Scripts
// of origin may read its answers.
func openHTTP(t *testing.T, authorizer *fake, origin string) http.Handler {
	t.Helper()
	apis := deployed(t)
	apis.OpenTo(origin)
	limits := middleware.Middleware{AllowOrigins: []string{}, Source: func(r *http.Request) map[string]any {
		event, _ := algnhsa.APIGatewayV2RequestFromContext(r.Context())
		return event.RequestContext.Authorizer.Lambda
	}}
	backend := limits.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	apis.HTTP.Authorizer = authorizer
	apis.HTTP.Integration = algnhsa.New(backend,
		&algnhsa.Options{RequestType: algnhsa.RequestTypeAPIGatewayV2})
	return apis.HTTP
}

// refusing returns a backend whose middleware denies every call, and which answers
// preflights as its API would.
func refusing(origins []string) http.Handler {
	var context map[string]any
	if err := json.Unmarshal([]byte(deniedContext), &context); err != nil {
		panic(err) // it is a constant
	}
	m := middleware.Middleware{AllowOrigins: origins, Source: func(*http.Request) map[string]any {
		return context
	}}
	backend := m.Wrap(http.NotFoundHandler())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodOptions {
			w.Header().Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
			w.Header().Set("Access-Control-Allow-Credentials", "true")
			w.Header().Set("Access-Control-Allow-Headers", "X-Api-Key")
			return
		}
		backend.ServeHTTP(w, r)
	})
}

// A preflight reaches neither the authorizer nor the backend.
func TestPreflightNeedsNoAuthorizer(t *testing.T) {
	authorizer, backend := &fake{}, &fake{}
	api := newREST(authorizer, backend)
	api.Preflight = deployed(t).REST.Preflight
	got := do(api, newRequest("OPTIONS", "/orders", "", "Origin", "https://app.example",
		"Access-Control-Request-Headers", "x-api-key"))
	if got.status != http.StatusNoContent || authorizer.invocations()+backend.invocations() != 0 {
		t.Errorf("%d, %d invocations", got.status, authorizer.invocations()+backend.invocations())
	}
	wantHeaders(t, got.header, map[string]string{
		"Access-Control-Allow-Origin":  "*",
		"Access-Control-Allow-Headers": "Authorization,X-Api-Key,Content-Type",
	})
	api.Preflight = nil
	api.Authorizer = &fake{err: reported("Unauthorized")}
	if got := do(api, newRequest("OPTIONS", "/orders", "")); got.status != http.StatusUnauthorized {
		t.Errorf("without Preflight: got status %d, want 401", got.status)
	}
}

// AWS reserves the context key claims for its own authorizers.
func TestClaimsInAContextAreRefused(t *testing.T) {
	api := newREST(&fake{answer: policyAnswer("Allow", "*", `{"claims":"x"}`)}, &fake{answer: okAnswer})
	if got := do(api, get("/orders")); got.status != http.StatusInternalServerError ||
		got.header.Get("X-Amzn-Errortype") != "AuthorizerConfigurationException" {
		t.Errorf("%d %v", got.status, got.header)
	}
}
