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

// Both payload formats give the same body. The backend adds the RateLimit fields only for
// a REST API.
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
		"REST": {rest, map[string]string{"RateLimit": "r", "RateLimit-Policy": "p"}},
		"HTTP": {httpAPI, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			response := invoke(t, echo.Backend{Origin: "none"}, c.event)
			if response.StatusCode != http.StatusOK {
				t.Errorf("status %d", response.StatusCode)
			}
			c.headers["Content-Type"], c.headers["Cache-Control"] = "application/json", "no-store"
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
	response := invoke(t, echo.Backend{}, events.APIGatewayProxyRequest{HTTPMethod: "GET", Path: "/"})
	if _, there := response.Headers["RateLimit"]; there || response.StatusCode != http.StatusOK {
		t.Errorf("got %+v", response)
	}
}

// The CORS headers allow the configured origin, or any origin by default.
func TestBackendCORS(t *testing.T) {
	const exposed = "Retry-After,RateLimit,RateLimit-Policy"
	for origin, want := range map[string][4]string{
		"":                    {"*", exposed, "", ""},
		"*":                   {"*", exposed, "", ""},
		"https://app.example": {"https://app.example", exposed, "true", "Origin"},
		"none":                {},
	} {
		event := events.APIGatewayProxyRequest{HTTPMethod: "GET", Path: "/"}
		h := invoke(t, echo.Backend{Origin: origin}, event).Headers
		got := [4]string{h["Access-Control-Allow-Origin"], h["Access-Control-Expose-Headers"],
			h["Access-Control-Allow-Credentials"], h["Vary"]}
		if got != want {
			t.Errorf("%q: %q, want %q", origin, got, want)
		}
	}
}

func TestBackendRefusesBadEvents(t *testing.T) {
	if _, err := (echo.Backend{}).Invoke(t.Context(), []byte("[")); err == nil {
		t.Error("got no error for a malformed event")
	}
}

func invoke(t *testing.T, backend echo.Backend, event any) events.APIGatewayProxyResponse {
	t.Helper()
	payload, err := json.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	out, err := backend.Invoke(t.Context(), payload)
	if err != nil {
		t.Fatal(err)
	}
	var response events.APIGatewayProxyResponse
	if err := json.Unmarshal(out, &response); err != nil {
		t.Fatal(err)
	}
	return response
}
