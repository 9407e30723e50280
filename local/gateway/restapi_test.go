package gateway_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/go-cmp/cmp"

	"tidegate/local/gateway"
	"tidegate/local/lambda"
)

const restARN = "arn:aws:execute-api:us-east-1:123456789012:localrest0/prod/"

func newREST(authorizer, integration *fake) *gateway.REST {
	return &gateway.REST{Authorizer: authorizer, Integration: integration, Now: noon}
}

func allowing(context string) *fake { return &fake{answer: policyAnswer("Allow", "*", context)} }

// The REQUEST event has the form of Amazon's guide.
func TestRESTAuthorizerEvent(t *testing.T) {
	authorizer := allowing(`{}`)
	api := newREST(authorizer, &fake{answer: okAnswer})
	r := get("/a%20b/c?x=1&x=2&y=%26", "X-Api-Key", "one", "X-Api-Key", "two", "X-Forwarded-For",
		"203.0.113.9", "User-Agent", "test",
		"Connection", "keep-alive, X-Hop", "X-Hop", "1", "Te", "trailers")
	if got := do(api, r); got.status != 200 {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	var e events.APIGatewayCustomAuthorizerRequestTypeRequest
	authorizer.event(t, &e)
	if e.RequestContext.RequestID == "" {
		t.Error("no request id")
	}
	e.RequestContext.RequestID = ""
	want := events.APIGatewayCustomAuthorizerRequestTypeRequest{
		Type:       "REQUEST",
		MethodArn:  restARN + "GET/a%20b/c",
		Resource:   "/{proxy+}",
		Path:       "/a%20b/c",
		HTTPMethod: "GET",
		Headers: map[string]string{"Host": "127.0.0.1:8080", "User-Agent": "test", "X-Api-Key": "two",
			"X-Forwarded-For": "203.0.113.9, 192.0.2.7", "X-Forwarded-Port": "8080",
			"X-Forwarded-Proto": "http"},
		MultiValueHeaders: map[string][]string{"Host": {"127.0.0.1:8080"}, "User-Agent": {"test"},
			"X-Api-Key":       {"one", "two"},
			"X-Forwarded-For": {"203.0.113.9, 192.0.2.7"}, "X-Forwarded-Port": {"8080"},
			"X-Forwarded-Proto": {"http"}},
		QueryStringParameters:           map[string]string{"x": "2", "y": "&"},
		MultiValueQueryStringParameters: map[string][]string{"x": {"1", "2"}, "y": {"&"}},
		PathParameters:                  map[string]string{"proxy": "a%20b/c"},
		StageVariables:                  map[string]string{},
		RequestContext: events.APIGatewayCustomAuthorizerRequestTypeRequestContext{
			Path: "/prod/a%20b/c", AccountID: "123456789012", ResourceID: "local", Stage: "prod",
			ResourcePath: "/{proxy+}", HTTPMethod: "GET",
			APIID: "localrest0", Identity: events.APIGatewayCustomAuthorizerRequestTypeRequestIdentity{
				SourceIP: "192.0.2.7"},
		},
	}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Error(diff)
	}
}

// Our event has every field of AWS's sample, except those of features that are not
// emulated.
func TestRESTAuthorizerEventHasTheSamplesFields(t *testing.T) {
	authorizer := allowing(`{}`)
	do(newREST(authorizer, &fake{answer: okAnswer}), get("/request?QueryString1=v"))
	var got map[string]any
	authorizer.event(t, &got)
	sample := sampleEvent(t, "apigw-custom-auth-request-type-request.json")
	delete(sample["requestContext"].(map[string]any)["identity"].(map[string]any), "clientCert") // mutual TLS
	// Only usage plans send apiKey.
	delete(sample["requestContext"].(map[string]any)["identity"].(map[string]any), "apiKey")
	for _, path := range missingFields(sample, got, "headers", "multiValueHeaders", "stageVariables",
		"pathParameters") {
		t.Errorf("event lacks %s", path)
	}
}

func TestRESTTokenAuthorizer(t *testing.T) {
	authorizer := allowing(`{}`)
	api := newREST(authorizer, &fake{answer: okAnswer})
	api.Token = true
	if got := do(api, get("/hello")); got.status != 401 || authorizer.invocations() != 0 {
		t.Errorf("without a token: status %d, %d invocations", got.status, authorizer.invocations())
	}
	if got := do(api, newRequest("POST", "/", "", "Authorization", "Bearer x")); got.status != 200 {
		t.Errorf("with a token: status %d", got.status)
	}
	var e events.APIGatewayCustomAuthorizerRequest
	authorizer.event(t, &e)
	want := events.APIGatewayCustomAuthorizerRequest{Type: "TOKEN", AuthorizationToken: "Bearer x",
		MethodArn: restARN + "POST/"}
	if e != want {
		t.Errorf("got %+v", e)
	}
}

// A client gets the documented status and body for each answer of an authorizer if no
// gateway response is configured.
func TestRESTRefusals(t *testing.T) {
	const refused = `{"message":"User is not authorized to access this resource`
	for _, c := range []struct {
		name       string
		authorizer *fake
		status     int
		body       string
	}{
		{"explicit deny", &fake{answer: policyAnswer("Deny", "*", `{}`)}, 403,
			refused + ` with an explicit deny"}`},
		{"no statement matches", &fake{answer: policyAnswer("Allow", restARN+"GET/other", `{}`)}, 403,
			refused + `"}`},
		{"Unauthorized", &fake{err: reported("Unauthorized")}, 401, `{"message":"Unauthorized"}`},
		{"almost Unauthorized", &fake{err: reported("unauthorized")}, 500, `{"message":null}`},
		{"another error", &fake{err: reported("Valkey is down")}, 500, `{"message":null}`},
		{"a crash with the text Unauthorized", &fake{err: errors.New("Unauthorized")}, 500,
			`{"message":null}`},
		{"timeout of the function", &fake{err: &lambda.TimeoutError{}}, 500, `{"message":null}`},
		{"timeout of the gateway", &fake{hang: true}, 500, `{"message":null}`},
		{"malformed answer", &fake{answer: `{}`}, 500, `{"message":null}`},
		{"context with a list", &fake{answer: policyAnswer("Allow", "*", `{"a":[1]}`)}, 500,
			`{"message":null}`},
		{"context with null", &fake{answer: policyAnswer("Deny", "*", `{"a":null}`)}, 500,
			`{"message":null}`},
		{"answer over 8 KB", &fake{answer: policyAnswer("Allow", "*",
			`{"a":"`+strings.Repeat("x", 8<<10)+`"}`)}, 500, `{"message":null}`},
		{"simple response", &fake{answer: `{"isAuthorized":true}`}, 500, `{"message":null}`},
	} {
		inBubble(t, c.name, func(t *testing.T) {
			integration := &fake{answer: okAnswer}
			got := do(newREST(c.authorizer, integration), get("/hello"))
			if got.status != c.status || got.body != c.body ||
				got.header.Get("Content-Type") != "application/json" {
				t.Errorf("got %d %s %v", got.status, got.body, got.header)
			}
			if got.header.Get("X-Amzn-Requestid") == "" || got.header.Get("X-Amzn-Errortype") == "" {
				t.Errorf("headers %v", got.header)
			}
			if integration.invocations() != 0 {
				t.Error("the integration was invoked")
			}
		})
	}
}

// arnOfRoot is the method ARN of the path /.
const arnOfRoot = "arn:aws:execute-api:us-east-1:123456789012:localrest0/prod/GET/"

// The body of a 429 is JSON with the same content whether or not quotes in context values
// are escaped. The body has the content of the headers too.
func TestDeniedBodyIsJSONEitherWay(t *testing.T) {
	const types = "https://iana.org/assignments/http-problem-types#"
	for name, c := range map[string]struct{ context, problem, policy, retry string }{
		"limit": {`{"problemType":"` + types +
			`quota-exceeded","message":"The limit of 10 per 10 seconds is reached. Retry after 7 seconds.",
			"violatedPolicies":"[\"10 per 10 seconds\"]","violatedPolicy":"10 per 10 seconds","retryAfter":"7","wait":"7"}`,
			"quota-exceeded", "10 per 10 seconds", "7"},
		"ban": {`{"problemType":"` + types +
			`abnormal-usage-detected","message":"This caller is banned. Retry after 9 seconds.",
			"violatedPolicies":"[]","violatedPolicy":"ban","retryAfter":"9","wait":"9"}`,
			"abnormal-usage-detected", "ban", "9"},
		"never passes": {`{"problemType":"` + types + `quota-exceeded",` +
			`"message":"It can never pass.","violatedPolicies":"[]","violatedPolicy":"cost","wait":"never"}`,
			"quota-exceeded", "cost", "never"},
	} {
		bodies := map[string]bool{}
		for _, escape := range []bool{false, true} {
			api := newREST(&fake{answer: policyAnswer("Deny", "*", c.context)}, &fake{})
			api.Responses, api.EscapeTemplates = deployed(t).REST.Responses, escape
			got := do(api, get("/hello"))
			var problem struct {
				Type, Detail string
				Violated     []string `json:"violated-policies"`
				Retry        string   `json:"retry-after"`
			}
			if err := json.Unmarshal([]byte(got.body), &problem); err != nil {
				t.Fatalf("%s, escaped %t: %v: %s", name, escape, err, got.body)
			}
			if problem.Type != types+c.problem || !reflect.DeepEqual(problem.Violated, []string{c.policy}) ||
				problem.Retry != c.retry {
				t.Errorf("%s, escaped %t: %+v", name, escape, problem)
			}
			bodies[strings.Replace(got.body, got.header.Get("X-Amzn-Requestid"), "", 1)] = true
		}
		if len(bodies) != 1 {
			t.Errorf("%s: escaping changes the body: %v", name, bodies)
		}
	}
}

// EscapeTemplates escapes quotes and backslashes of context values.
func TestEscapeTemplates(t *testing.T) {
	for escape, want := range map[bool]string{false: `[a"\b]`, true: `[a\"\\b]`} {
		api := newREST(&fake{answer: policyAnswer("Deny", "*", `{"s":"a\"\\b"}`)}, &fake{})
		api.EscapeTemplates = escape
		api.Responses = map[gateway.ResponseType]gateway.Response{gateway.AccessDenied: {
			ResponseTemplates: map[string]string{
				"application/json": `[$context.authorizer.s$context.authorizer.none]`},
		}}
		if got := do(api, get("/hello")); got.body != want {
			t.Errorf("%t: %s, want %s", escape, got.body, want)
		}
	}
}

// Expressions and templates replace the variables of Amazon's guide and no others.
func TestGatewayResponseMapping(t *testing.T) {
	api := newREST(&fake{answer: policyAnswer("Deny", "*", `{"n":1.50,"b":true,"s":"a\r\nb","quote":"\""}`)},
		&fake{})
	api.Responses = map[gateway.ResponseType]gateway.Response{gateway.Default4XX: {
		StatusCode: 418,
		ResponseParameters: map[string]string{
			"gatewayresponse.header.X-Literal":   "'it''s'",
			"gatewayresponse.header.X-Number":    "context.authorizer.n",
			"gatewayresponse.header.X-Bool":      "context.authorizer.b",
			"gatewayresponse.header.X-Principal": "context.authorizer.principalId",
			"gatewayresponse.header.X-Type":      "context.error.responseType",
			"gatewayresponse.header.X-IP":        "context.identity.sourceIp",
			"gatewayresponse.header.X-Path":      "context.path",
			"gatewayresponse.header.X-Split":     "context.authorizer.s",
			"gatewayresponse.header.X-Unknown":   "context.authorizer.nothing",
			"gatewayresponse.header.X-Other":     "whatever",
			"gatewayresponse.header.X-Dollar":    "$context.requestId",
			"gatewayresponse.body.X-Body":        "'x'",
		},
		ResponseTemplates: map[string]string{
			"application/json": `$context.error.message|$context.error.messageString|` +
				`$context.authorizer.quote|$context.nothing|$context.httpMethod.|$input.body|$context`},
	}}
	got := do(api, get("/a/b"))
	wantHeaders(t, got.header, map[string]string{"X-Literal": "it''s", "X-Number": "1.50", "X-Bool": "true",
		"X-Principal": "key1",
		"X-Type":      "ACCESS_DENIED", "X-Ip": "192.0.2.7", "X-Path": "/prod/a/b", "X-Split": "",
		"X-Unknown": "", "X-Other": "", "X-Dollar": "", "X-Body": "", "Content-Type": "application/json"})
	const message = "User is not authorized to access this resource with an explicit deny"
	want := message + `|"` + message + `"|"||GET.|$input.body|$context`
	if got.status != 418 || got.body != want {
		t.Errorf("got %d %s\nwant %s", got.status, got.body, want)
	}
}

// The backend gets a proxy event 1.0 with the context as strings.
func TestRESTProxyEvent(t *testing.T) {
	integration := &fake{answer: okAnswer}
	api := newREST(allowing(`{"plan":"free","remaining":9,"blocked":false}`), integration)
	do(api, newRequest("POST", "/", `{"a":"é"}`, "Content-Type", "application/json"))
	var e events.APIGatewayProxyRequest
	integration.event(t, &e)
	if e.Resource != "/" || e.Path != "/" || e.HTTPMethod != "POST" || e.Body != `{"a":"é"}` ||
		e.IsBase64Encoded {
		t.Errorf("got %+v", e)
	}
	if e.QueryStringParameters != nil || e.PathParameters != nil || e.StageVariables != nil {
		t.Errorf("empty maps are not null: %+v", e)
	}
	want := map[string]any{"principalId": "key1", "plan": "free", "remaining": "9", "blocked": "false"}
	if diff := cmp.Diff(want, e.RequestContext.Authorizer); diff != "" {
		t.Error(diff)
	}
	if rc := e.RequestContext; rc.RequestTime != "04/May/2026:10:00:00 +0000" ||
		rc.RequestTimeEpoch != noon().UnixMilli() || rc.Path != "/prod/" ||
		rc.Identity.SourceIP != "192.0.2.7" {
		t.Errorf("request context %+v", rc)
	}
}

// Without binary media types, API Gateway passes bodies as text in both directions.
func TestRESTBinaryBodies(t *testing.T) {
	integration := &fake{answer: `{"statusCode":200,"body":"/w==","isBase64Encoded":true}`}
	got := do(newREST(allowing(`{}`), integration), newRequest("POST", "/", "\xff\x00", "Content-Type",
		"image/png", "Accept", "image/png"))
	var e events.APIGatewayProxyRequest
	integration.event(t, &e)
	if e.Body != "\ufffd\x00" || e.IsBase64Encoded || got.body != "/w==" {
		t.Errorf("event body %q, base64 %t; response body %q", e.Body, e.IsBase64Encoded, got.body)
	}
}

func TestRESTResponses(t *testing.T) {
	const malformed = `{"message":"Internal server error"}`
	for _, c := range []integrationCase{
		{"full", &fake{answer: `{"statusCode":201,"headers":{"X-One":"1","X-N":5},"body":"hi"}`}, 201, "hi",
			map[string]string{"X-One": "1", "X-N": "5", "Content-Type": "application/json",
				"Content-Length": "2"}},
		{"status as text", &fake{answer: `{"statusCode":"404"}`}, 404, "", nil},
		{"hop-by-hop and reserved headers",
			&fake{
				answer: `{"statusCode":200,"headers":{"Connection":"close","WWW-Authenticate":"x","Server":"s",` +
					`"Content-Length":"99"}}`}, 200, "", map[string]string{"Connection": "",
				"Www-Authenticate": "", "X-Amzn-Remapped-Www-Authenticate": "x",
				"X-Amzn-Remapped-Server": "s", "Content-Length": "0"}},
		{"null", &fake{answer: `null`}, 502, malformed, nil},
		{"a string", &fake{answer: `"hello"`}, 502, malformed, nil},
		{"no status", &fake{answer: `{"body":"hi"}`}, 502, malformed, nil},
		{"status out of range", &fake{answer: `{"statusCode":99}`}, 502, malformed, nil},
		{"informational status", &fake{answer: `{"statusCode":101}`}, 502, malformed, nil},
		{"fractional status", &fake{answer: `{"statusCode":200.5}`}, 502, malformed, nil},
		{"body is an object", &fake{answer: `{"statusCode":200,"body":{}}`}, 502, malformed, nil},
		{"header is a list", &fake{answer: `{"statusCode":200,"headers":{"A":["b"]}}`}, 502, malformed, nil},
		{"header splits", &fake{answer: `{"statusCode":200,"headers":{"A":"b\r\nSet-Cookie: c"}}`}, 502,
			malformed, nil},
		{"header name splits", &fake{answer: `{"statusCode":200,"headers":{"A: b\r\nC":"d"}}`}, 502,
			malformed, nil},
		{"function error", &fake{err: reported("boom")}, 502, malformed, nil},
		{"function timeout", &fake{err: &lambda.TimeoutError{}}, 502, malformed, nil},
		{"event over Lambda's limit", &fake{err: &lambda.PayloadError{}}, 413,
			`{"message":"Request Too Long"}`, nil},
		{"gateway timeout", &fake{hang: true}, 504, `{"message":"Endpoint request timed out"}`, nil},
	} {
		inBubble(t, c.name, func(t *testing.T) {
			c.check(t, newREST(allowing(`{}`), c.fake))
		})
	}
}

// A header that is in both maps with one value is sent once; all other values are sent
// too.
func TestRESTMergesHeaders(t *testing.T) {
	answer :=
		`{"statusCode":200,"headers":{"X-A":"1","X-B":"3"},"multiValueHeaders":{"X-A":["1","2"],"X-B":["4"]}}`
	got := do(newREST(allowing(`{}`), &fake{answer: answer}), get("/"))
	if a := got.header.Values("X-A"); !reflect.DeepEqual(a, []string{"1", "2"}) {
		t.Errorf("X-A %v", a)
	}
	if b := got.header.Values("X-B"); !reflect.DeepEqual(b, []string{"4", "3"}) {
		t.Errorf("X-B %v", b)
	}
}

// A request that is too large invokes no function, so it takes nothing from any limit.
func TestRESTRequestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		request *http.Request
		status  int
	}{
		"body over 10 MB":           {newRequest("POST", "/", strings.Repeat("x", 10<<20+1)), 413},
		"headers over 10,240 bytes": {get("/", "X-Big", strings.Repeat("x", 10_240)), 431},
		"names of headers do not count": {
			get("/", strings.Repeat("x", 9_000), strings.Repeat("y", 9_000)), 200},
		"the request line does not": {get("/?" + strings.Repeat("x", 10_240)), 200},
		"ARN of 1,600 bytes":        {get("/" + strings.Repeat("x", 1600-len(arnOfRoot))), 200},
		"ARN over 1,600 bytes":      {get("/" + strings.Repeat("x", 1601-len(arnOfRoot))), 414},
	} {
		t.Run(name, func(t *testing.T) {
			authorizer := allowing(`{}`)
			got := do(newREST(authorizer, &fake{answer: okAnswer}), c.request)
			if got.status != c.status || (authorizer.invocations() > 0) != (c.status == http.StatusOK) {
				t.Errorf("status %d, %d invocations", got.status, authorizer.invocations())
			}
		})
	}
}
