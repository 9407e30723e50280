package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// The sample backend returns the authorizer's context and the RateLimit fields. It
// refuses calls over a limit that the authorizer let pass with HTTP_API_DENY=context.
func TestBackend(t *testing.T) {
	for name, c := range map[string]struct {
		event         string
		status        int
		headers, body string
	}{
		"denied": {
			deniedEvent, 429,
			`{"Cache-Control":"no-store","Content-Type":"application/problem+json","Retry-After":"4"}`,
			`{"detail":"Wait.","instance":"urn:uuid:i","message":"Wait.","retry-after":"9","status":429,"title":"Too Many Requests","type":"about:blank","violated-policies":["a"]}`,
		},
		"REST": {
			`{"httpMethod":"GET","path":"/a","requestContext":{"authorizer":{"rateLimit":"r","rateLimitPolicy":"p","keyId":"k"}}}`, 200,
			`{"Cache-Control":"no-store","Content-Type":"application/json","RateLimit":"r","RateLimit-Policy":"p"}`,
			`{"authorizer":{"keyId":"k","rateLimit":"r","rateLimitPolicy":"p"},"method":"GET","path":"/a"}`,
		},
		"HTTP": {
			allowedEvent, 200,
			`{"Cache-Control":"no-store","Content-Type":"application/json"}`,
			`{"authorizer":{"rateLimit":"r"},"method":"PUT","path":"/b"}`,
		},
		"without authorizer": {
			`{"httpMethod":"GET","path":"/","requestContext":{}}`, 200,
			`{"Cache-Control":"no-store","Content-Type":"application/json"}`,
			`{"authorizer":{},"method":"GET","path":"/"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			answer := backendAnswer(t, c.event, "CORS_ORIGIN=none")
			equal(t, "status", answer.StatusCode, c.status)
			equal(t, "headers", canonical(t, mustJSON(t, answer.Headers)), c.headers)
			equal(t, "body", canonical(t, []byte(answer.Body)), c.body)
		})
	}
}

// Events of the example HTTP API: a call over a limit that the authorizer let pass, and
// one within its limits.
const (
	deniedEvent = `{"version":"2.0","requestContext":{"http":{},"requestId":"i","authorizer":{"lambda":{"denied":true,` +
		`"problemType":"about:blank","message":"Wait.","violatedPolicies":"[\"a\"]","retryAfter":"4","wait":"9"}}}}`
	allowedEvent = `{"version":"2.0","rawPath":"/b","requestContext":{"http":{"method":"PUT"},"authorizer":{"lambda":{"rateLimit":"r"}}}}`
)

// Scripts of the configured origin may read the sample backend's answers, allowed or
// refused, like the gateway responses. The stack sets the origin for the backend.
func TestBackendCORS(t *testing.T) {
	fields := append(slices.Clone(cors), "Access-Control-Allow-Credentials", "Vary")
	const exposed = "Retry-After,RateLimit,RateLimit-Policy"
	for _, c := range []struct {
		environment []string
		want        []string
	}{
		{nil, []string{"*", exposed, "", ""}},
		{[]string{"CORS_ORIGIN=*"}, []string{"*", exposed, "", ""}},
		{[]string{"CORS_ORIGIN=https://app.example.com"},
			[]string{"https://app.example.com", exposed, "true", "Origin"}},
		{[]string{"CORS_ORIGIN=none"}, []string{"", "", "", ""}},
	} {
		for _, event := range []string{deniedEvent, allowedEvent} {
			answer := backendAnswer(t, event, c.environment...)
			var got []string
			for _, field := range fields {
				got = append(got, answer.Headers[field])
			}
			equal(t, fmt.Sprint(c.environment, " ", answer.StatusCode), got, c.want)
		}
	}
	backend := of(t, dev).only(t, "AWS::Lambda::Function", "Backend").Properties
	equal(t, "the example's", backend.at("Environment", "Variables", "CORS_ORIGIN"), any("*"))
}

// backendResponse is what the sample backend returns to Lambda.
type backendResponse struct {
	StatusCode int
	Headers    map[string]string
	Body       string
}

// backendAnswer runs the sample backend on an event, with PATH and the given variables.
func backendAnswer(t *testing.T, event string, environment ...string) (answer backendResponse) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal(err) // the CDK needs Node.js too
	}
	script := fmt.Sprintf("require('./backend.js').handler(%s).then((r) => console.log(JSON.stringify(r)))",
		event)
	command := exec.CommandContext(t.Context(), node, "-e", script)
	command.Env = append([]string{"PATH=" + os.Getenv("PATH")}, environment...)
	output, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(output, &answer); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return answer
}

func mustJSON(t *testing.T, value any) []byte {
	t.Helper()
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// canonical returns JSON with sorted keys.
func canonical(t *testing.T, encoded []byte) string {
	t.Helper()
	var value any
	if err := json.Unmarshal(encoded, &value); err != nil {
		t.Fatalf("%v: %s", err, encoded)
	}
	return string(mustJSON(t, value))
}
