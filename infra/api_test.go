package main

import (
	"cmp"
	"slices"
	"strings"
	"testing"
)

// withExample has the templates with the example APIs.
var withExample = map[string]func() (template, error){"dev": dev, "prod": prod}

// No authorizer has a cache or an identity source. With either, calls would pass
// uncounted and revoked keys would keep working.
func TestAuthorizersCountEveryCall(t *testing.T) {
	for name, build := range withExample {
		made := of(t, build)
		check := "functions/${" + ours(t, made, "Check").id + ".Arn}/invocations"
		for _, kind := range []string{"AWS::ApiGateway::Authorizer", "AWS::ApiGatewayV2::Authorizer"} {
			a := made.only(t, kind, "").Properties
			equal(t, name+" TTL", a["AuthorizerResultTtlInSeconds"], 0)
			equal(t, name+" identity sources", len(list(a["IdentitySource"])), 0)
			if !strings.HasSuffix(text(a["AuthorizerUri"]), check) {
				t.Errorf("%s: got URI %s, want …%s", name, text(a["AuthorizerUri"]), check)
			}
		}
		equal(t, name+" type", made.only(t, "AWS::ApiGateway::Authorizer", "").Properties["Type"], "REQUEST")
		http := made.only(t, "AWS::ApiGatewayV2::Authorizer", "").Properties
		equal(t, name+" payload", http["AuthorizerPayloadFormatVersion"], "2.0")
		equal(t, name+" simple responses", http["EnableSimpleResponses"], true)
	}
	equal(t, "the function's answer", environment(t, of(t, dev), "Check")["HTTP_API_RESPONSE"], "simple")
}

// Every method and route of the examples is behind its authorizer, except the OPTIONS
// methods for a browser's preflight, which reach no backend.
func TestExamplesAreGuarded(t *testing.T) {
	for name, build := range withExample {
		made := of(t, build)
		guarded := 0
		for _, m := range made.all("AWS::ApiGateway::Method") {
			if m.Properties["HttpMethod"] == "OPTIONS" {
				integration, _ := m.Properties["Integration"].(map[string]any)
				equal(t, m.id+" integration", integration["Type"], "MOCK")
				continue
			}
			guarded++
			equal(t, m.id, m.Properties["AuthorizationType"], "CUSTOM")
			equal(t, m.id, text(m.Properties["AuthorizerId"]),
				"${"+made.only(t, "AWS::ApiGateway::Authorizer", "").id+"}")
		}
		equal(t, name+" guarded methods", guarded, 2)
		routes := 0
		for _, r := range made.all("AWS::ApiGatewayV2::Route") {
			if !strings.HasPrefix(r.id, "ExampleHttp") {
				continue
			}
			routes++
			method, _, _ := strings.Cut(text(r.Properties["RouteKey"]), " ")
			equal(t, r.id+" takes OPTIONS", method == "OPTIONS" || method == "ANY" ||
				method == "$default", false)
			equal(t, r.id, r.Properties["AuthorizationType"], "CUSTOM")
			authorizer := made.only(t, "AWS::ApiGatewayV2::Authorizer", "").id
			equal(t, r.id, text(r.Properties["AuthorizerId"]), "${"+authorizer+"}")
		}
		equal(t, name+" routes", routes, 6)
	}
}

// cors has the headers that let a browser's scripts read a response.
var cors = []string{"Access-Control-Allow-Origin", "Access-Control-Expose-Headers"}

// Scripts of any origin may read the answers of both example APIs. OPTIONS, which a browser
// sends first, has no authorizer.
func TestExampleCORS(t *testing.T) {
	made := of(t, dev)
	for _, r := range made.all("AWS::ApiGateway::GatewayResponse") {
		parameters := stringsOf(r.Properties["ResponseParameters"])
		equal(t, r.id+" origin", parameters["gatewayresponse.header."+cors[0]], "'*'")
		equal(t, r.id+" exposed", parameters["gatewayresponse.header."+cors[1]] != "", true)
	}
	options := 0
	for _, m := range made.all("AWS::ApiGateway::Method") {
		if m.Properties["HttpMethod"] == "OPTIONS" {
			options++
			equal(t, m.id, m.Properties["AuthorizationType"], "NONE")
		}
	}
	equal(t, "OPTIONS", options, 2)
	api := made.only(t, "AWS::ApiGatewayV2::Api", "ExampleHttp").Properties
	equal(t, "HTTP API", string(mustJSON(t, api["CorsConfiguration"])),
		`{"AllowHeaders":["Authorization","X-Api-Key","Content-Type"],`+
			`"AllowMethods":["GET","HEAD","POST","PUT","PATCH","DELETE"],"AllowOrigins":["*"],`+
			`"ExposeHeaders":["Retry-After","RateLimit","RateLimit-Policy"]}`)
}

func TestGatewayResponses(t *testing.T) {
	made := of(t, dev)
	for kind, c := range map[string]struct {
		status  string
		headers []string
	}{
		"ACCESS_DENIED": {"429", []string{cors[0], cors[1], "Cache-Control", "Content-Type", "RateLimit",
			"RateLimit-Policy", "Retry-After"}},
		"UNAUTHORIZED": {"401", []string{cors[0], cors[1], "Cache-Control", "Content-Type",
			"WWW-Authenticate"}},
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
		equal(t, kind+" type", parameters["gatewayresponse.header.Content-Type"],
			"'application/problem+json'")
		if body := text(found.at("ResponseTemplates", "application/json")); !strings.Contains(body,
			`"status":`+c.status) {
			t.Errorf("%s: got body %s, want status %s", kind, body, c.status)
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
			"overwrite:header.RateLimit":        "$context.authorizer.rateLimit",
			"overwrite:header.RateLimit-Policy": "$context.authorizer.rateLimitPolicy",
		})
	}
	equal(t, "the dashboard's mapping", made.only(t, "AWS::ApiGatewayV2::Integration",
		"Dashboard").Properties["ResponseParameters"], nil)
}

// Every stage has a throttle, so that a flood does not use up the account's quota.
func TestStages(t *testing.T) {
	on(t, func(t *testing.T, made template) {
		for _, s := range made.all("AWS::ApiGatewayV2::Stage") {
			settings := properties{"settings": s.Properties["DefaultRouteSettings"]}
			if settings.at("settings", "ThrottlingRateLimit") == nil ||
				settings.at("settings", "ThrottlingBurstLimit") == nil {
				t.Errorf("%s: want a throttle", s.id)
			}
		}
		for _, s := range made.all("AWS::ApiGateway::Stage") {
			equal(t, s.id+" rate", s.Properties.at("MethodSettings", 0, "ThrottlingRateLimit"), exampleRate)
			equal(t, s.id+" tracing", s.Properties["TracingEnabled"], strings.HasSuffix(t.Name(), "/prod"))
		}
	})
}

// Each kind of dashboard requests has its own route and throttle, so that a flood of one
// kind leaves capacity for the others. The stage's settings name the routes, so the stage
// depends on them.
func TestDashboardRoutes(t *testing.T) {
	on(t, func(t *testing.T, made template) {
		api := made.only(t, "AWS::ApiGatewayV2::Api", "Dashboard")
		stage := made.only(t, "AWS::ApiGatewayV2::Stage", "Dashboard")
		settings, _ := stage.Properties["RouteSettings"].(map[string]any)
		target := ""
		keys := map[string]bool{}
		for _, r := range made.all("AWS::ApiGatewayV2::Route") {
			if text(r.Properties["ApiId"]) != "${"+api.id+"}" {
				continue
			}
			key := text(r.Properties["RouteKey"])
			keys[key] = true
			target = cmp.Or(target, text(r.Properties["Target"]))
			equal(t, key+": one function", text(r.Properties["Target"]), target)
			if !slices.Contains(stage.DependsOn, r.id) {
				t.Errorf("route %s: want the stage to depend on it", key)
			}
		}
		for key, rate := range map[string]int{
			"$default": 50, "ANY /login": 5, "ANY /login/{proxy+}": 5, "ANY /api/{proxy+}": 50,
			"POST /api/v1/settlements": 200, "ANY /api/v1/self": 20,
		} {
			own, _ := settings[key].(map[string]any)
			equal(t, key+" rate", own["ThrottlingRateLimit"], rate)
			if burst, ok := own["ThrottlingBurstLimit"].(float64); !ok || burst < float64(rate) {
				t.Errorf("%s: got burst %v, want at least %d", key, own["ThrottlingBurstLimit"], rate)
			}
			if !keys[key] {
				t.Errorf("want route %s", key)
			}
		}
		equal(t, "routes", len(keys), len(settings))
		total := 0.0
		for _, own := range settings {
			rate, _ := own.(map[string]any)["ThrottlingRateLimit"].(float64)
			total += rate
		}
		if reserved := ours(t, made, "Admin").Properties["ReservedConcurrentExecutions"]; reserved != nil {
			equal(t, "the admin function takes what the throttles let pass", reserved, total/10)
		}
	})
}

func TestOwnDomain(t *testing.T) {
	made := of(t, prod)
	domain := made.only(t, "AWS::ApiGatewayV2::DomainName", "").Properties
	equal(t, "TLS", domain.at("DomainNameConfigurations", 0, "SecurityPolicy"), "TLS_1_2")
	equal(t, "certificate", domain.at("DomainNameConfigurations", 0, "CertificateArn"),
		everything().Certificate)
	dashboard := made.only(t, "AWS::ApiGatewayV2::Api", "Dashboard").Properties
	equal(t, "the default name is off", dashboard["DisableExecuteApiEndpoint"], true)
	equal(t, "what the dashboard knows", environment(t, made, "Admin")["ADMIN_URL"],
		"https://limits.example.com")
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
			problem, remedy, _ := strings.Cut(text(a.Properties["AlarmDescription"]), ". First: ")
			if len(problem) < 20 || len(remedy) < 10 || !strings.HasSuffix(remedy, ".") ||
				a.Properties["TreatMissingData"] != "notBreaching" {
				t.Errorf("%s: got %v, want a problem, a remedy and notBreaching", name, a.Properties)
			}
		}
		wanted := []string{
			"CheckThrottles", "CheckSlow", "AdminErrors", "AdminThrottles", "AdminSlow", "DashboardFailures",
			"CacheMemory", "CacheEvictions",
		}
		if !strings.HasSuffix(t.Name(), "/dev") { // dev has no own metrics and no reserved concurrency
			wanted = append(wanted, "CheckErrors", "CheckConcurrency", "Degraded", "StoreErrors", "StoreSlow")
		}
		if len(made.all("AWS::ElastiCache::ReplicationGroup")) > 0 {
			wanted = append(wanted, "CacheProcessor", "CacheLag")
		} else {
			wanted = append(wanted, "CacheECPUs", "CacheThrottled")
		}
		for _, want := range wanted {
			if !slices.Contains(names, want) {
				t.Errorf("got alarms %q, want %s among them", names, want)
			}
		}
	})
	subscription := of(t, prod).only(t, "AWS::SNS::Subscription", "").Properties
	equal(t, "mail", subscription["Endpoint"], everything().AlarmEmail)
}
