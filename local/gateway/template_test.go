package gateway_test

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	"tidegate/internal/golden"
	"tidegate/local/gateway"
)

func deployed(t *testing.T) gateway.APIs {
	t.Helper()
	apis, err := gateway.Deployed()
	if err != nil {
		t.Fatal(err)
	}
	return apis
}

func TestDeployed(t *testing.T) {
	apis := deployed(t)
	if len(apis.REST.Responses) != 2 {
		t.Errorf("REST: %+v, want two gateway responses", apis.REST)
	}
	denied, unauthorized := apis.REST.Responses[gateway.AccessDenied],
		apis.REST.Responses[gateway.Unauthorized]
	if denied.StatusCode != http.StatusTooManyRequests || unauthorized.StatusCode != http.StatusUnauthorized {
		t.Errorf("gateway responses %+v", apis.REST.Responses)
	}
	for _, status := range []int{200, 201, 304, 404, 500, 504} {
		if len(apis.HTTP.ResponseParameters[status]) != 2 {
			t.Errorf("mapping of %d: %v", status, apis.HTTP.ResponseParameters[status])
		}
	}
}

// changed returns the golden template with every occurrence of a text replaced.
func changed(t *testing.T, from, to string) []byte {
	t.Helper()
	if !strings.Contains(string(golden.Dev), from) {
		t.Fatalf("the template has no %s", from)
	}
	return []byte(strings.ReplaceAll(string(golden.Dev), from, to))
}

func TestReadTemplateRefusesUnsupportedRules(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"cached results": {`"AuthorizerResultTtlInSeconds": 0`, `"AuthorizerResultTtlInSeconds": 300`,
			"caches results"},
		"default TTL":  {`"AuthorizerResultTtlInSeconds": 0,`, ``, "caches results"},
		"another type": {`"Type": "REQUEST"`, `"Type": "TOKEN"`, "not emulated"},
		"another format": {`"AuthorizerPayloadFormatVersion": "2.0"`,
			`"AuthorizerPayloadFormatVersion": "1.0"`, "not emulated"},
		"policies of an HTTP API": {`"EnableSimpleResponses": true`, `"EnableSimpleResponses": false`,
			"not emulated"},
		"identity source of a REST API": {`"Type": "REQUEST"`,
			`"Type": "REQUEST", "IdentitySource": "method.request.header.X-A"`, "not emulated"},
		"identity source of an HTTP API": {`"IdentitySource": []`, `"IdentitySource": ["$request.header.X-C"]`,
			"not emulated"},
		"parameter of a gateway response": {"context.authorizer.retryAfter", "method.request.header.X-A",
			"not emulated"},
		"parameter of a response": {"overwrite:header.RateLimit", "append:header.RateLimit", "not emulated"},
		"no preflight": {`"RouteKey": "GET /{proxy+}"`, `"RouteKey": "ANY /{proxy+}"`,
			"refuses preflights"},
		"no authorizer":    {"AWS::ApiGateway::Authorizer", "AWS::Other", "0 resources"},
		"status no number": {`"StatusCode": "429"`, `"StatusCode": "many"`, "status code"},
		"no JSON":          {"{", "", "read template"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := gateway.ReadTemplate(changed(t, c.from, c.to)); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// denial and permit are the context of a denial for a REST API, and an answer that allows
// a call for an HTTP API, as the check function makes them.
const (
	denial = `{"rateLimit":"\"free\";r=0;t=7","rateLimitPolicy":"\"free\";q=10;w=10","retryAfter":"7","message":"Try again in 7 s.",` +
		`"problemType":"about:blank","violatedPolicies":"[\"free\"]","violatedPolicy":"free"}`
	permit = `{"isAuthorized":true,"context":{"rateLimit":"\"free\";r=9;t=1","rateLimitPolicy":"\"free\";q=10;w=10"}}`
)

// The API of every deployment tool's snippet gives clients the same answers. The test
// runs the template that each tool makes of its snippet.
func TestAttachedByEveryTool(t *testing.T) {
	templates := map[string][]byte{"cdk-go": golden.Dev}
	files, err := fs.Glob(golden.Attached, "attach/*.json")
	if err != nil || len(files) < 3 {
		t.Fatalf("templates %q, %v", files, err)
	}
	for _, file := range files {
		text, err := golden.Attached.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		templates[strings.TrimSuffix(path.Base(file), ".json")] = text
	}
	for tool, text := range templates {
		t.Run(tool, func(t *testing.T) {
			apis, err := gateway.ReadTemplate(text)
			if err != nil {
				t.Fatal(err)
			}
			testDenialOfREST(t, apis.REST)
			testHTTP(t, apis.HTTP)
		})
	}
}

// testDenialOfREST checks that a deny becomes a 429, and Unauthorized a challenge.
func testDenialOfREST(t *testing.T, api *gateway.REST) {
	t.Helper()
	authorizer := &fake{answer: policyAnswer("Deny", "*", denial)}
	api.Authorizer, api.Integration = authorizer, &fake{answer: okAnswer}
	got := do(api, get("/orders"))
	wantHeaders(t, got.header, map[string]string{"Retry-After": "7", "RateLimit": `"free";r=0;t=7`,
		"RateLimit-Policy": `"free";q=10;w=10`, "Content-Type": "application/problem+json",
		"Cache-Control": "no-store"})
	var problem struct {
		Status           int
		Detail, Instance string
		Violated         []string `json:"violated-policies"`
	}
	if err := json.Unmarshal([]byte(got.body), &problem); err != nil || got.status != 429 ||
		problem.Status != 429 || problem.Detail != "Try again in 7 s." ||
		!slices.Equal(problem.Violated, []string{"free"}) ||
		problem.Instance != "urn:uuid:"+got.header.Get("X-Amzn-Requestid") {
		t.Errorf("status %d, problem %+v, %v: %s", got.status, problem, err, got.body)
	}
	authorizer.answer, authorizer.err = "", reported("Unauthorized")
	got = do(api, get("/orders"))
	wantHeaders(t, got.header, map[string]string{"WWW-Authenticate": `Bearer realm="tidegate"`,
		"Content-Type": "application/problem+json"})
	if got.status != 401 || !json.Valid([]byte(got.body)) {
		t.Errorf("without a credential: %d %s", got.status, got.body)
	}
	if n := authorizer.invocations(); n != 2 {
		t.Errorf("the authorizer was invoked %d times, want 2", n)
	}
}

func testHTTP(t *testing.T, api *gateway.HTTP) {
	t.Helper()
	authorizer := &fake{answer: permit}
	api.Authorizer, api.Integration = authorizer, &fake{answer: okAnswer}
	if got := do(api, get("/orders")); got.status != 200 || got.header.Get("RateLimit") != `"free";r=9;t=1` {
		t.Errorf("allowed: status %d, headers %v", got.status, got.header)
	}
	authorizer.answer = `{"isAuthorized":false}`
	if got := do(api, get("/orders")); got.status != 403 {
		t.Errorf("denied: status %d, want 403, which is all that an HTTP API can answer", got.status)
	}
}
