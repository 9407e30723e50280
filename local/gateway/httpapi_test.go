package gateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/go-cmp/cmp"

	"tidegate/local/gateway"
	"tidegate/local/lambda"
)

const httpARN = "arn:aws:execute-api:us-east-1:123456789012:localhttp0/$default/"

func newHTTP(authorizer, integration *fake) *gateway.HTTP {
	return &gateway.HTTP{Authorizer: authorizer, Simple: true, Integration: integration, Now: noon}
}

func authorizing(context string) *fake {
	return &fake{answer: `{"isAuthorized":true,"context":` + context + `}`}
}

// The authorizer's event 2.0 has the form of Amazon's guide.
func TestHTTPAuthorizerEvent(t *testing.T) {
	authorizer := authorizing(`{}`)
	r := get("/a%20b?x=1&x=2&y=%26", "X-Api-Key", "one", "X-Api-Key", "two", "Cookie", "a=1; b=2", "Cookie",
		"c=3", "User-Agent", "test")
	if got := do(newHTTP(authorizer, &fake{answer: okAnswer}), r); got.status != 200 {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	var e events.APIGatewayV2CustomAuthorizerV2Request
	authorizer.event(t, &e)
	if e.RequestContext.RequestID == "" {
		t.Error("no request id")
	}
	e.RequestContext.RequestID = ""
	want := events.APIGatewayV2CustomAuthorizerV2Request{
		Version:        "2.0",
		Type:           "REQUEST",
		RouteArn:       httpARN + "GET/a%20b",
		RouteKey:       "$default",
		RawPath:        "/a%20b",
		RawQueryString: "x=1&x=2&y=%26",
		Cookies:        []string{"a=1", "b=2", "c=3"},
		Headers: map[string]string{"host": "127.0.0.1:8080", "user-agent": "test", "x-api-key": "one,two",
			"x-forwarded-for":  "192.0.2.7",
			"x-forwarded-port": "8080", "x-forwarded-proto": "http"},
		QueryStringParameters: map[string]string{"x": "1,2", "y": "&"},
		RequestContext: events.APIGatewayV2HTTPRequestContext{
			RouteKey: "$default", AccountID: "123456789012", Stage: "$default", APIID: "localhttp0",
			DomainName: "localhttp0.execute-api.us-east-1.amazonaws.com", DomainPrefix: "localhttp0",
			Time: "04/May/2026:10:00:00 +0000", TimeEpoch: noon().UnixMilli(),
			HTTP: events.APIGatewayV2HTTPRequestContextHTTPDescription{
				Method: "GET", Path: "/a%20b", Protocol: "HTTP/1.1", SourceIP: "192.0.2.7", UserAgent: "test",
			},
		},
	}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Error(diff)
	}
}

// Our events have every field of AWS's samples, except those of features that are not
// emulated.
func TestHTTPEventsHaveTheSamplesFields(t *testing.T) {
	for sample, format := range map[string]gateway.Format{
		"apigw-v2-custom-authorizer-v2-request.json": gateway.Format2,
		"apigw-v2-custom-authorizer-v1-request.json": gateway.Format1,
	} {
		authorizer := &fake{answer: policyAnswer("Allow", "*", `{}`)}
		api := newHTTP(authorizer, &fake{answer: okAnswer})
		api.Format, api.Simple = format, false
		do(api, get("/my/path?parameter1=v", "Cookie", "a=b"))
		var got map[string]any
		authorizer.event(t, &got)
		for _, path := range missingFields(sampleEvent(t, sample), got, "headers", "queryStringParameters",
			"stageVariables", "pathParameters") {
			switch path {
			case "requestContext.authentication", "requestContext.identity.clientCert",
				"requestContext.identity.apiKey", "pathParameters", "stageVariables":
			default:
				t.Errorf("%s: event lacks %s", sample, path)
			}
		}
	}
}

func TestHTTPAuthorizerEventV1(t *testing.T) {
	authorizer := &fake{answer: policyAnswer("Allow", httpARN+"GET/*", `{"plan":"free"}`)}
	integration := &fake{answer: okAnswer}
	api := newHTTP(authorizer, integration)
	api.Format = gateway.Format1
	if got := do(api, get("/hello?a=1&a=2", "X-Api-Key", "k")); got.status != 200 {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	var e events.APIGatewayV2CustomAuthorizerV1Request
	authorizer.event(t, &e)
	if e.Version != "1.0" || e.Type != "REQUEST" || e.MethodArn != httpARN+"GET/hello" ||
		e.Path != "/hello" ||
		e.Headers["X-Api-Key"] != "k" || e.QueryStringParameters["a"] != "2" ||
		e.RequestContext.Identity.SourceIP != "192.0.2.7" {
		t.Errorf("got %+v", e)
	}
	var proxy events.APIGatewayV2HTTPRequest
	integration.event(t, &proxy)
	if proxy.RequestContext.Authorizer == nil || proxy.RequestContext.Authorizer.Lambda["plan"] != "free" {
		t.Errorf("context %+v", proxy.RequestContext.Authorizer)
	}
}

// A client gets the documented status and body for each answer of an authorizer.
func TestHTTPRefusals(t *testing.T) {
	const forbidden, failed = `{"message":"Forbidden"}`, `{"message":"Internal Server Error"}`
	for _, c := range []struct {
		name       string
		authorizer *fake
		change     func(*gateway.HTTP)
		status     int
		body       string
	}{
		{"not authorized", &fake{answer: `{"isAuthorized":false,"context":{"retryAfter":"7"}}`}, nil,
			403, forbidden},
		{"deny", &fake{answer: policyAnswer("Deny", "*", `{}`)}, iam, 403, forbidden},
		{"no statement matches", &fake{answer: policyAnswer("Allow", httpARN+"POST/*", `{}`)}, iam,
			403, forbidden},
		{"simple answer where a policy is required", authorizing(`{}`), iam, 500, failed},
		{"policy where a simple answer is required", &fake{answer: policyAnswer("Allow", "*", `{}`)},
			nil, 500, failed},
		{"simple answer in format 1.0", authorizing(`{}`), format1, 500, failed},
		{"list in the context in format 1.0", &fake{answer: policyAnswer("Allow", "*", `{"a":[]}`)},
			format1, 500, failed},
		{"isAuthorized is text", &fake{answer: `{"isAuthorized":"true"}`}, nil, 500, failed},
		{"isAuthorized is null", &fake{answer: `{"isAuthorized":null}`}, nil, 500, failed},
		{"error Unauthorized", &fake{err: reported("Unauthorized")}, nil, 500, failed},
		{"another error", &fake{err: reported("boom")}, nil, 500, failed},
		{"timeout", &fake{hang: true}, nil, 500, failed},
	} {
		inBubble(t, c.name, func(t *testing.T) {
			integration := &fake{answer: okAnswer}
			api := newHTTP(c.authorizer, integration)
			api.ResponseParameters = deployed(t).HTTP.ResponseParameters
			if c.change != nil {
				c.change(api)
			}
			got := do(api, get("/hello"))
			if got.status != c.status || got.body != c.body || got.header.Get("Apigw-Requestid") == "" ||
				integration.invocations() != 0 {
				t.Errorf("got %d %s %v, %d invocations", got.status, got.body, got.header,
					integration.invocations())
			}
			if got.header.Get("Retry-After") != "" {
				t.Error("got Retry-After, which an HTTP API cannot send with a refusal")
			}
		})
	}
}

func iam(a *gateway.HTTP) { a.Simple = false }

func format1(a *gateway.HTTP) { a.Format = gateway.Format1 }

// The backend gets the context, with values of any JSON type, under authorizer.lambda.
func TestHTTPProxyEvent(t *testing.T) {
	for _, c := range []struct {
		name, contentType, encoding, body, sent string
		base64                                  bool
	}{
		{"no body", "", "", "", "", false},
		{"JSON", "application/json; charset=utf-8", "", `{"a":1}`, `{"a":1}`, false},
		{"text", "text/csv", "", "a,b", "a,b", false},
		{"a form", "application/x-www-form-urlencoded", "", "a=b", "YT1i", true},
		{"binary", "application/octet-stream", "", "\xff", "/w==", true},
		{"compressed JSON", "application/json", "gzip", "\x1f", "Hw==", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			integration := &fake{answer: okAnswer}
			r := newRequest("POST", "/form", c.body, "Content-Type", c.contentType,
				"Content-Encoding", c.encoding)
			do(newHTTP(authorizing(`{"plan":"free","n":1.5,"list":["a"]}`), integration), r)
			var e events.APIGatewayV2HTTPRequest
			integration.event(t, &e)
			if e.Body != c.sent || e.IsBase64Encoded != c.base64 || e.RawPath != "/form" ||
				e.RequestContext.HTTP.Method != http.MethodPost ||
				e.Version != "2.0" {
				t.Errorf("got %+v", e)
			}
			want := map[string]any{"plan": "free", "n": 1.5, "list": []any{"a"}}
			if diff := cmp.Diff(want, e.RequestContext.Authorizer.Lambda); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHTTPWithoutAuthorizer(t *testing.T) {
	integration := &fake{answer: okAnswer}
	api := &gateway.HTTP{Integration: integration}
	if got := do(api, get("/")); got.status != 200 || got.body != "ok" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	var e events.APIGatewayV2HTTPRequest
	integration.event(t, &e)
	if e.RequestContext.Authorizer != nil {
		t.Errorf("authorizer %+v", e.RequestContext.Authorizer)
	}
}

func TestHTTPResponses(t *testing.T) {
	const failed = `{"message":"Internal Server Error"}`
	for _, c := range []integrationCase{
		{"full", &fake{answer: `{"statusCode":201,"headers":{"X-One":"1"},"body":"hi"}`}, 201, "hi",
			map[string]string{"X-One": "1", "Content-Type": "text/plain;charset=utf-8",
				"Content-Length": "2"}},
		{"base64",
			&fake{
				answer: `{"statusCode":200,"headers":{"Content-Type":"image/png"},"body":"/w==","isBase64Encoded":true}`}, 200, "\xff",
			map[string]string{"Content-Type": "image/png"}},
		{"an object without a status", &fake{answer: `{"hello":"world"}`}, 200, `{"hello":"world"}`,
			map[string]string{"Content-Type": "application/json"}},
		{"a string", &fake{answer: `"hello"`}, 200, `"hello"`,
			map[string]string{"Content-Type": "application/json"}},
		{"a list", &fake{answer: `[1]`}, 200, `[1]`, map[string]string{"Content-Type": "application/json"}},
		{"hop-by-hop headers",
			&fake{
				answer: `{"statusCode":200,"headers":{"Connection":"close, X-A","X-A":"1","Content-Length":"9"}}`}, 200, "",
			map[string]string{"Connection": "", "X-A": "", "Content-Length": "0"}},
		{"no body on 304", &fake{answer: `{"statusCode":304}`}, 304, "",
			map[string]string{"Content-Length": ""}},
		{"bad base64", &fake{answer: `{"statusCode":200,"body":"?","isBase64Encoded":true}`},
			500, failed, nil},
		{"bad status", &fake{answer: `{"statusCode":"ok"}`}, 500, failed, nil},
		{"header splits", &fake{answer: `{"statusCode":200,"headers":{"A":"b\nc"}}`}, 500, failed, nil},
		{"cookie splits", &fake{answer: `{"statusCode":200,"cookies":["a=b\r\nX: y"]}`}, 500, failed, nil},
		{"function error", &fake{err: reported("boom")}, 500, failed, nil},
		{"event over Lambda's limit", &fake{err: &lambda.PayloadError{}}, 413,
			`{"message":"Request Entity Too Large"}`, nil},
		{"gateway timeout", &fake{hang: true}, 504, `{"message":"Gateway Timeout"}`, nil},
	} {
		inBubble(t, c.name, func(t *testing.T) {
			c.check(t, newHTTP(authorizing(`{}`), c.fake))
		})
	}
}

// Format 2.0 has cookies and no multiValueHeaders.
func TestHTTPCookies(t *testing.T) {
	answer :=
		`{"statusCode":200,"headers":{"Set-Cookie":"a=1"},"multiValueHeaders":{"X-Multi":["1"]},"cookies":["b=2; Secure","c=3"]}`
	got := do(newHTTP(authorizing(`{}`), &fake{answer: answer}), get("/"))
	if cookies := got.header.Values("Set-Cookie"); !reflect.DeepEqual(cookies,
		[]string{"a=1", "b=2; Secure", "c=3"}) {
		t.Errorf("cookies %q", cookies)
	}
	if got.header.Get("X-Multi") != "" {
		t.Error("the gateway sent a header of multiValueHeaders")
	}
}

// The deployed mapping sets the RateLimit fields on an answer of any status, in place of
// the backend's.
func TestRateLimitMapping(t *testing.T) {
	for _, status := range []string{"200", "302", "404", "503"} {
		integration := &fake{answer: `{"statusCode":` + status +
			`,"headers":{"RateLimit":"the backend's own"}}`}
		api := newHTTP(authorizing(
			`{"rateLimit":"\"default\";r=9;t=1","rateLimitPolicy":"\"default\";q=10;w=10"}`), integration)
		api.ResponseParameters = deployed(t).HTTP.ResponseParameters
		got := do(api, get("/"))
		wantHeaders(t, got.header, map[string]string{"RateLimit": `"default";r=9;t=1`,
			"RateLimit-Policy": `"default";q=10;w=10`})
		if n := len(got.header.Values("RateLimit")); n != 1 {
			t.Errorf("%d RateLimit fields", n)
		}
	}
}

// A mapping sets headers from the context. An expression without a value, or with one that
// a header cannot have, changes nothing.
func TestMapping(t *testing.T) {
	integration := &fake{answer: `{"statusCode":200,"headers":{"X-B":"b","X-Empty":"own"},"body":"x"}`}
	api := newHTTP(authorizing(`{"n":7,"empty":"","split":"a\r\nb"}`), integration)
	api.ResponseParameters = map[int]gateway.Mapping{200: {
		"overwrite:header.X-B":       "$context.authorizer.n",
		"overwrite:header.X-Empty":   "$context.authorizer.empty",
		"overwrite:header.X-Unknown": "$context.authorizer.unknown",
		"overwrite:header.X-Split":   "$context.authorizer.split",
	}, 500: {"overwrite:header.X-Wrong": "$context.authorizer.n"}}
	got := do(api, get("/"))
	wantHeaders(t, got.header, map[string]string{"X-B": "7", "X-Empty": "own", "X-Unknown": "",
		"X-Split": "", "X-Wrong": ""})
	if _, there := got.header["X-Unknown"]; got.status != http.StatusOK || there {
		t.Errorf("status %d, headers %v", got.status, got.header)
	}
}

func TestHTTPRequestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		request *http.Request
		status  int
	}{
		"body over 10 MB":           {newRequest("POST", "/", strings.Repeat("x", 10<<20+1)), 413},
		"headers over 10,240 bytes": {get("/", "X-Big", strings.Repeat("x", 10_240)), 431},
	} {
		t.Run(name, func(t *testing.T) {
			authorizer := authorizing(`{}`)
			got := do(newHTTP(authorizer, &fake{answer: okAnswer}), c.request)
			if got.status != c.status || authorizer.invocations() != 0 || !json.Valid([]byte(got.body)) {
				t.Errorf("got %d %s, %d invocations", got.status, got.body, authorizer.invocations())
			}
		})
	}
}

// A client that disconnects cancels nothing: both functions are still invoked, with
// contexts that have not ended.
func TestClientDisconnects(t *testing.T) {
	for name, api := range map[string]func(authorizer, integration gateway.Invoker) http.Handler{
		"REST": func(a, i gateway.Invoker) http.Handler {
			return &gateway.REST{Authorizer: a, Integration: i}
		},
		"HTTP": func(a, i gateway.Invoker) http.Handler {
			return &gateway.HTTP{Authorizer: a, Integration: i}
		},
	} {
		t.Run(name, func(t *testing.T) {
			authorizer := &alive{t: t, answer: policyAnswer("Allow", "*", `{}`)}
			integration := &alive{t: t, answer: okAnswer}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			do(api(authorizer, integration), get("/").WithContext(ctx))
			if !authorizer.invoked || !integration.invoked {
				t.Errorf("authorizer invoked: %t, integration: %t", authorizer.invoked, integration.invoked)
			}
		})
	}
}

// alive is a function that fails the test if its context has no deadline or has ended.
type alive struct {
	t       *testing.T
	answer  string
	invoked bool
}

func (a *alive) Invoke(ctx context.Context, _ []byte) ([]byte, error) {
	a.invoked = true
	if _, bounded := ctx.Deadline(); !bounded || ctx.Err() != nil {
		a.t.Errorf("context: bounded %t, %v", bounded, ctx.Err())
	}
	return []byte(a.answer), nil
}
