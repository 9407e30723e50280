package gateway_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"

	"tidegate/internal/testing/browsertest"
	"tidegate/web/middleware"
)

const deniedContext = `{"denied":true,"rateLimit":"\"default\";r=0;t=7","rateLimitPolicy":"\"default\";q=10;w=10","retryAfter":"7",
	"message":"Wait.","violatedPolicies":"[]","violatedPolicy":"default","problemType":"about:blank"}`

// read is what a script of a page sees of an answer of another origin.
type read struct {
	Status           int
	Retry, RateLimit string
	Failed           bool
}

// A script of another origin reads the status, Retry-After and RateLimit of a 401 and a
// 429 of a REST API and of the middleware. It reads nothing where CORS is off, or open to
// another origin alone.
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
	over := read{Status: 429, Retry: "7", RateLimit: `"default";r=0;t=7`}
	for name, c := range map[string]struct {
		api  http.Handler
		want read
	}{
		"429": {openREST(t, denies, "*"), over},
		"401": {openREST(t, &fake{err: reported("Unauthorized")}, "*"),
			read{Status: 401}},
		"429 for the page":        {openREST(t, denies, page.URL), over},
		"429 for another":         {openREST(t, denies, "https://other.example"), read{Failed: true}},
		"429, off":                {openREST(t, denies, ""), read{Failed: true}},
		"middleware":              {refusing(nil), over},
		"middleware for the page": {refusing([]string{"https://other.example", page.URL}), over},
		"middleware for another":  {refusing([]string{"https://other.example"}), read{Failed: true}},
		"middleware, off":         {refusing([]string{}), read{Failed: true}},
	} {
		server := httptest.NewServer(c.api)
		t.Cleanup(server.Close)
		script := `fetch('` + server.URL + `/orders', {headers: {'X-Api-Key': 'k'}}).then(
			a => ({Status: a.status, Retry: a.headers.get('Retry-After') ?? '', RateLimit: a.headers.get('RateLimit') ?? ''}),
			() => ({Failed: true}))`
		got, err := chromedp.Run(tab, chromedp.Evaluate[read](script, chromedp.EvalAwaitPromise))
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
}

// openREST is the deployed REST API, its answers open to an origin; to none when that is
// empty.
func openREST(t *testing.T, authorizer *fake, origin string) http.Handler {
	t.Helper()
	rules := deployed(t).REST
	api := newREST(authorizer, &fake{answer: okAnswer})
	api.Responses, api.Preflight = rules.Responses, rules.Preflight
	for _, r := range api.Responses {
		const name = "gatewayresponse.header.Access-Control-Allow-Origin"
		if r.ResponseParameters[name] = "'" + origin + "'"; origin == "" {
			delete(r.ResponseParameters, name)
		}
	}
	return api
}

// refusing is a backend whose middleware refuses every call, behind an API that answers
// preflights.
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
			w.Header().Set("Access-Control-Allow-Origin", "*")
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
		t.Errorf("without: %d", got.status)
	}
}

// AWS keeps claims for its own authorizers.
func TestClaimsInAContextAreRefused(t *testing.T) {
	api := newREST(&fake{answer: policyAnswer("Allow", "*", `{"claims":"x"}`)}, &fake{answer: okAnswer})
	if got := do(api, get("/orders")); got.status != http.StatusInternalServerError ||
		got.header.Get("X-Amzn-Errortype") != "AuthorizerConfigurationException" {
		t.Errorf("%d %v", got.status, got.header)
	}
}
