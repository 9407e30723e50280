package gateway_test

import (
	"net/http"
	"slices"
	"testing"

	"tidegate/local/gateway"
)

const app = "https://app.example"

// withCORS is an HTTP API whose backend sets CORS headers of its own.
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
		"of a scheme": {gateway.CORS{AllowOrigins: []string{"https://*"}},
			map[string]string{"Allow-Origin": app}},
		"another": {gateway.CORS{AllowOrigins: []string{"http://*", "https://a.example"},
			AllowMethods: []string{"GET"}}, nil},
		"all": {
			gateway.CORS{
				AllowOrigins: []string{app}, AllowMethods: []string{"GET", "PUT"},
				AllowHeaders:     []string{"x-api-key"},
				AllowCredentials: true, MaxAge: 300,
			},
			map[string]string{
				"Allow-Origin": app, "Allow-Methods": "GET,PUT", "Allow-Headers": "x-api-key",
				"Allow-Credentials": "true", "Max-Age": "300",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			authorizer := &fake{}
			api := withCORS(authorizer, &c.cors)
			got := do(api, newRequest("OPTIONS", "/orders", "", "Origin", app,
				"Access-Control-Request-Method", "GET"))
			if got.status != http.StatusNoContent || authorizer.invocations() != 0 {
				t.Errorf("status %d, %d invocations", got.status, authorizer.invocations())
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
			t.Errorf("%s: status %d", name, got.status)
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

// The deployed template opens both APIs to any origin. OpenTo opens them to one origin or
// to none.
func TestOpenTo(t *testing.T) {
	const allow, vary = "gatewayresponse.header.Access-Control-Allow-Origin", "gatewayresponse.header.Vary"
	for origin, want := range map[string]struct{ literal, vary string }{
		"*": {"'*'", ""}, app: {"'" + app + "'", "'Origin'"}, "none": {},
	} {
		rules := deployed(t)
		cors := rules.HTTP.CORS
		if cors == nil || !slices.Equal(cors.AllowOrigins, []string{"*"}) ||
			!slices.Contains(cors.ExposeHeaders, "Retry-After") {
			t.Fatalf("deployed: %+v", cors)
		}
		rules.OpenTo(origin)
		for kind, r := range rules.REST.Responses {
			if r.ResponseParameters[allow] != want.literal || r.ResponseParameters[vary] != want.vary {
				t.Errorf("%s, %s: %v", origin, kind, r.ResponseParameters)
			}
		}
		if origin == "none" {
			if rules.REST.Preflight != nil || rules.HTTP.CORS != nil {
				t.Errorf("none: %v, %+v", rules.REST.Preflight, rules.HTTP.CORS)
			}
			continue
		}
		preflight := rules.REST.Preflight
		if preflight["Access-Control-Allow-Origin"] != origin ||
			!slices.Equal(rules.HTTP.CORS.AllowOrigins, []string{origin}) {
			t.Errorf("%s: %v, %+v", origin, preflight, rules.HTTP.CORS)
		}
	}
}
