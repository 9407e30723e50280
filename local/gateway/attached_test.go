package gateway_test

import (
	"encoding/json"
	"io/fs"
	"path"
	"strings"
	"testing"

	"tidegate/infra/golden"
	"tidegate/local/gateway"
)

// denial and permit are answers of the check function: denial to a REST API, permit to an
// HTTP API.
const (
	denial = `{"rateLimit":"\"free\";r=0;t=7","rateLimitPolicy":"\"free\";q=10;w=10","retryAfter":"7","message":"Try again in 7 s.",` +
		`"problemType":"about:blank","violatedPolicies":"[\"free\"]"}`
	permit = `{"isAuthorized":true,"context":{"rateLimit":"\"free\";r=9;t=1","rateLimitPolicy":"\"free\";q=10;w=10"}}`
)

// The snippet for every deployment tool makes an API that answers clients alike. The test
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
			rules, err := gateway.ReadTemplate(text)
			if err != nil {
				t.Fatal(err)
			}
			testDenialOfREST(t, rules.REST)
			testHTTP(t, rules.HTTP)
		})
	}
}

func testDenialOfREST(t *testing.T, rules gateway.RESTRules) {
	t.Helper()
	authorizer := &fake{answer: policyAnswer("Deny", "*", denial)}
	api := &gateway.REST{
		Authorizer: authorizer, IdentityHeaders: rules.IdentityHeaders, Responses: rules.Responses,
		Integration: &fake{answer: okAnswer}, Now: noon,
	}
	got := do(api, get("/orders"))
	header := func(name string) string { return got.header.Get(name) }
	limited := header("RateLimit") == `"free";r=0;t=7` && header("RateLimit-Policy") == `"free";q=10;w=10`
	if got.status != 429 || header("Retry-After") != "7" || !limited {
		t.Errorf("status %d, headers %v", got.status, got.header)
	}
	var problem struct{ Status int }
	err := json.Unmarshal([]byte(got.body), &problem)
	if kind := header("Content-Type"); err != nil || problem.Status != 429 ||
		kind != "application/problem+json" {
		t.Errorf("body %s of type %s: %v", got.body, kind, err)
	}
	authorizer.answer, authorizer.err = "", reported("Unauthorized")
	if got := do(api, get("/orders")); got.status != 401 || got.header.Get("WWW-Authenticate") == "" {
		t.Errorf("without a credential: status %d, headers %v", got.status, got.header)
	}
	if n := authorizer.invocations(); n != 2 {
		t.Errorf("the function was asked about %d of 2 calls", n)
	}
}

func testHTTP(t *testing.T, rules gateway.HTTPRules) {
	t.Helper()
	authorizer := &fake{answer: permit}
	api := &gateway.HTTP{
		Authorizer: authorizer, Format: rules.Format, Simple: rules.Simple,
		IdentityHeaders:    rules.IdentityHeaders,
		ResponseParameters: rules.ResponseParameters, Integration: &fake{answer: okAnswer}, Now: noon,
	}
	if got := do(api, get("/orders")); got.status != 200 || got.header.Get("RateLimit") != `"free";r=9;t=1` {
		t.Errorf("allowed: status %d, headers %v", got.status, got.header)
	}
	authorizer.answer = `{"isAuthorized":false}`
	if got := do(api, get("/orders")); got.status != 403 {
		t.Errorf("denied: status %d, want 403, which is all that an HTTP API can answer", got.status)
	}
}
