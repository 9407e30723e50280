package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// withExample are the templates that have the example APIs.
var withExample = map[string]func() (template, error){"dev": dev, "prod": prod}

// No result is cached, nor does a call without a credential pass the function by: else calls are not counted, and revoked keys live on.
func TestAuthorizersCountEveryCall(t *testing.T) {
	for name, build := range withExample {
		made := of(t, build)
		check := "functions/${" + ours(t, made, "Check").id + ".Arn}/invocations"
		for _, kind := range []string{"AWS::ApiGateway::Authorizer", "AWS::ApiGatewayV2::Authorizer"} {
			a := made.only(t, kind, "").Properties
			equal(t, name+" TTL", a["AuthorizerResultTtlInSeconds"], 0)
			equal(t, name+" identity sources", len(list(a["IdentitySource"])), 0)
			if !strings.HasSuffix(text(a["AuthorizerUri"]), check) {
				t.Errorf("%s: URI %s, want …%s", name, text(a["AuthorizerUri"]), check)
			}
		}
		equal(t, name+" type", made.only(t, "AWS::ApiGateway::Authorizer", "").Properties["Type"], "REQUEST")
		http := made.only(t, "AWS::ApiGatewayV2::Authorizer", "").Properties
		equal(t, name+" payload", http["AuthorizerPayloadFormatVersion"], "2.0")
		equal(t, name+" simple responses", http["EnableSimpleResponses"], true)
	}
	equal(t, "the function's answer", environment(t, of(t, dev), "Check")["HTTP_API_RESPONSE"], "simple")
}

// Every method and route of the examples is behind its authorizer.
func TestExamplesAreGuarded(t *testing.T) {
	for name, build := range withExample {
		made := of(t, build)
		methods := made.all("AWS::ApiGateway::Method")
		equal(t, name+" methods", len(methods), 2)
		for _, m := range methods {
			equal(t, m.id, m.Properties["AuthorizationType"], "CUSTOM")
			equal(t, m.id, text(m.Properties["AuthorizerId"]), "${"+made.only(t, "AWS::ApiGateway::Authorizer", "").id+"}")
		}
		route := made.only(t, "AWS::ApiGatewayV2::Route", "ExampleHttp").Properties
		equal(t, name+" route", route["AuthorizationType"], "CUSTOM")
		equal(t, name+" route", text(route["AuthorizerId"]), "${"+made.only(t, "AWS::ApiGatewayV2::Authorizer", "").id+"}")
	}
}

func TestGatewayResponses(t *testing.T) {
	made := of(t, dev)
	for kind, c := range map[string]struct {
		status  string
		headers []string
	}{
		"ACCESS_DENIED": {"429", []string{"Cache-Control", "Content-Type", "RateLimit", "RateLimit-Policy", "Retry-After"}},
		"UNAUTHORIZED":  {"401", []string{"Cache-Control", "Content-Type", "WWW-Authenticate"}},
	} {
		var found properties
		for _, r := range made.all("AWS::ApiGateway::GatewayResponse") {
			if r.Properties["ResponseType"] == kind {
				found = r.Properties
			}
		}
		equal(t, kind, found["StatusCode"], c.status)
		parameters, _ := found["ResponseParameters"].(map[string]any)
		var names []string
		for _, name := range sorted(parameters) {
			names = append(names, strings.TrimPrefix(name, "gatewayresponse.header."))
		}
		equal(t, kind+" headers", names, c.headers)
		equal(t, kind+" type", parameters["gatewayresponse.header.Content-Type"], "'application/problem+json'")
		if body := text(found.at("ResponseTemplates", "application/json")); !strings.Contains(body, `"status":`+c.status) {
			t.Errorf("%s: body %s", kind, body)
		}
	}
}

func TestResponseMappings(t *testing.T) {
	made := of(t, dev)
	integration := made.only(t, "AWS::ApiGatewayV2::Integration", "ExampleHttp").Properties
	for _, status := range []string{"200", "404", "500"} {
		got := map[string]string{}
		for _, p := range list(integration.at("ResponseParameters", status, "ResponseParameters")) {
			pair, _ := p.(map[string]any)
			got[text(pair["Destination"])] = text(pair["Source"])
		}
		equal(t, status, got, map[string]string{
			"overwrite:header.RateLimit": "$context.authorizer.rateLimit", "overwrite:header.RateLimit-Policy": "$context.authorizer.rateLimitPolicy",
		})
	}
	equal(t, "the dashboard's mapping", made.only(t, "AWS::ApiGatewayV2::Integration", "DashboardRoute").Properties["ResponseParameters"], nil)
}

// Every stage is throttled, so that a flood does not use up the account's share; HTTP APIs log calls, without who made them.
func TestStages(t *testing.T) {
	on(t, func(t *testing.T, made template) {
		for _, s := range made.all("AWS::ApiGatewayV2::Stage") {
			settings := properties{"settings": s.Properties["DefaultRouteSettings"]}
			if settings.at("settings", "ThrottlingRateLimit") == nil || settings.at("settings", "ThrottlingBurstLimit") == nil {
				t.Errorf("%s is not throttled", s.id)
			}
			format := text(s.Properties.at("AccessLogSettings", "Format"))
			var fields map[string]string
			if err := json.Unmarshal([]byte(format), &fields); err != nil || len(fields) < 5 {
				t.Errorf("%s: access log %q, %v", s.id, format, err)
			}
			for _, private := range []string{"sourceIp", "userAgent", "authorizer.principalId", "path", "$context.identity"} {
				if strings.Contains(format, private) {
					t.Errorf("%s logs %s", s.id, private)
				}
			}
		}
		for _, s := range made.all("AWS::ApiGateway::Stage") {
			equal(t, s.id+" rate", s.Properties.at("MethodSettings", 0, "ThrottlingRateLimit"), exampleRate)
			equal(t, s.id+" tracing", s.Properties["TracingEnabled"], true)
		}
	})
}

func TestOwnDomain(t *testing.T) {
	made := of(t, prod)
	domain := made.only(t, "AWS::ApiGatewayV2::DomainName", "").Properties
	equal(t, "TLS", domain.at("DomainNameConfigurations", 0, "SecurityPolicy"), "TLS_1_2")
	equal(t, "certificate", domain.at("DomainNameConfigurations", 0, "CertificateArn"), everything["certificate"])
	dashboard := made.only(t, "AWS::ApiGatewayV2::Api", "Dashboard").Properties
	equal(t, "the default name is off", dashboard["DisableExecuteApiEndpoint"], true)
	equal(t, "record", made.only(t, "AWS::Route53::RecordSet", "").Properties["Name"], "limits.example.com.")
	equal(t, "what the dashboard knows", environment(t, made, "Admin")["ADMIN_URL"], "https://limits.example.com")
}

func TestWebACL(t *testing.T) {
	made := of(t, prod)
	acl := made.only(t, "AWS::WAFv2::WebACL", "").Properties
	equal(t, "rate", acl.at("Rules", 0, "Statement", "RateBasedStatement", "Limit"), floodLimit)
	equal(t, "rules", len(list(acl["Rules"])), webACLRules)
	association := made.only(t, "AWS::WAFv2::WebACLAssociation", "").Properties
	if stage := text(association["ResourceArn"]); !strings.Contains(stage, "/stages/") {
		t.Errorf("the web ACL guards %s", stage)
	}
	equal(t, "without the flag", len(of(t, dev).all("AWS::WAFv2::WebACL")), 0)
}

// The sample backend answers like the one behind the local gateways, and refuses calls over a limit that the authorizer let pass for it to do so.
func TestBackend(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal(err) // the CDK has needed it already
	}
	denied := `"denied":true,"problemType":"about:blank","message":"Wait.","violatedPolicies":"[\"a\"]","retryAfter":"4"`
	for name, c := range map[string]struct {
		event         string
		status        int
		headers, body string
	}{
		"denied": {
			`{"version":"2.0","requestContext":{"http":{},"requestId":"i","authorizer":{"lambda":{` + denied + `}}}}`, 429,
			`{"Cache-Control":"no-store","Content-Type":"application/problem+json","Retry-After":"4"}`,
			`{"detail":"Wait.","instance":"urn:uuid:i","status":429,"title":"Too Many Requests","type":"about:blank","violated-policies":["a"]}`,
		},
		"REST": {
			`{"httpMethod":"GET","path":"/a","requestContext":{"authorizer":{"rateLimit":"r","rateLimitPolicy":"p","keyId":"k"}}}`, 200,
			`{"Cache-Control":"no-store","Content-Type":"application/json","RateLimit":"r","RateLimit-Policy":"p"}`,
			`{"authorizer":{"keyId":"k","rateLimit":"r","rateLimitPolicy":"p"},"method":"GET","path":"/a"}`,
		},
		"HTTP": {
			`{"version":"2.0","rawPath":"/b","requestContext":{"http":{"method":"PUT"},"authorizer":{"lambda":{"rateLimit":"r"}}}}`, 200,
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
			script := fmt.Sprintf("require('./backend.js').handler(%s).then((r) => console.log(JSON.stringify(r)))", c.event)
			output, err := exec.CommandContext(t.Context(), node, "-e", script).Output()
			if err != nil {
				t.Fatal(err)
			}
			var answer struct {
				StatusCode int
				Headers    map[string]string
				Body       string
			}
			if err := json.Unmarshal(output, &answer); err != nil {
				t.Fatalf("%v: %s", err, output)
			}
			equal(t, "status", answer.StatusCode, c.status)
			equal(t, "headers", canonical(t, mustJSON(t, answer.Headers)), c.headers)
			equal(t, "body", canonical(t, []byte(answer.Body)), c.body)
		})
	}
}

func mustJSON(t *testing.T, value any) []byte {
	t.Helper()
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// canonical is JSON with its keys in order.
func canonical(t *testing.T, encoded []byte) string {
	t.Helper()
	var value any
	if err := json.Unmarshal(encoded, &value); err != nil {
		t.Fatalf("%v: %s", err, encoded)
	}
	return string(mustJSON(t, value))
}

func TestAlarms(t *testing.T) {
	on(t, func(t *testing.T, made template) {
		topic := "${" + made.only(t, "AWS::SNS::Topic", "").id + "}"
		var names []string
		for _, a := range made.all("AWS::CloudWatch::Alarm") {
			name := text(a.Properties["AlarmName"])
			names = append(names, name[strings.LastIndex(name, "-")+1:])
			for _, property := range []string{"AlarmActions", "OKActions"} {
				equal(t, name+" "+property, text(a.Properties.at(property, 0)), topic)
			}
			means, first, _ := strings.Cut(text(a.Properties["AlarmDescription"]), ". First: ")
			if len(means) < 20 || len(first) < 10 || !strings.HasSuffix(first, ".") || a.Properties["TreatMissingData"] != "notBreaching" {
				t.Errorf("%s: %v", name, a.Properties)
			}
		}
		for _, want := range []string{
			"CheckErrors", "CheckThrottles", "CheckSlow", "CheckConcurrency", "Degraded", "StoreErrors", "StoreSlow", "AdminErrors", "AdminThrottles",
			"AdminSlow", "DashboardFailures", "CacheMemory", "CacheEvictions",
		} {
			if !slices.Contains(names, want) {
				t.Errorf("no alarm %s among %q", want, names)
			}
		}
		kind := []string{"CacheECPUs", "CacheThrottled"}
		if len(made.all("AWS::ElastiCache::ReplicationGroup")) > 0 {
			kind = []string{"CacheProcessor", "CacheLag"}
		}
		for _, want := range kind {
			if !slices.Contains(names, want) {
				t.Errorf("no alarm %s among %q", want, names)
			}
		}
	})
	subscription := of(t, prod).only(t, "AWS::SNS::Subscription", "").Properties
	equal(t, "mail", subscription["Endpoint"], everything["alarmEmail"])
}
