package authorizer_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2integrations"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"

	"tidegate/infra/authorizer"
)

// userApp is a user's app with a function, a REST API and an HTTP API.
type userApp struct {
	app   awscdk.App
	stack awscdk.Stack
	check awslambda.IFunction
	rest  awsapigateway.RestApi
	http  awsapigatewayv2.HttpApi
}

// foreign is the ARN of a check function of another stack.
const foreign = "arn:aws:lambda:eu-west-1:111122223333:function:tidegate-prod-check"

func newUserApp(app awscdk.App, stack awscdk.Stack) *userApp {
	s := &userApp{app: app, stack: stack}
	s.check = s.function("Check")
	s.rest = awsapigateway.NewRestApi(s.stack, jsii.String("Rest"),
		&awsapigateway.RestApiProps{CloudWatchRole: jsii.Bool(false)})
	s.rest.Root().AddMethod(jsii.String("OPTIONS"), awsapigateway.NewMockIntegration(nil), nil)
	s.http = awsapigatewayv2.NewHttpApi(s.stack, jsii.String("Http"), nil)
	return s
}

// newUserAppWithoutEnv returns an app whose stack has no env.
func newUserAppWithoutEnv() *userApp {
	app := awscdk.NewApp(&awscdk.AppProps{AnalyticsReporting: jsii.Bool(false)})
	return newUserApp(app, awscdk.NewStack(app, jsii.String("Somebody"), nil))
}

func (s *userApp) function(id string) awslambda.Function {
	return awslambda.NewFunction(s.stack, &id, &awslambda.FunctionProps{
		Runtime: awslambda.Runtime_NODEJS_LATEST(), Handler: jsii.String("index.handler"),
		Code: awslambda.Code_FromInline(jsii.String("//")),
	})
}

// use adds a route with the authorizer to its API.
func (s *userApp) use(a *authorizer.RateLimitAuthorizer) {
	if a.REST != nil {
		s.rest.Root().AddMethod(jsii.String("GET"), awsapigateway.NewMockIntegration(nil),
			&awsapigateway.MethodOptions{Authorizer: a.REST})
	}
	if a.HTTP != nil {
		backend := awsapigatewayv2integrations.NewHttpUrlIntegration(jsii.String("Backend"),
			jsii.String("https://example.com"), nil)
		s.http.AddRoutes(&awsapigatewayv2.AddRoutesOptions{Path: jsii.String("/"), Integration: backend,
			Authorizer: a.HTTP})
	}
}

// synthesise returns the template, or the errors of synthesis.
func (s *userApp) synthesise() (template assertions.Template, problem string) {
	defer func() {
		if r := recover(); r != nil {
			problem = fmt.Sprint(r)
		}
	}()
	return assertions.Template_FromStack(s.stack, nil), ""
}

func resources(t *testing.T, template assertions.Template, kind string) []map[string]any {
	t.Helper()
	found := template.FindResources(&kind, nil)
	text, err := json.Marshal(found)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]struct{ Properties map[string]any }
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	var list []map[string]any
	for _, r := range all {
		list = append(list, r.Properties)
	}
	return list
}

func TestAttachesToARESTAPI(t *testing.T) {
	s := newUserAppWithoutEnv()
	s.use(authorizer.NewRateLimitAuthorizer(s.stack, jsii.String("Limits"),
		&authorizer.Props{Function: s.check, RestAPI: s.rest}))
	template, problem := s.synthesise()
	if problem != "" {
		t.Fatal(problem)
	}
	template.HasResourceProperties(jsii.String("AWS::ApiGateway::Authorizer"), map[string]any{
		"Type": "REQUEST", "AuthorizerResultTtlInSeconds": 0, "IdentitySource": assertions.Match_Absent(),
	})
	template.HasResourceProperties(jsii.String("AWS::ApiGateway::Method"),
		map[string]any{"AuthorizationType": "CUSTOM", "HttpMethod": "GET"})
	template.ResourceCountIs(jsii.String("AWS::ApiGateway::GatewayResponse"), jsii.Number(2))
	onlyPermission(t, template, "AWS::ApiGateway::Authorizer")
}

// A challenge adds to WWW-Authenticate, and scripts may read it.
func TestChallenge(t *testing.T) {
	const metadata = `resource_metadata="https://api.example/.well-known/oauth-protected-resource"`
	for origin, exposed := range map[string]any{authorizer.NoOrigin: nil,
		"": "'Retry-After,RateLimit,RateLimit-Policy,WWW-Authenticate'"} {
		s := newUserAppWithoutEnv()
		s.use(authorizer.NewRateLimitAuthorizer(s.stack, jsii.String("Limits"), &authorizer.Props{
			Function: s.check, RestAPI: s.rest, Challenge: metadata, CORSOrigin: origin}))
		template, problem := s.synthesise()
		if problem != "" {
			t.Fatal(problem)
		}
		for _, response := range resources(t, template, "AWS::ApiGateway::GatewayResponse") {
			fields, _ := response["ResponseParameters"].(map[string]any)
			want, wantExposed := any(nil), any(nil)
			if origin == "" {
				wantExposed = "'Retry-After,RateLimit,RateLimit-Policy'"
			}
			if response["ResponseType"] == "UNAUTHORIZED" {
				want, wantExposed = `'Bearer realm="tidegate", `+metadata+"'", exposed
			}
			got := fields["gatewayresponse.header.Access-Control-Expose-Headers"]
			if fields["gatewayresponse.header.WWW-Authenticate"] != want || got != wantExposed {
				t.Errorf("%s: got %v, want %v and %v", response["ResponseType"], fields, want, wantExposed)
			}
		}
	}
}

func TestAttachesToAnHTTPAPI(t *testing.T) {
	s := newUserAppWithoutEnv()
	s.use(authorizer.NewRateLimitAuthorizer(s.stack, jsii.String("Limits"),
		&authorizer.Props{Function: s.check, HTTPAPI: s.http}))
	template, problem := s.synthesise()
	if problem != "" {
		t.Fatal(problem)
	}
	template.HasResourceProperties(jsii.String("AWS::ApiGatewayV2::Authorizer"), map[string]any{
		"AuthorizerType": "REQUEST", "AuthorizerResultTtlInSeconds": 0,
		"AuthorizerPayloadFormatVersion": "2.0", "EnableSimpleResponses": true,
		"IdentitySource": []any{},
	})
	template.HasResourceProperties(jsii.String("AWS::ApiGatewayV2::Route"),
		map[string]any{"AuthorizationType": "CUSTOM"})
	integrations := resources(t, template, "AWS::ApiGatewayV2::Integration")
	if len(integrations) != 1 || !strings.Contains(fmt.Sprint(integrations[0]["ResponseParameters"]),
		"overwrite:header.RateLimit-Policy") {
		t.Errorf("integrations %v: want one with the response mappings", integrations)
	}
	onlyPermission(t, template, "AWS::ApiGatewayV2::Authorizer")
}

// onlyPermission checks that the only permission to invoke the function is for the only
// authorizer.
func onlyPermission(t *testing.T, template assertions.Template, authorizer string) {
	t.Helper()
	ids := template.FindResources(&authorizer, nil)
	var permissions []map[string]any
	for _, p := range resources(t, template, "AWS::Lambda::Permission") {
		if p["Principal"] == "apigateway.amazonaws.com" {
			permissions = append(permissions, p)
		}
	}
	if len(permissions) != 1 || len(*ids) != 1 {
		t.Fatalf("permissions %v for %d authorizers, want one each", permissions, len(*ids))
	}
	source := fmt.Sprint(permissions[0]["SourceArn"])
	for id := range *ids {
		if !strings.Contains(source, "/authorizers/") || !strings.Contains(source, id) ||
			strings.Contains(source, "*") {
			t.Errorf("got source ARN %s, want one that ends in authorizer %s", source, id)
		}
	}
}

func TestOwnResponses(t *testing.T) {
	s := newUserAppWithoutEnv()
	s.use(authorizer.NewRateLimitAuthorizer(s.stack, jsii.String("A"),
		&authorizer.Props{Function: s.check, RestAPI: s.rest, OwnResponses: true}))
	s.use(authorizer.NewRateLimitAuthorizer(s.stack, jsii.String("B"),
		&authorizer.Props{Function: s.check, HTTPAPI: s.http, OwnResponses: true}))
	template, problem := s.synthesise()
	if problem != "" {
		t.Fatal(problem)
	}
	template.ResourceCountIs(jsii.String("AWS::ApiGateway::GatewayResponse"), jsii.Number(0))
	for _, p := range resources(t, template, "AWS::ApiGatewayV2::Integration") {
		if p["ResponseParameters"] != nil {
			t.Errorf("response mappings %v, want none", p["ResponseParameters"])
		}
	}
}

// An authorizer invokes a function of another stack by its ARN. In the same account the
// construct adds the permission; without env it assumes the same account. For another
// account the other stack must add the permission.
func TestForeignFunction(t *testing.T) {
	const account = "111122223333"
	env := func(account string) *awscdk.Environment {
		return &awscdk.Environment{Account: &account, Region: jsii.String("eu-west-1")}
	}
	for name, c := range map[string]struct {
		env          *awscdk.Environment
		otherAccount bool
		permissions  int
	}{
		"a stack without env":              {permissions: 2},
		"a stack of the same account":      {env: env(account), permissions: 2},
		"a stack of another account":       {env: env("444455556666")},
		"another account, by OtherAccount": {otherAccount: true},
	} {
		t.Run(name, func(t *testing.T) {
			app := awscdk.NewApp(&awscdk.AppProps{AnalyticsReporting: jsii.Bool(false)})
			s := newUserApp(app, awscdk.NewStack(app, jsii.String("Somebody"),
				&awscdk.StackProps{Env: c.env}))
			check := awslambda.Function_FromFunctionArn(s.stack, jsii.String("Foreign"), jsii.String(foreign))
			for id, props := range map[string]*authorizer.Props{"A": {RestAPI: s.rest},
				"B": {HTTPAPI: s.http}} {
				props.Function, props.OtherAccount = check, c.otherAccount
				s.use(authorizer.NewRateLimitAuthorizer(s.stack, &id, props))
			}
			template, problem := s.synthesise()
			if problem != "" {
				t.Fatal(problem)
			}
			for _, kind := range []string{"AWS::ApiGateway::Authorizer", "AWS::ApiGatewayV2::Authorizer"} {
				if found := resources(t, template, kind); len(found) != 1 ||
					!strings.Contains(fmt.Sprint(found[0]["AuthorizerUri"]), foreign) {
					t.Errorf("%s: %v, want one that invokes %s", kind, found, foreign)
				}
			}
			if c.permissions > 0 {
				assertions.Annotations_FromStack(s.stack).HasNoWarning(jsii.String("*"),
					assertions.Match_AnyValue())
			}
			permissions := resources(t, template, "AWS::Lambda::Permission")
			if len(permissions) != c.permissions {
				t.Fatalf("permissions %v, want %d", permissions, c.permissions)
			}
			for _, p := range permissions {
				source := fmt.Sprint(p["SourceArn"])
				if p["FunctionName"] != foreign || !strings.Contains(source, "/authorizers/") ||
					strings.Contains(source, "*") {
					t.Errorf("got permission %v, want one authorizer's for %s", p, foreign)
				}
			}
		})
	}
}

// Synthesis warns if the app does not deploy the REST API, since a stage keeps its last
// deployment.
func TestWarnsOfAnAPIThatItDoesNotDeploy(t *testing.T) {
	warning := func(api func(*userApp) awsapigateway.IRestApi) int {
		s := newUserAppWithoutEnv()
		limited := api(s)
		limits := authorizer.NewRateLimitAuthorizer(s.stack, jsii.String("Limits"),
			&authorizer.Props{Function: s.check, RestAPI: limited})
		limited.Root().AddMethod(jsii.String("PUT"), awsapigateway.NewMockIntegration(nil),
			&awsapigateway.MethodOptions{Authorizer: limits.REST})
		found := assertions.Annotations_FromStack(s.stack).FindWarning(jsii.String("/Somebody/Limits"),
			assertions.Match_StringLikeRegexp(
				jsii.String("deploy the API anew: aws apigateway create-deployment.*403 without "+
					"Retry-After")))
		return len(*found)
	}
	for name, c := range map[string]struct {
		api  func(*userApp) awsapigateway.IRestApi
		want int
	}{
		"an API of the app": {func(s *userApp) awsapigateway.IRestApi { return s.rest }, 0},
		"an imported API": {func(s *userApp) awsapigateway.IRestApi {
			return awsapigateway.RestApi_FromRestApiAttributes(s.stack, jsii.String("Imported"),
				&awsapigateway.RestApiAttributes{
					RestApiId: jsii.String("abc123"), RootResourceId: jsii.String("def456"),
				})
		}, 1},
		"an API that the app leaves undeployed": {func(s *userApp) awsapigateway.IRestApi {
			return awsapigateway.NewRestApi(s.stack, jsii.String("Own"),
				&awsapigateway.RestApiProps{Deploy: jsii.Bool(false)})
		}, 1},
	} {
		if got := warning(c.api); got != c.want {
			t.Errorf("%s: got %d warnings, want %d", name, got, c.want)
		}
	}
}

// Synthesis warns of the methods whose refusals by another authorizer become 429.
func TestWarnsOfOtherAuthorizers(t *testing.T) {
	s := newUserAppWithoutEnv()
	s.rest.Root().AddMethod(jsii.String("PUT"), awsapigateway.NewMockIntegration(nil),
		&awsapigateway.MethodOptions{AuthorizationType: awsapigateway.AuthorizationType_IAM})
	other := awsapigateway.NewTokenAuthorizer(s.stack, jsii.String("Other"),
		&awsapigateway.TokenAuthorizerProps{Handler: s.function("Others")})
	s.rest.Root().AddMethod(jsii.String("POST"), awsapigateway.NewMockIntegration(nil),
		&awsapigateway.MethodOptions{Authorizer: other})
	s.use(authorizer.NewRateLimitAuthorizer(s.stack, jsii.String("Limits"),
		&authorizer.Props{Function: s.check, RestAPI: s.rest}))
	found := assertions.Annotations_FromStack(s.stack).FindWarning(jsii.String("/Somebody/Limits"),
		assertions.Match_StringLikeRegexp(jsii.String(
			"answered 429 instead of 403.*Rest/Default/PUT/Resource.*Somebody/Rest/Default/POST/Resource")))
	if len(*found) != 1 {
		t.Errorf("got %d warnings that name both methods and not GET, want 1", len(*found))
	}
}

// Synthesis fails if no call is counted, and warns of the methods and routes that are open.
func TestRoutesWithoutTheAuthorizer(t *testing.T) {
	mock := awsapigateway.NewMockIntegration(nil)
	backend := func() awsapigatewayv2.HttpRouteIntegration {
		return awsapigatewayv2integrations.NewHttpUrlIntegration(jsii.String("B"),
			jsii.String("https://backend.example"), nil)
	}
	for name, c := range map[string]struct {
		build           func(s *userApp)
		problem, warned string
	}{
		"an HTTP API with a default integration": {func(s *userApp) {
			api := awsapigatewayv2.NewHttpApi(s.stack, jsii.String("Shop"),
				&awsapigatewayv2.HttpApiProps{DefaultIntegration: backend()})
			authorizer.NewRateLimitAuthorizer(s.stack, jsii.String("Limits"),
				&authorizer.Props{Function: s.check, HTTPAPI: api})
		},
			"has this authorizer.*default \\(Somebody/Shop/DefaultRoute/Resource\\)", ""},
		"a LambdaRestApi": {func(s *userApp) {
			api := awsapigateway.NewLambdaRestApi(s.stack, jsii.String("Shop"),
				&awsapigateway.LambdaRestApiProps{Handler: s.function("Backend")})
			authorizer.NewRateLimitAuthorizer(s.stack, jsii.String("Limits"),
				&authorizer.Props{Function: s.check, RestAPI: api})
		}, "no method or route of the API has this authorizer.*ANY \\(Somebody/Shop", ""},
		"one method": {func(s *userApp) {
			limits := authorizer.NewRateLimitAuthorizer(s.stack, jsii.String("Limits"),
				&authorizer.Props{Function: s.check, RestAPI: s.rest})
			s.use(limits)
			s.rest.Root().AddResource(jsii.String("orders"), nil).AddMethod(jsii.String("DELETE"), mock, nil)
		}, "", "DELETE \\(Somebody/Rest/Default/orders/DELETE/Resource\\)"},
		"ANY / beside a proxy": {func(s *userApp) {
			api := awsapigateway.NewRestApi(s.stack, jsii.String("Shop"), nil)
			limits := authorizer.NewRateLimitAuthorizer(s.stack, jsii.String("Limits"),
				&authorizer.Props{Function: s.check, RestAPI: api})
			api.Root().AddProxy(&awsapigateway.ProxyResourceOptions{DefaultIntegration: mock,
				DefaultMethodOptions: &awsapigateway.MethodOptions{Authorizer: limits.REST}})
		}, "", "ANY \\(Somebody/Shop/Default/ANY/Resource\\)"},
		"an open route that somebody acknowledged": {func(s *userApp) {
			awscdk.Annotations_Of(s.stack).AcknowledgeWarning(jsii.String("tidegate:OpenRoutes"), nil)
			s.use(authorizer.NewRateLimitAuthorizer(s.stack, jsii.String("Limits"),
				&authorizer.Props{Function: s.check, HTTPAPI: s.http}))
			s.http.AddRoutes(&awsapigatewayv2.AddRoutesOptions{Path: jsii.String("/health"),
				Integration: backend()})
		}, "", ""},
		"scopes": {func(s *userApp) {
			limits := authorizer.NewRateLimitAuthorizer(s.stack, jsii.String("Limits"),
				&authorizer.Props{Function: s.check, HTTPAPI: s.http})
			s.http.AddRoutes(&awsapigatewayv2.AddRoutesOptions{Path: jsii.String("/"), Integration: backend(),
				Authorizer: limits.HTTP, AuthorizationScopes: jsii.Strings("orders/read")})
		}, "ANY / .* has scopes", ""},
		"an API of another stack": {func(s *userApp) {
			authorizer.NewRateLimitAuthorizer(awscdk.NewStack(s.app, jsii.String("Other"), nil),
				jsii.String("Limits"),
				&authorizer.Props{Function: s.check, RestAPI: s.rest})
		}, "Other/Limits: the API is of stack Somebody.*make the authorizer in that stack", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newUserAppWithoutEnv()
			problem := func() (problem string) {
				defer func() {
					if r := recover(); r != nil {
						problem = fmt.Sprint(r)
					}
				}()
				c.build(s)
				_, problem = s.synthesise()
				return problem
			}()
			if (problem == "") != (c.problem == "") || !regexp.MustCompile(c.problem).MatchString(problem) {
				t.Fatalf("got %q, want %q", problem, c.problem)
			}
			if problem != "" {
				return
			}
			found := assertions.Annotations_FromStack(s.stack).FindWarning(jsii.String("*"),
				assertions.Match_StringLikeRegexp(jsii.String("have no authorizer.*"+c.warned)))
			if (len(*found) == 1) != (c.warned != "") {
				t.Errorf("got %d warnings, want %q", len(*found), c.warned)
			}
		})
	}
}

// Routes that are made in the stack or for an imported API get the RateLimit fields too, and
// those of another API do not.
func TestMapsRoutesBesideTheAPI(t *testing.T) {
	for name, imported := range map[string]bool{"own": false, "imported": true} {
		s := newUserAppWithoutEnv()
		api := awsapigatewayv2.IHttpApi(s.http)
		if imported {
			api = awsapigatewayv2.HttpApi_FromHttpApiAttributes(s.stack, jsii.String("Imported"),
				&awsapigatewayv2.HttpApiAttributes{HttpApiId: jsii.String("abc123")})
		}
		limits := authorizer.NewRateLimitAuthorizer(s.stack, jsii.String("Limits"),
			&authorizer.Props{Function: s.check, HTTPAPI: api})
		other := awsapigatewayv2.NewHttpApi(s.stack, jsii.String("Other"), nil)
		for id, of := range map[string]awsapigatewayv2.IHttpApi{"Limited": api, "Free": other} {
			props := &awsapigatewayv2.HttpRouteProps{HttpApi: of,
				RouteKey: awsapigatewayv2.HttpRouteKey_DEFAULT(),
				Integration: awsapigatewayv2integrations.NewHttpUrlIntegration(&id,
					jsii.String("https://"+id+".example"), nil)}
			if of != other {
				props.Authorizer = limits.HTTP
			}
			awsapigatewayv2.NewHttpRoute(s.stack, jsii.String(id+"Route"), props)
		}
		template, problem := s.synthesise()
		if problem != "" {
			t.Fatalf("%s: %s", name, problem)
		}
		found := resources(t, template, "AWS::ApiGatewayV2::Integration")
		if len(found) != 2 {
			t.Errorf("%s: got %d integrations, want 2", name, len(found))
		}
		for _, p := range found {
			uri, mappings := p["IntegrationUri"], p["ResponseParameters"]
			if (uri == "https://Limited.example") != (mappings != nil) {
				t.Errorf("%s: %v has mappings %v", name, uri, mappings)
			}
		}
	}
}

// An integration keeps its own response mappings, and its own value of a RateLimit field.
func TestKeepsOwnMappings(t *testing.T) {
	s := newUserAppWithoutEnv()
	own := func(destination, source string) map[string]any {
		return map[string]any{"Destination": destination, "Source": source}
	}
	awsapigatewayv2.NewCfnIntegration(s.http, jsii.String("Own"), &awsapigatewayv2.CfnIntegrationProps{
		ApiId: s.http.ApiId(), IntegrationType: jsii.String("HTTP_PROXY"),
		ResponseParameters: map[string]any{"200": map[string]any{"ResponseParameters": []any{
			own("append:header.x-own", "mine"), own("overwrite:header.ratelimit", "mine")}}},
	})
	authorizer.NewRateLimitAuthorizer(s.stack, jsii.String("Limits"),
		&authorizer.Props{Function: s.check, HTTPAPI: s.http})
	template, problem := s.synthesise()
	if problem != "" {
		t.Fatal(problem)
	}
	found := resources(t, template, "AWS::ApiGatewayV2::Integration")
	if len(found) != 1 {
		t.Fatalf("got %d integrations, want 1", len(found))
	}
	parameters, _ := found[0]["ResponseParameters"].(map[string]any)
	want := fmt.Sprint(map[string]any{"ResponseParameters": []any{
		own("append:header.x-own", "mine"), own("overwrite:header.ratelimit", "mine"),
		own("overwrite:header.RateLimit-Policy", "$context.authorizer.rateLimitPolicy")}})
	if got := fmt.Sprint(parameters["200"]); got != want {
		t.Errorf("got %s for 200, want %s", got, want)
	}
	if got := fmt.Sprint(parameters["404"]); !strings.Contains(got, "$context.authorizer.rateLimit ") &&
		!strings.Contains(got, "$context.authorizer.rateLimit]") {
		t.Errorf("got %s for 404, want both fields", got)
	}
}

func TestRefusesWhatBreaksCounting(t *testing.T) {
	attach := func(change func(*userApp, *authorizer.Props)) func(*userApp) {
		return func(s *userApp) {
			props := &authorizer.Props{Function: s.check, RestAPI: s.rest}
			change(s, props)
			s.use(authorizer.NewRateLimitAuthorizer(s.stack, jsii.String("Limits"), props))
		}
	}
	good := func(*userApp, *authorizer.Props) {}
	with := func(other func(*userApp)) func(*userApp) {
		return func(s *userApp) {
			attach(good)(s)
			other(s)
		}
	}
	for name, c := range map[string]struct {
		build func(*userApp)
		want  []string
	}{
		"challenge without quotes": {attach(func(_ *userApp, p *authorizer.Props) {
			p.Challenge = "resource_metadata=https://api.example"
		}), []string{"Challenge is", "resource_metadata="}},
		"challenge that ends the value": {attach(func(_ *userApp, p *authorizer.Props) {
			p.Challenge = `a="b'c"`
		}), []string{"Challenge is"}},
		"challenge of an HTTP API": {attach(func(s *userApp, p *authorizer.Props) {
			p.RestAPI, p.HTTPAPI, p.Challenge = nil, s.http, `a="b"`
		}), []string{"Challenge is for a REST API"}},
		"no function": {attach(func(_ *userApp, p *authorizer.Props) {
			p.Function = nil
		}), []string{"Function is missing"}},
		"no API": {attach(func(_ *userApp, p *authorizer.Props) {
			p.RestAPI = nil
		}), []string{"either RestAPI or HTTPAPI"}},
		"two APIs": {attach(func(s *userApp, p *authorizer.Props) {
			p.HTTPAPI = s.http
		}), []string{"either RestAPI or HTTPAPI"}},
		"all at once": {attach(func(_ *userApp, p *authorizer.Props) {
			p.Challenge, p.CORSOrigin = "a", "b"
		}), []string{"Challenge is", "CORSOrigin is"}},
		"another authorizer that caches": {with(func(s *userApp) {
			other := awsapigateway.NewRequestAuthorizer(s.stack, jsii.String("Other"),
				&awsapigateway.RequestAuthorizerProps{
					Handler: s.check, IdentitySources: jsii.Strings("method.request.header.x-api-key"),
				})
			s.rest.Root().AddMethod(jsii.String("PUT"), awsapigateway.NewMockIntegration(nil),
				&awsapigateway.MethodOptions{Authorizer: other})
		}), []string{"Somebody/Other/Resource caches results",
			"Somebody/Other/Resource has an identity source"}},
		"another authorizer of an HTTP API": {with(func(s *userApp) {
			awsapigatewayv2.NewCfnAuthorizer(s.stack, jsii.String("Other"),
				&awsapigatewayv2.CfnAuthorizerProps{
					ApiId: s.http.ApiId(), AuthorizerType: jsii.String("REQUEST"), Name: jsii.String("other"),
					AuthorizerUri: jsii.String(
						"arn:aws:apigateway:eu-west-1:lambda:path/2015-03-31/functions/" +
							*s.check.FunctionArn() + "/invocations"),
				})
		}), []string{"Somebody/Other caches results for the default 300 s"}},
		"anybody may invoke": {with(func(s *userApp) {
			s.check.AddPermission(jsii.String("Wide"), &awslambda.Permission{
				Principal: awsiam.NewServicePrincipal(jsii.String("apigateway.amazonaws.com"), nil),
			})
		}), []string{"Somebody/Check/Wide lets more than one authorizer"}},
		"a whole API may invoke": {with(func(s *userApp) {
			s.check.AddPermission(jsii.String("Wide"), &awslambda.Permission{
				Principal: awsiam.NewServicePrincipal(jsii.String("apigateway.amazonaws.com"), nil),
				SourceArn: jsii.String("arn:aws:execute-api:eu-west-1:111122223333:abc123/*"),
			})
		}), []string{"Somebody/Check/Wide lets more than one authorizer"}},
		"an own answer to a denial": {with(func(s *userApp) {
			s.rest.AddGatewayResponse(jsii.String("Denied"), &awsapigateway.GatewayResponseOptions{
				Type: awsapigateway.ResponseType_ACCESS_DENIED(), StatusCode: jsii.String("403"),
			})
		}), []string{"Somebody/Rest/Denied/Resource answers ACCESS_DENIED as Somebody/Limits does",
			"set OwnResponses"}},
		"an own answer of another API": {with(func(s *userApp) {
			other := awsapigateway.NewRestApi(s.stack, jsii.String("OtherRest"),
				&awsapigateway.RestApiProps{CloudWatchRole: jsii.Bool(false)})
			other.Root().AddMethod(jsii.String("GET"), awsapigateway.NewMockIntegration(nil), nil)
			other.AddGatewayResponse(jsii.String("Denied"), &awsapigateway.GatewayResponseOptions{
				Type: awsapigateway.ResponseType_ACCESS_DENIED(),
			})
		}), nil},
		"an OpenAPI body": {func(s *userApp) {
			body := awsapigateway.NewSpecRestApi(s.stack, jsii.String("Spec"),
				&awsapigateway.SpecRestApiProps{
					CloudWatchRole: jsii.Bool(false),
					ApiDefinition: awsapigateway.ApiDefinition_FromInline(map[string]any{
						"openapi": "3.0.1", "paths": map[string]any{}}),
				})
			authorizer.NewRateLimitAuthorizer(s.stack, jsii.String("Limits"),
				&authorizer.Props{Function: s.check, RestAPI: body})
		}, []string{"RestAPI is made from an OpenAPI body", "infra/attach/openapi.yaml"}},
		"an authorizer of another function is ignored": {with(func(s *userApp) {
			s.function("Other").AddPermission(jsii.String("Wide"), &awslambda.Permission{
				Principal: awsiam.NewServicePrincipal(jsii.String("apigateway.amazonaws.com"), nil),
			})
		}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newUserAppWithoutEnv()
			c.build(s)
			_, problem := s.synthesise()
			if (problem == "") != (len(c.want) == 0) {
				t.Fatalf("got synthesis error %q, want %q", problem, c.want)
			}
			for _, want := range c.want {
				if !strings.Contains(problem, want) {
					t.Errorf("got synthesis error %q, want %q", problem, want)
				}
			}
		})
	}
}

func TestAllow(t *testing.T) {
	const good = "arn:aws:execute-api:eu-west-1:111122223333:abc123/authorizers/def456"
	s := newUserAppWithoutEnv()
	if err := authorizer.Allow(s.check, jsii.String("Friend"), good); err != nil {
		t.Fatal(err)
	}
	for _, wide := range []string{
		"", "*", "arn:aws:execute-api:eu-west-1:111122223333:*",
		"arn:aws:execute-api:eu-west-1:111122223333:abc123/*",
		"arn:aws:execute-api:eu-west-1:111122223333:abc123/authorizers/*",
		"arn:aws:execute-api:eu-west-1:*:abc123/authorizers/def456",
		"arn:aws:execute-api:eu-west-1:111122223333:*/authorizers/def456",
		"arn:aws:execute-api:eu-west-1:111122223333:abc123/prod/GET/pets",
	} {
		if err := authorizer.Allow(s.check, jsii.String("Wide"), wide); err == nil {
			t.Errorf("Allow(%q): got no error", wide)
		}
	}
	template, problem := s.synthesise()
	if problem != "" {
		t.Fatal(problem)
	}
	template.HasResourceProperties(jsii.String("AWS::Lambda::Permission"), map[string]any{"SourceArn": good})
	template.ResourceCountIs(jsii.String("AWS::Lambda::Permission"), jsii.Number(1))
}

// A role that may make direct calls may invoke this function, not its versions, and nothing
// else.
func TestGrantCheck(*testing.T) {
	s := newUserAppWithoutEnv()
	role := awsiam.NewRole(s.stack, jsii.String("Backend"), &awsiam.RoleProps{
		AssumedBy: awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil)})
	authorizer.GrantCheck(awslambda.Function_FromFunctionArn(s.stack, jsii.String("There"),
		jsii.String(foreign)), role)
	assertions.Template_FromStack(s.stack, nil).HasResourceProperties(jsii.String("AWS::IAM::Policy"),
		map[string]any{"PolicyDocument": map[string]any{"Statement": []any{map[string]any{
			"Action": "lambda:InvokeFunction", "Effect": "Allow", "Resource": foreign}}}})
}
