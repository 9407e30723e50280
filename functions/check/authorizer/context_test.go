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
	"tidegate/internal/limits"
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
	banned, never := enforce.Result{ID: "aBY2A8bWP166"}, fullResult()
	never.Limits[0].Never = true
	denials := map[string]verdict{
		"over limits": verdictOf(fullResult()), "no limit": verdictOf(banned),
		"never": verdictOf(never), "unavailable": unavailable(),
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
func fullResult() enforce.Result {
	long := strings.Repeat("<", policy.MaxNameLen)
	c := enforce.Result{ID: strings.Repeat("a", 22), Name: long, Plan: long,
		Route:      strings.Repeat("r", limits.MaxNameLen),
		SetVersion: 1 << 32, KeyVersion: 1 << 32, Cost: limits.MaxRequests}
	for i := range limits.MaxCounts {
		l := limits.Limit{Requests: limits.MaxRequests - int64(i),
			Window: limits.MaxWindow - time.Millisecond,
			Who:    limits.EachParam, Param: "channel",
			On: "/" + strings.Repeat("x", i)}
		c.Limits = append(c.Limits, enforce.LimitState{Applied: limits.Applied{Limit: l,
			Cost: limits.MaxRequests},
			Next: l.Window, RetryAfter: l.Window - time.Duration(i)*time.Hour})
	}
	return c
}

// Every answer has less than 8 KB, and the RateLimit fields take at most a fifth of the
// 10,240 bytes of headers that an HTTP API passes on.
func TestAnswersAreBounded(t *testing.T) {
	denied, allowed := fullResult(), fullResult()
	allowed.Allowed, allowed.Settlement = true, strings.Repeat("r", enforce.MaxSettlement)
	for _, a := range []Answers{simple, {Format: IAM, Denial: Deny, UsageIdentifier: true}} {
		for _, c := range []enforce.Result{denied, allowed} {
			e := event{kind: restRequest, arn: strings.Repeat("é", 800)}
			v := verdictOf(c)
			v.addClaims(map[string]any{"claim_a": "a", "claim_b": strings.Repeat("b", 2000),
				"claim_c": strings.Repeat("c", 2000)})
			raw, err := json.Marshal(v.response(e, a))
			if err != nil || len(raw) >= 8000 {
				t.Errorf("allowed %t: %d bytes, %v", c.Allowed, len(raw), err)
			}
		}
	}
	v := verdictOf(denied)
	if n := len(v.context[contextRateLimit].(string)) +
		len(v.context[contextRateLimitPolicy].(string)); n > 10240/5 {
		t.Errorf("the fields have %d bytes, want at most %d", n, 10240/5)
	}
}

// No text in the context of a denial needs escaping in the template of a gateway
// response.
func TestDenialNeedsNoEscapes(t *testing.T) {
	v := verdictOf(fullResult())
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

// Backends get the claims that there is room for, in the order of their names.
func TestClaimsInTheContext(t *testing.T) {
	v := verdict{context: map[string]any{contextDenied: false}}
	v.addClaims(map[string]any{"claim_a": 7.0, "claim_b": strings.Repeat("b", 5000),
		"claim_c": strings.Repeat("c", 5000)})
	if v.context["claim_a"] != 7.0 || v.context["claim_b"] == nil || v.context["claim_c"] != nil {
		t.Errorf("got %.200v, want the first two claims", v.context)
	}
}
