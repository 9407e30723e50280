package authorizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"tidegate/internal/apikey"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
)

var compareEvents = cmp.Options{cmp.AllowUnexported(event{}), cmpopts.EquateComparable(netip.Addr{})}

// sampleEvent reads one of the events that ship with aws-lambda-go.
func sampleEvent(t *testing.T, name string) []byte {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/aws/aws-lambda-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "events", "testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// The sample events are parsed. They have placeholders instead of addresses, so the
// source is not valid.
func TestSampleEvents(t *testing.T) {
	request := map[string][]string{
		"x-amz-date": {"20170718T062915Z"}, "accept": {"*/*"}, "headerauth1": {"headerValue1"},
		"cloudfront-viewer-country":  {"US"},
		"cloudfront-forwarded-proto": {"https"}, "cloudfront-is-tablet-viewer": {"false"},
		"cloudfront-is-mobile-viewer": {"false"}, "user-agent": {"..."},
	}
	all := map[string][]string{
		"x-forwarded-proto": {"https"}, "cloudfront-is-smarttv-viewer": {"false"},
		"host":            {"....execute-api.us-east-1.amazonaws.com"},
		"accept-encoding": {"gzip, deflate"}, "x-forwarded-port": {"443"}, "x-amzn-trace-id": {"..."},
		"via":         {"...cloudfront.net (CloudFront)"},
		"x-amz-cf-id": {"..."}, "x-forwarded-for": {"..., ..."}, "postman-token": {"..."},
		"cache-control":                {"no-cache"},
		"cloudfront-is-desktop-viewer": {"true"}, "content-type": {"application/x-www-form-urlencoded"},
	}
	for name, value := range request {
		all[name] = value
	}
	for name, want := range map[string]event{
		"apigw-custom-auth-request": {
			kind: restToken, arn: "arn:aws:execute-api:us-west-2:123456789012:ymy8tbxw7b/*/GET/",
			token: "allow",
			call:  route.Call{API: "ymy8tbxw7b", Stage: "*", Method: "GET", Path: "/"},
		},
		"apigw-custom-auth-request-type-request": {
			kind: restRequest, arn: "arn:aws:execute-api:us-east-1:123456789012:s4x3opwd6i/test/GET/request",
			headers:  all,
			call:     route.Call{API: "s4x3opwd6i", Stage: "test", Method: "GET", Path: "/request"},
			resource: "/request", requestID: "...",
		},
		"apigw-v2-custom-authorizer-v1-request": {
			kind: http1, arn: "arn:aws:execute-api:us-east-1:123456789012:abcdef123/test/GET/request",
			headers:  request,
			call:     route.Call{API: "abcdef123", Stage: "test", Method: "GET", Path: "/request"},
			resource: "/request", requestID: "...",
		},
		"apigw-v2-custom-authorizer-v2-request": {
			kind: http2, arn: "arn:aws:execute-api:us-east-1:123456789012:abcdef123/test/GET/request",
			headers: map[string][]string{"header1": {"value1"}, "header2": {"value2"},
				"cookie": {"cookie1", "cookie2"}},
			call:     route.Call{API: "abcdef123", Stage: "test", Method: "POST", Path: "/my/path"},
			resource: "$default", requestID: "id",
		},
	} {
		got, err := parseEvent(sampleEvent(t, name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, compareEvents); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// The kind of an event does not depend on its version alone: a REST event with a version
// stays one, so a bad credential in it is an error, not a deny. Each case is a sample of
// AWS with fields changed; nil removes a field.
func TestKindsFollowTheirFields(t *testing.T) {
	const (
		token   = "apigw-custom-auth-request"
		request = "apigw-custom-auth-request-type-request"
		v1      = "apigw-v2-custom-authorizer-v1-request"
		v2      = "apigw-v2-custom-authorizer-v2-request"
	)
	handshake := map[string]any{"methodArn": connectARN, "version": "1.0"}
	for name, c := range map[string]struct {
		sample string
		change map[string]any
		want   kind
		fails  bool
	}{
		"TOKEN":                {token, nil, restToken, false},
		"TOKEN with a version": {token, map[string]any{"version": "1.0"}, restToken, false},
		"TOKEN of serverless-offline": {token,
			map[string]any{"version": "1.0", "identitySource": "allow",
				"enhancedAuthContext": map[string]any{}}, restToken, false},
		"TOKEN of 2.0": {token, map[string]any{"version": "2.0"}, 0, true},
		"TOKEN with a route": {token,
			map[string]any{"methodArn": nil, "routeArn": routeARN}, 0, true},
		"REST":                {request, nil, restRequest, false},
		"REST with a version": {request, map[string]any{"version": "1.0"}, restRequest, false},
		"REST of serverless-offline": {request,
			map[string]any{"version": "1.0", "enhancedAuthContext": map[string]any{}}, restRequest, false},
		"REST with a field of 1.0": {request, map[string]any{"identitySource": ""}, restRequest, false},
		"REST without multi-value": {request, map[string]any{"multiValueHeaders": nil}, restRequest, false},
		"REST of 2.0":              {request, map[string]any{"version": "2.0"}, 0, true},
		"REST of 3.0":              {request, map[string]any{"version": "3.0"}, 0, true},
		"HTTP 1.0":                 {v1, nil, http1, false},
		"HTTP 1.0, multi-value": {v1,
			map[string]any{"multiValueHeaders": map[string]any{"a": []string{"b"}}}, http1, false},
		"HTTP 1.0, no source": {v1, map[string]any{"identitySource": nil, "authorizationToken": nil},
			http1, false},
		"HTTP 1.0, empty source": {v1,
			map[string]any{"identitySource": "", "authorizationToken": nil,
				"multiValueHeaders": map[string]any{}}, http1, false},
		"HTTP 1.0, default stage": {v1,
			map[string]any{
				"methodArn": routeARN, "identitySource": nil, "authorizationToken": nil,
				"multiValueHeaders": map[string]any{},
			}, http1, false},
		"HTTP 1.0, version lost":   {v1, map[string]any{"version": nil}, restRequest, false},
		"HTTP 2.0":                 {v2, nil, http2, false},
		"HTTP 2.0, version lost":   {v2, map[string]any{"version": nil}, http2, false},
		"HTTP 2.0 of 1.0":          {v2, map[string]any{"version": "1.0"}, 0, true},
		"HTTP 2.0 with a method":   {v2, map[string]any{"methodArn": methodARN}, 0, true},
		"handshake":                {request, map[string]any{"methodArn": connectARN}, webSocket, false},
		"handshake with a version": {request, handshake, webSocket, false},
		"handshake of a TOKEN":     {token, handshake, 0, true},
	} {
		var fields map[string]any
		if err := json.Unmarshal(sampleEvent(t, c.sample), &fields); err != nil {
			t.Fatal(err)
		}
		for field, value := range c.change {
			if fields[field] = value; value == nil {
				delete(fields, field)
			}
		}
		raw, _ := json.Marshal(fields)
		got, err := parseEvent(raw)
		if c.fails != (err != nil) || !c.fails && got.kind != c.want {
			t.Errorf("%s: %v, %v; want %v", name, got.kind, err, c.want)
		}
	}
}

// A WebSocket handshake is recognised by its ARN, with or without an event type. It is
// the only event whose query is read.
func TestWebSocketEvent(t *testing.T) {
	for _, eventType := range []string{"", "CONNECT"} {
		raw, _ := json.Marshal(map[string]any{
			"type": "REQUEST", "methodArn": connectARN, "headers": map[string]string{"Host": "x", "A": "2"},
			"multiValueHeaders":               map[string][]string{"Host": {"x"}, "A": {"1", "2"}},
			"queryStringParameters":           map[string]string{"Token": "t"},
			"multiValueQueryStringParameters": map[string][]string{"Token": {"s", "t"}},
			"requestContext": map[string]any{
				"routeKey": "$connect", "eventType": eventType, "connectionId": "c", "requestId": "r",
				"identity": map[string]any{"sourceIp": "192.0.2.1"},
			},
		})
		want := event{
			kind: webSocket, arn: connectARN, call: route.Call{API: "abcdef123", Stage: "prod",
				Method: "$connect", Path: "/"}, resource: "$connect",
			source:  netip.MustParseAddr("192.0.2.1"),
			headers: map[string][]string{"host": {"x"}, "a": {"1", "2"}},
			query:   map[string][]string{"Token": {"s", "t"}}, requestID: "r",
		}
		got, err := parseEvent(raw)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, compareEvents); diff != "" {
			t.Error(diff)
		}
	}
}

// A call of a REST API with a path that ends in $connect is not a handshake.
func TestConnectInAPathIsNoHandshake(t *testing.T) {
	raw, _ := json.Marshal(map[string]any{
		"type": "REQUEST", "methodArn": methodARN + "/$connect", "path": "/orders/$connect",
		"queryStringParameters": map[string]string{"x-api-key": "k"},
	})
	got, err := parseEvent(raw)
	if err != nil || got.kind != restRequest || got.query != nil || got.call.Method != http.MethodGet {
		t.Errorf("%+v, %v", got, err)
	}
}

// The client's address is the one that API Gateway saw. Headers such as X-Forwarded-For
// are ignored, since clients choose them.
func TestSpoofedForwardedForIsIgnored(t *testing.T) {
	forwarded := map[string]string{"X-Forwarded-For": "203.0.113.9", "X-Real-IP": "203.0.113.9",
		"Forwarded": "for=203.0.113.9"}
	identity := map[string]any{"identity": map[string]any{"sourceIp": "192.0.2.7"}}
	for name, c := range map[string]struct {
		event map[string]any
		want  string
	}{
		"REST": {map[string]any{"type": "REQUEST", "methodArn": methodARN, "headers": forwarded,
			"requestContext": identity}, "192.0.2.7"},
		"REST without": {map[string]any{"type": "REQUEST", "methodArn": methodARN, "headers": forwarded},
			"invalid IP"},
		"TOKEN has none": {map[string]any{"type": "TOKEN", "methodArn": methodARN,
			"requestContext": identity}, "invalid IP"},
		"HTTP 1.0": {map[string]any{
			"type": "REQUEST", "version": "1.0", "methodArn": methodARN, "headers": forwarded,
			"requestContext": identity,
		}, "192.0.2.7"},
		"HTTP 2.0":         {http2From("2001:db8::7", forwarded), "2001:db8::7"},
		"HTTP 2.0 without": {http2From("", forwarded), "invalid IP"},
		"mapped":           {http2From("::ffff:192.0.2.7", forwarded), "192.0.2.7"},
		"zone":             {http2From("fe80::1%eth0", forwarded), "fe80::1"},
		"list":             {http2From("192.0.2.7, 203.0.113.9", forwarded), "invalid IP"},
	} {
		raw, _ := json.Marshal(c.event)
		if got, err := parseEvent(raw); err != nil || got.source.String() != c.want {
			t.Errorf("%s: %s, %v; want %s", name, got.source, err, c.want)
		}
	}
}

// The address is read without its port, in every kind of event that has one.
func TestAddressWithPort(t *testing.T) {
	for text, want := range map[string]string{
		"10.9.9.9:1234": "10.9.9.9", "10.9.9.9": "10.9.9.9", "[2001:db8::1]:443": "2001:db8::1",
		"test-invoke-source-ip": "invalid IP", "": "invalid IP",
	} {
		identity := map[string]any{"identity": map[string]any{"sourceIp": text}}
		for kind, event := range map[string]map[string]any{
			"REST": {"type": "REQUEST", "methodArn": methodARN, "requestContext": identity},
			"HTTP 1.0": {"type": "REQUEST", "version": "1.0", "methodArn": methodARN,
				"requestContext": identity},
			"HTTP 2.0":  http2From(text, nil),
			"handshake": {"type": "REQUEST", "methodArn": connectARN, "requestContext": identity},
		} {
			raw, _ := json.Marshal(event)
			if got, err := parseEvent(raw); err != nil || got.source.String() != want {
				t.Errorf("%s %q: got %s, %v, want %s", kind, text, got.source, err, want)
			}
		}
	}
}

func http2From(source string, headers map[string]string) map[string]any {
	return map[string]any{"type": "REQUEST", "version": "2.0", "routeArn": routeARN, "headers": headers,
		"requestContext": map[string]any{"http": map[string]any{"sourceIp": source},
			"identity": map[string]any{"sourceIp": "203.0.113.9"}}}
}

// A call's path does not depend on the domain and stage that it came by.
func TestCallPath(t *testing.T) {
	const api = "arn:aws:execute-api:eu-north-1:123456789012:a1/dev/GET"
	for _, c := range []struct{ arn, given, want string }{
		{api + "/orders/7", "/orders/7", "/orders/7"},
		{api + "/orders/7", "/dev/orders/7", "/orders/7"},
		{api + "/orders/7", "/base/path/orders/7", "/orders/7"},
		{api + "/orders/7", "", "/orders/7"},
		{api + "/dev/x", "/dev/x", "/dev/x"},
		{api + "/", "/", "/"},
		{api, "/", "/"},
		{api, "/dev", "/"},
		{api, "/dev/", "/"},
		{api, "/dev/my/path", "/my/path"},
		{api, "/device", "/device"},
		{api + "/a b", "/a%20b", "/a%20b"},
		{api + "/a b", "/base/a%20b", "/a%20b"},
		{api + "/a%20b", "/base/a b", "/a%20b"},
		{"arn:aws:execute-api:eu-north-1:123456789012:a1/$default/$default", "/my/path", "/my/path"},
		{"arn:aws:execute-api:eu-north-1:123456789012:a1/$default/$default", "/my/path/", "/my/path/"},
		{"arn:aws-cn:execute-api:cn-north-1:123456789012:a1/dev/GET/a:b/c", "/a:b/c", "/a:b/c"},
	} {
		raw, _ := json.Marshal(map[string]any{"type": "REQUEST", "version": "2.0", "routeArn": c.arn,
			"rawPath": c.given})
		if got, err := parseEvent(raw); err != nil || got.call.Path != c.want {
			t.Errorf("%s of %s: %q, %v; want %q", c.given, c.arn, got.call.Path, err, c.want)
		}
	}
}

// proxyEvents are authorizer events of an HTTP API, in the shapes that AWS documents, for
// a call behind the base path v1/shop of a custom domain. Only format 1.0 has the base
// path in its path. %[1]s is the ARN's resource, %[2]s the route, %[3]s the path that the
// client called, %[4]s the path parameters.
var proxyEvents = map[string]string{
	"1.0": `{"version":"1.0","type":"REQUEST",
		"methodArn":"arn:aws:execute-api:us-east-1:123456789012:abcdef123/prod/GET%[1]s",
		"identitySource":"user1,123","authorizationToken":"user1,123",
		"resource":"%[2]s","path":"/v1/shop%[3]s","httpMethod":"GET",
		"headers":{"X-AMZ-Date":"20170718T062915Z","Accept":"*/*"},
		"queryStringParameters":{"QueryString1":"queryValue1"},"pathParameters":%[4]s,
		"stageVariables":{"StageVar1":"stageValue1"},
		"requestContext":{"path":"/v1/shop%[3]s","accountId":"123456789012","resourceId":"05c7jb",
			"stage":"prod","requestId":"...","identity":{"apiKey":"...","sourceIp":"192.0.2.1"},
			"resourcePath":"%[2]s","httpMethod":"GET","apiId":"abcdef123"}}`,
	"2.0": `{"version":"2.0","type":"REQUEST",
		"routeArn":"arn:aws:execute-api:us-east-1:123456789012:abcdef123/prod/GET%[1]s",
		"identitySource":["user1","123"],"routeKey":"ANY %[2]s","rawPath":"/prod%[3]s",
		"rawQueryString":"parameter1=value1","cookies":["cookie1","cookie2"],
		"headers":{"header1":"value1"},"queryStringParameters":{"parameter1":"value1"},
		"requestContext":{"accountId":"123456789012","apiId":"abcdef123","domainName":"api.example.com",
			"domainPrefix":"api","http":{"method":"GET","path":"/prod%[3]s","protocol":"HTTP/1.1",
			"sourceIp":"192.0.2.1","userAgent":"agent"},"requestId":"id","routeKey":"ANY %[2]s",
			"stage":"prod","time":"12/Mar/2020:19:03:58 +0000","timeEpoch":1583348638390},
		"pathParameters":%[4]s,"stageVariables":{"stageVariable1":"value1"}}`,
}

// The path of a call of a proxy route is what its parameters say, so that rules match
// behind the base path of a custom domain too, whatever the ARN has in its place.
func TestPathOfAProxyRoute(t *testing.T) {
	for _, c := range []struct{ route, called, parameters, want string }{
		{"/{proxy+}", "/orders/7", `{"proxy":"orders/7"}`, "/orders/7"},
		{"/{proxy+}", "/shop", `{"proxy":"shop"}`, "/shop"},
		{"/{proxy+}", "/a%2Fb", `{"proxy":"a/b"}`, "/a%2Fb"},
		{"/{proxy+}", "/a%2Fb", `{"proxy":"a%2Fb"}`, "/a%2Fb"},
		{"/{all+}", "/orders/7", `{"all":"orders/7"}`, "/orders/7"},
		{"/orders/{proxy+}", "/orders/7/8", `{"proxy":"7/8"}`, "/orders/7/8"},
		{"/{tenant}/{proxy+}", "/acme/7", `{"tenant":"acme","proxy":"7"}`, "/acme/7"},
	} {
		for version, shape := range proxyEvents {
			for _, named := range []string{c.called, c.route, "", "/"} {
				raw := fmt.Sprintf(shape, named, c.route, c.called, c.parameters)
				if got, err := parseEvent([]byte(raw)); err != nil || got.call.Path != c.want {
					t.Errorf("%s: %s of %s, ARN %q: got %q, %v; want %q", version, c.called, c.route, named,
						got.call.Path, err, c.want)
				}
			}
		}
	}
	// Parameters that do not fit the path leave it as it was sent.
	for parameters, want := range map[string]string{
		`{"proxy":"a%2Fb"}`: "/a%2Fb", "null": "/v1/shop/a/b", "{}": "/v1/shop/a/b", "7": "/v1/shop/a/b",
		`{"proxy":""}`: "/v1/shop/a/b", `{"proxy":"other"}`: "/v1/shop/a/b", `{"proxy":7}`: "/v1/shop/a/b",
	} {
		raw := fmt.Sprintf(proxyEvents["1.0"], "", "/{proxy+}", "/a/b", parameters)
		if got, err := parseEvent([]byte(raw)); err != nil || got.call.Path != want {
			t.Errorf("parameters %s: got %q, %v; want %q", parameters, got.call.Path, err, want)
		}
	}
}

// The path of a call of the root is / also behind the base path of a custom domain, where
// the event's own path is not /.
func TestRootBehindABasePath(t *testing.T) {
	const api = "arn:aws:execute-api:eu-north-1:123456789012:a1/prod/GET/"
	for name, e := range map[string]map[string]any{
		"REST":     {"methodArn": api, "resource": "/"},
		"HTTP 1.0": {"methodArn": api, "resource": "/", "version": "1.0"},
		"HTTP 2.0": {"routeArn": api, "routeKey": "GET /", "version": "2.0"},
		"HTTP ANY": {"routeArn": api, "routeKey": "ANY /", "version": "2.0"},
	} {
		for _, given := range []string{"", "/", "/v1", "/v1/", "/prod", "/prod/", "/orders/v1"} {
			e["type"], e["path"], e["rawPath"] = "REQUEST", given, given
			raw, _ := json.Marshal(e)
			if got, err := parseEvent(raw); err != nil || got.call.Path != "/" {
				t.Errorf("%s %s: %q, %v", name, given, got.call.Path, err)
			}
		}
	}
}

// The path of a REST call is that of the ARN, whatever comes before or after it in the
// event's own path. If either of the two is percent-encoded, so is the result, so that
// rules see the encoding.
func TestPathOfARESTCall(t *testing.T) {
	for _, c := range []struct{ named, given, want string }{
		{"", "/v1", "/"},
		{"/orders", "/v1/orders/", "/orders"},
		{"/orders", "/prod/orders", "/orders"},
		{"/orders", "/other", "/orders"},
		{"/orders", "", "/orders"},
		{"/prod", "/prod", "/prod"},
		{"/prod/x", "/prod/x", "/prod/x"},
		{"/a/b", "/v1/a%2Fb", "/a%2Fb"},
		{"/a%2Fb", "/v1/a/b", "/a%2Fb"},
		{"/a%2Fb", "/v1/a%2Fb", "/a%2Fb"},
		{"/a/b", "/v1/a%252Fb", "/a%252Fb"},
		{"/é", "/v1/%C3%A9", "/%C3%A9"},
		{"/orders", "/v1%2Forders", "/orders"},
		{"/orders", "/%761/orders", "/orders"},
	} {
		arn := "arn:aws:execute-api:eu-north-1:123456789012:a1/prod/GET" + c.named
		raw, _ := json.Marshal(map[string]any{"type": "REQUEST", "methodArn": arn, "path": c.given,
			"resource": "/{proxy+}"})
		if got, err := parseEvent(raw); err != nil || got.call.Path != c.want {
			t.Errorf("%s of %s: %q, %v; want %q", c.given, c.named, got.call.Path, err, c.want)
		}
	}
}

// badEvents are seeds of the fuzz tests: no event of the five kinds.
var badEvents = []string{
	"", "7", "{", `{"headers":7}`, `{"type":"REQUEST"}`, `{"type":"TOKEN","version":"3.0"}`,
	`{"type":"REQUEST","methodArn":"arn:aws:lambda:eu-west-1:1:function"}`,
	`{"type":"REQUEST","routeArn":"x","version":"2.0"}`,
	`{"type":"REQUEST","requestContext":{"eventType":"MESSAGE"}}`,
	`{"type":"` + strings.Repeat("x", 100) + `","version":"1.0"}`,
	`{"type":"REQUEST","version":"1.0","methodArn":"arn:aws:execute-api:eu-west-1:1:a/$default/GET/"}`,
}

// No input panics. A parsed event has every field that an answer and a route need.
func FuzzParseEvent(f *testing.F) {
	for _, e := range withKey("tg_test_0") {
		raw, _ := json.Marshal(e)
		f.Add(raw)
	}
	for name := range http2From("", nil) {
		f.Add([]byte(`{"` + name + `":null}`))
	}
	for _, odd := range badEvents {
		f.Add([]byte(odd))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := parseEvent(raw)
		if err != nil {
			if !errors.Is(err, errEvent) || len(err.Error()) > 300 {
				t.Fatalf("%q: %v", raw, err)
			}
			return
		}
		if !strings.HasPrefix(e.arn, "arn:") || e.call.API == "" || e.call.Stage == "" ||
			e.call.Method == "" || e.call.Path == "" {
			t.Fatalf("%q: %+v", raw, e)
		}
		if e.source.Is4In6() || e.source.Zone() != "" || e.query != nil && e.kind != webSocket ||
			e.token != "" && e.kind != restToken {
			t.Fatalf("%q: %+v", raw, e)
		}
		for name := range e.headers {
			if name != strings.ToLower(name) {
				t.Fatalf("%q: header %q", raw, name)
			}
		}
	})
}

// Hostile and malformed input, and the tests that cover it:
//
//	identity with braces, NUL, 10 KB …    TestIdentityOfOddBytes,
//	                                      identity.TestIdentityWithBadCharacters
//	duplicate or mixed-case headers       TestBadCredentialsAreUnauthorized,
//	                                      identity.TestBadCredentialNeverFallsThrough
//	spoofed X-Forwarded-For               TestSpoofedForwardedForIsIgnored
//	IPv6 rotation                         TestIPv6RotationSharesALimit,
//	                                      identity.TestIPv6RotationAndMappedIPv4
//	missing identity                      TestBadCredentialsAreUnauthorized,
//	                                      identity.TestMissingIdentityIsNeverTheAddress
//	cost 0, negative, huge, NaN; limit 0  TestNeverPasses,
//	                                      limits.TestFieldsRefused
//	wrong checksum, unknown prefix        TestWrongChecksumIsNotChecked
//	JWT none, swaps, claims, floods       TestAnswers,
//	                                      jwt.TestJWTNone and the next tests,
//	                                      jwt.TestUnknownKeyFlood
//	malformed event, missing methodArn    TestMalformedEventsNeverAllow,
//	                                      TestSampleEventsNeverAllow, FuzzInvoke

// A token's subject may be any text. It does not appear in a Valkey key's name, nor
// unbounded in the log.
func TestIdentityOfOddBytes(t *testing.T) {
	tb := newTable(t)
	for _, subject := range []string{"{a}", "}{", "a:b", "nul\x00", "line\r\nfeed", "\u202eleft",
		strings.Repeat("long ", 2000), " ", "*", "tg:{x}:y"} {
		c := caller{header: "authorization", value: "Bearer " + token(signingKey, subject, time.Hour),
			address: "192.0.2.1"}
		tb.log.Reset()
		got, err := tb.invoke(t, "REST REQUEST", tb.recorder, c)
		context, _ := got["context"].(map[string]any)
		if id, _ := context["keyId"].(string); err == nil &&
			!regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`).MatchString(id) {
			t.Errorf("%.20q: got %v, want a keyId of 22 safe characters", subject, got)
		}
		if tb.log.Len() > 2000 {
			t.Errorf("%.20q logs %d bytes", subject, tb.log.Len())
		}
	}
	for _, credential := range []string{"{tg_test_x}", "tg_test_\x00", strings.Repeat("tg_", 4000),
		"\xff\xfe", "tg_test_\r\nX-Api-Key: y"} {
		tb.log.Reset()
		if _, err := tb.invoke(t, "REST REQUEST", tb.recorder,
			caller{header: "x-api-key", value: credential, address: "192.0.2.1"}); err == nil {
			t.Errorf("%.20q was accepted as a credential", credential)
		}
		if tb.log.Len() > 2000 || strings.Contains(tb.log.String(), credential) {
			t.Errorf("%.20q logs %s", credential, tb.log.String())
		}
	}
	named := regexp.MustCompile(`^tg:(\{[a-z0-9]+\}:)?[A-Za-z0-9:_{}-]+$`)
	for _, name := range tb.names(t) {
		if !named.MatchString(name) || strings.Count(name, "{") > 1 {
			t.Errorf("a Valkey key has the name %q", name)
		}
	}
}

// names returns the names of all keys in Valkey.
func (tb *table) names(t *testing.T) []string {
	t.Helper()
	client := storetest.Connect(t, tb.url)
	return must(client.Do(t.Context(), client.B().Keys().Pattern("*").Build()).AsStrSlice())
}

// All addresses of an IPv6 /64 share a limit. An IPv4 address and the same address mapped
// into IPv6 share one too.
func TestIPv6RotationSharesALimit(t *testing.T) {
	tb := newTable(t)
	for _, addresses := range [][]string{
		{"2001:db8:0:1::1", "2001:db8:0:1:ffff:ffff:ffff:ffff", "2001:db8:0:1::2"},
		{"203.0.113.9", "::ffff:203.0.113.9"},
	} {
		for i, address := range addresses {
			got, err := tb.invoke(t, "HTTP 2.0 simple", tb.recorder, caller{address: address})
			if err != nil || got["isAuthorized"] != (i == 0) {
				t.Errorf("%s, call %d: %v, %v", address, i+1, got, err)
			}
		}
	}
	if got := must(tb.invoke(t, "HTTP 2.0 simple", tb.recorder, caller{address: "2001:db8:0:2::1"})); denied(
		must(json.Marshal(got))) {
		t.Errorf("another network: %v", got)
	}
}

// An override whose limit is below a route's new cost denies every call without a
// Retry-After. In shadow mode it allows them.
func TestOverrideBelowTheCost(t *testing.T) {
	tb := newTable(t)
	for shadow, wanted := range map[bool]string{false: "Deny", true: "Allow"} {
		tb.setCost(t, 1)
		c := tb.newCaller(t, "key", "allowed")
		must(tb.invoke(t, "REST REQUEST", tb.recorder, c))
		id := tb.recorder.call.Subject
		override := &policy.Override{Reason: "small",
			Limits: registrytest.Limits("2 per hour")}
		override.Limits[0].Shadow = shadow
		must(registrytest.Override(t.Context(), tb.store, id, override, tester))
		tb.setCost(t, 3)
		got := must(tb.invoke(t, "REST REQUEST", tb.recorder, c))
		if text := fmt.Sprint(got); !strings.Contains(text, "Effect:"+wanted) ||
			strings.Contains(text, "retryAfter") {
			t.Errorf("in shadow mode %t: %v", shadow, got)
		}
	}
}

// setCost sets the cost of /orders, and the first limit of every plan to 10.
func (tb *table) setCost(t *testing.T, cost int64) {
	t.Helper()
	registrytest.Save(t, tb.store, tester, func(set *policy.Set) {
		for i := range set.Plans {
			set.Plans[i].Limits[0].Requests = 10
		}
		set.Routes = []limits.Route{registrytest.Route("orders", cost, "/orders")}
	})
}

// The log names a test event of the AWS console, whose ARN has no API id. The call is
// refused like any other that cannot be read.
func TestConsoleTestEvent(t *testing.T) {
	var log bytes.Buffer
	a := New(nil, allSources(apikey.Pepper(strings.Repeat("pepper!!", 4))), Answers{},
		slog.New(slog.NewTextHandler(&log, nil)))
	_, err := a.Invoke(t.Context(), []byte(`{"type":"TOKEN","authorizationToken":"incoming-client-token",
		"methodArn":"arn:aws:execute-api:us-east-1:123456789012:/prod/POST/{proxy+}"}`))
	if !errors.Is(err, ErrUnauthorized) || !strings.Contains(log.String(), "test event of the AWS console") {
		t.Errorf("got %v, log %s", err, log.String())
	}
}
