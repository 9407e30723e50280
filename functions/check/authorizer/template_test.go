package authorizer

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tidegate/internal/answer"
	"tidegate/internal/enforce"
)

// gatewayResponse is one of a REST API, as the stack deploys it.
type gatewayResponse struct {
	ResponseType       string
	ResponseParameters map[string]string
	ResponseTemplates  map[string]string
}

// deployed is what the golden template says of gateway responses, by type, and all of its
// text.
func deployed(t *testing.T) (map[string]gatewayResponse, string) {
	t.Helper()
	text, err := os.ReadFile("../../../infra/golden/dev.json")
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

// authorizerKey is how templates and mappings name a key of the context.
var authorizerKey = regexp.MustCompile(`context\.authorizer\.(\w+)`)

// What the template reads of the context is what the authorizer writes: under no other
// name, and for the body of a denial whatever its reason.
func TestTemplateReadsWhatIsWritten(t *testing.T) {
	responses, text := deployed(t)
	banned := enforce.Result{ID: "aBY2A8bWP166"}
	denials := map[string]verdict{
		"over limits": verdictOf(crowded(t)), "no limit": verdictOf(banned),
		"impossible": impossible("aBY2A8bWP166"), "unavailable": unavailable(),
	}
	written := []string{"error", "latency"} // which API Gateway itself writes, for access logs
	for _, v := range denials {
		for key := range v.context {
			written = append(written, key)
		}
	}
	named := authorizerKey.FindAllStringSubmatch(text, -1)
	if len(named) < 6 {
		t.Fatalf("the template names %q alone", named)
	}
	for _, name := range named {
		if !slices.Contains(written, name[1]) {
			t.Errorf("nobody writes %s", name[1])
		}
	}
	body := responses["ACCESS_DENIED"].ResponseTemplates["application/json"]
	for name, v := range denials {
		rendered := authorizerKey.ReplaceAllStringFunc(strings.ReplaceAll(body, "$context.authorizer",
			"context.authorizer"), func(key string) string {
			value, ok := v.context[strings.TrimPrefix(key, "context.authorizer.")]
			if !ok {
				t.Errorf("%s: no %s", name, key)
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

// A REST API says of a bad credential what an HTTP API's context says.
func TestTemplateSaysUnauthorized(t *testing.T) {
	responses, _ := deployed(t)
	var problem struct{ Detail string }
	body := responses["UNAUTHORIZED"].ResponseTemplates["application/json"]
	if err := json.Unmarshal([]byte(body), &problem); err != nil || problem.Detail != answer.Unauthorized {
		t.Errorf("%v in %s, want %q", err, body, answer.Unauthorized)
	}
	if said := unauthorized().context[contextMessage]; said != answer.Unauthorized {
		t.Errorf("%v", said)
	}
}
