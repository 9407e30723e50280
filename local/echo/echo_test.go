package echo_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/go-cmp/cmp"

	"tidegate/local/echo"
)

type answer struct {
	Method     string         `json:"method"`
	Path       string         `json:"path"`
	Authorizer map[string]any `json:"authorizer"`
}

// Both payload formats give the same body; only the backend of a REST API has to add the
// RateLimit fields itself.
func TestBackend(t *testing.T) {
	authorizer := map[string]any{"rateLimit": "r", "rateLimitPolicy": "p", "plan": "free"}
	rest := events.APIGatewayProxyRequest{HTTPMethod: "PUT", Path: "/a",
		RequestContext: events.APIGatewayProxyRequestContext{Authorizer: authorizer}}
	httpAPI := events.APIGatewayV2HTTPRequest{Version: "2.0", RawPath: "/a",
		RequestContext: events.APIGatewayV2HTTPRequestContext{
			HTTP:       events.APIGatewayV2HTTPRequestContextHTTPDescription{Method: "PUT"},
			Authorizer: &events.APIGatewayV2HTTPRequestContextAuthorizerDescription{Lambda: authorizer},
		}}
	for name, c := range map[string]struct {
		event   any
		headers map[string]string
	}{
		"REST": {rest, map[string]string{"Content-Type": "application/json", "Cache-Control": "no-store",
			"RateLimit": "r", "RateLimit-Policy": "p"}},
		"HTTP": {httpAPI, map[string]string{"Content-Type": "application/json", "Cache-Control": "no-store"}},
	} {
		t.Run(name, func(t *testing.T) {
			response := invoke(t, c.event)
			if response.StatusCode != http.StatusOK {
				t.Errorf("status %d", response.StatusCode)
			}
			if diff := cmp.Diff(c.headers, response.Headers); diff != "" {
				t.Error(diff)
			}
			var got answer
			if err := json.Unmarshal([]byte(response.Body), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(answer{"PUT", "/a", authorizer}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Without an authorizer there is no context and no RateLimit field.
func TestBackendWithoutAuthorizer(t *testing.T) {
	response := invoke(t, events.APIGatewayProxyRequest{HTTPMethod: "GET", Path: "/"})
	if _, there := response.Headers["RateLimit"]; there || response.StatusCode != http.StatusOK {
		t.Errorf("got %+v", response)
	}
}

func TestBackendRefusesWhatIsNoEvent(t *testing.T) {
	if _, err := (echo.Backend{}).Invoke(t.Context(), []byte("[")); err == nil {
		t.Error("no error")
	}
}

func invoke(t *testing.T, event any) events.APIGatewayProxyResponse {
	t.Helper()
	payload, err := json.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	out, err := echo.Backend{}.Invoke(t.Context(), payload)
	if err != nil {
		t.Fatal(err)
	}
	var response events.APIGatewayProxyResponse
	if err := json.Unmarshal(out, &response); err != nil {
		t.Fatal(err)
	}
	return response
}
