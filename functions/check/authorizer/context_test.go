package authorizer

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/internal/answer"
	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// gatewayResponse is a gateway response of a REST API in the CDK stack's template.
type gatewayResponse struct {
	ResponseType       string
	ResponseParameters map[string]string
	ResponseTemplates  map[string]string
}

// deployed returns the gateway responses of the golden template by type, and the whole
// template.
func deployed(t *testing.T) (map[string]gatewayResponse, string) {
	t.Helper()
	text, err := os.ReadFile("../../../internal/golden/dev.json")
	if err != nil {
		t.Fatal(err)
	}
	var template struct {
		Resources map[string]struct {
			Type       string
			Properties json.RawMessage
		}
	}
	if err := json.Unmarshal(text, &template); err != nil {
		t.Fatal(err)
	}
	found := map[string]gatewayResponse{}
	for _, r := range template.Resources {
		if r.Type != "AWS::ApiGateway::GatewayResponse" {
			continue
		}
		var g gatewayResponse
		if err := json.Unmarshal(r.Properties, &g); err != nil {
			t.Fatal(err)
		}
		found[g.ResponseType] = g
	}
	return found, string(text)
}

// authorizerKey matches a key of the context in templates and mappings.
var authorizerKey = regexp.MustCompile(`context\.authorizer\.(\w+)`)

// The template reads only context keys that the authorizer writes. The body of every kind
// of denial has all the keys that its template reads.
func TestTemplateReadsWhatIsWritten(t *testing.T) {
	responses, text := deployed(t)
	banned := enforce.Result{ID: "aBY2A8bWP166"}
	denials := map[string]verdict{
		"over limits": verdictOf(fullResult(t)), "no limit": verdictOf(banned),
		"impossible": impossible("aBY2A8bWP166"), "unavailable": unavailable(),
	}
	written := []string{"error", "latency"} // API Gateway writes these, for access logs
	for _, v := range denials {
		for key := range v.context {
			written = append(written, key)
		}
	}
	named := authorizerKey.FindAllStringSubmatch(text, -1)
	if len(named) < 6 {
		t.Fatalf("the template reads only %q, want at least 6 keys", named)
	}
	for _, name := range named {
		if !slices.Contains(written, name[1]) {
			t.Errorf("the template reads %s, which the authorizer does not write", name[1])
		}
	}
	body := responses["ACCESS_DENIED"].ResponseTemplates["application/json"]
	for name, v := range denials {
		rendered := authorizerKey.ReplaceAllStringFunc(strings.ReplaceAll(body, "$context.authorizer",
			"context.authorizer"), func(key string) string {
			value, ok := v.context[strings.TrimPrefix(key, "context.authorizer.")]
			if !ok {
				t.Errorf("%s: the context lacks %s", name, key)
			}
			if strings.ContainsAny(fmt.Sprint(value), "\"\\") {
				t.Errorf("%s: %s is %q, which API Gateway may escape", name, key, value)
			}
			return fmt.Sprint(value)
		})
		var problem struct {
			Detail   string
			Violated []string `json:"violated-policies"`
		}
		if err := json.Unmarshal([]byte(rendered), &problem); err != nil || problem.Detail == "" ||
			problem.Violated == nil {
			t.Errorf("%s: %v in %s", name, err, rendered)
		}
	}
}

// A REST API's response to a bad credential has the same detail as an HTTP API's context.
func TestDetailOfUnauthorized(t *testing.T) {
	responses, _ := deployed(t)
	var problem struct{ Detail string }
	body := responses["UNAUTHORIZED"].ResponseTemplates["application/json"]
	if err := json.Unmarshal([]byte(body), &problem); err != nil || problem.Detail != answer.Unauthorized {
		t.Errorf("%v in %s, want %q", err, body, answer.Unauthorized)
	}
	if got := unauthorized().context[contextMessage]; got != answer.Unauthorized {
		t.Errorf("got %v, want %q", got, answer.Unauthorized)
	}
}

// fullResult is the result with the longest answer: every limit that can apply, and names
// of the greatest length that need escapes.
func fullResult(t *testing.T) enforce.Result {
	t.Helper()
	long := strings.Repeat("<", policy.MaxNameLen)
	c := enforce.Result{
		ID: strings.Repeat("a", 22), Name: long, Plan: long, Rule: long,
		Reservation: strings.Repeat("r", 512), SetVersion: 1 << 32, KeyVersion: 1 << 32,
		Cost: limiter.MaxRequests,
	}
	for _, scope := range []string{policy.ScopeKey, policy.ScopeRoute, policy.ScopeIP, policy.ScopeRouteIP,
		policy.ScopeGlobal, policy.ScopeRouteAll} {
		for i := range limiter.MaxLimits {
			l := limiter.Limit{Requests: limiter.MaxRequests - int64(i),
				Window: limiter.MaxWindow - time.Millisecond}
			if err := l.Validate(); err != nil {
				t.Fatal(err)
			}
			u := limiter.Usage{Limit: l, Reset: l.Window, RetryAfter: l.Window - time.Duration(i)*time.Hour}
			c.Limits = append(c.Limits, enforce.LimitState{Usage: u, Scope: scope, Mode: policy.Enforce})
		}
	}
	return c
}

// Every answer has less than 8 KB, and the RateLimit fields take at most a fifth of the
// 10,240 bytes of headers that an HTTP API passes on.
func TestAnswersAreBounded(t *testing.T) {
	c := fullResult(t)
	v := verdictOf(c)
	for _, a := range []Answers{simple, {Format: IAM, Denial: Deny, UsageIdentifier: true}} {
		raw, err := json.Marshal(v.response(event{kind: restRequest, arn: strings.Repeat("é", 800)}, a))
		if err != nil || len(raw) >= 8000 {
			t.Errorf("%d bytes, %v", len(raw), err)
		}
	}
	if n := len(v.context[contextRateLimit].(string)) +
		len(v.context[contextRateLimitPolicy].(string)); n > 10240/5 {
		t.Errorf("the fields have %d bytes, want at most %d", n, 10240/5)
	}
}

// No text in the context of a denial needs escaping in the template of a gateway
// response.
func TestDenialNeedsNoEscapes(t *testing.T) {
	v := verdictOf(fullResult(t))
	for _, key := range []string{contextMessage, contextProblemType} {
		text, _ := v.context[key].(string)
		if quoted := must(json.Marshal(text)); string(quoted) != `"`+text+`"` {
			t.Errorf("%s is %s", key, quoted)
		}
	}
	var names []string
	if err := json.Unmarshal([]byte(v.context[contextViolated].(string)), &names); err != nil ||
		len(names) != 10 {
		t.Errorf("got %d violated policies, want 10: %v, %v", len(names), names, err)
	}
	for _, name := range names {
		if !slices.Contains(strings.Split(fmt.Sprint(v.context[contextRateLimitPolicy]), `"`), name) {
			t.Errorf("%s is not in RateLimit-Policy", name)
		}
	}
}
