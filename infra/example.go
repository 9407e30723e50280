package main

import (
	_ "embed"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2integrations"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"

	"tidegate/infra/authorizer"
)

// Throttle of each example API in calls a second. Above it API Gateway answers 429;
// unconfirmed whether before it calls the authorizer.
const (
	exampleRate  = 200
	exampleBurst = 400
)

// example is a REST API and an HTTP API with the authorizer, to try and to copy.
type example struct {
	rest           awsapigateway.RestApi
	http           awsapigatewayv2.HttpApi
	restAuthorizer *authorizer.RateLimitAuthorizer
	httpAuthorizer *authorizer.RateLimitAuthorizer
}

func (s *Stack) newExample() *example {
	backend := s.newBackend()
	e := &example{rest: s.newExampleREST(), http: s.newExampleHTTP()}
	e.restAuthorizer = authorizer.NewRateLimitAuthorizer(s.Stack, jsii.String("ExampleRestLimits"),
		&authorizer.Props{
			Function: s.check.Function, RestAPI: e.rest, Name: "tidegate", CORSOrigin: s.props.CORSOrigin,
		})
	e.httpAuthorizer = authorizer.NewRateLimitAuthorizer(s.Stack, jsii.String("ExampleHttpLimits"),
		&authorizer.Props{
			Function: s.check.Function, HTTPAPI: e.http, Name: "tidegate",
		})
	limited := &awsapigateway.MethodOptions{Authorizer: e.restAuthorizer.REST}
	integration := awsapigateway.NewLambdaIntegration(backend, &awsapigateway.LambdaIntegrationOptions{
		AllowTestInvoke: jsii.Bool(false), // a test would bypass the authorizer
	})
	e.rest.Root().AddMethod(jsii.String("ANY"), integration, limited)
	e.rest.Root().AddProxy(&awsapigateway.ProxyResourceOptions{DefaultIntegration: integration,
		DefaultMethodOptions: limited})
	e.http.AddRoutes(&awsapigatewayv2.AddRoutesOptions{
		Path:    jsii.String("/{proxy+}"),
		Methods: &exampleMethods,
		Integration: awsapigatewayv2integrations.NewHttpLambdaIntegration(jsii.String("Backend"),
			backend, nil),
		Authorizer: e.httpAuthorizer.HTTP,
	})
	return e
}

// requestHeaders are the headers that scripts of other origins may send.
var requestHeaders = []string{"Authorization", "X-Api-Key", "Content-Type"}

func (s *Stack) newExampleREST() awsapigateway.RestApi {
	// OPTIONS has no authorizer, since browsers send no key with it.
	var preflight *awsapigateway.CorsOptions
	if s.props.CORSOrigin != authorizer.NoOrigin {
		preflight = &awsapigateway.CorsOptions{
			AllowOrigins: jsii.Strings(s.props.CORSOrigin), AllowHeaders: jsii.Strings(requestHeaders...),
			AllowCredentials: s.allowCredentials(),
		}
	}
	api := awsapigateway.NewRestApi(s.Stack, jsii.String("ExampleRest"), &awsapigateway.RestApiProps{
		RestApiName:    jsii.String(s.props.Name() + "-example"),
		Description:    jsii.String("Example of a REST API behind Tidegate"),
		EndpointTypes:  &[]awsapigateway.EndpointType{awsapigateway.EndpointType_REGIONAL},
		CloudWatchRole: jsii.Bool(false), // the role is a setting of the whole account

		DefaultCorsPreflightOptions: preflight,
		DeployOptions: &awsapigateway.StageOptions{
			StageName:            jsii.String("prod"),
			ThrottlingRateLimit:  jsii.Number(exampleRate),
			ThrottlingBurstLimit: jsii.Number(exampleBurst),
			TracingEnabled:       jsii.Bool(s.props.Observe.Tracing),
		},
	})
	api.Node().TryRemoveChild(jsii.String("Endpoint")) // the CDK's output; newOutputs adds ours
	return api
}

// exampleMethods are the methods of the HTTP API's routes. They exclude OPTIONS, which
// API Gateway answers from the CORS configuration if there is no route for it.
var exampleMethods = []awsapigatewayv2.HttpMethod{
	awsapigatewayv2.HttpMethod_GET, awsapigatewayv2.HttpMethod_HEAD, awsapigatewayv2.HttpMethod_POST,
	awsapigatewayv2.HttpMethod_PUT, awsapigatewayv2.HttpMethod_PATCH, awsapigatewayv2.HttpMethod_DELETE,
}

func (s *Stack) newExampleHTTP() awsapigatewayv2.HttpApi {
	api := awsapigatewayv2.NewHttpApi(s.Stack, jsii.String("ExampleHttp"), &awsapigatewayv2.HttpApiProps{
		ApiName:            jsii.String(s.props.Name() + "-example"),
		Description:        jsii.String("Example of an HTTP API behind Tidegate"),
		CreateDefaultStage: jsii.Bool(false),
		CorsPreflight:      s.exampleCORS(),
	})
	s.newStage("ExampleHttp", "example-http", api, exampleRate, exampleBurst, nil)
	return api
}

// exampleCORS returns the HTTP API's CORS configuration; nil if scripts of no origin may
// read its answers.
func (s *Stack) exampleCORS() *awsapigatewayv2.CorsPreflightOptions {
	if s.props.CORSOrigin == authorizer.NoOrigin {
		return nil
	}
	var methods []awsapigatewayv2.CorsHttpMethod
	for _, method := range exampleMethods {
		methods = append(methods, awsapigatewayv2.CorsHttpMethod(method))
	}
	return &awsapigatewayv2.CorsPreflightOptions{
		AllowOrigins:  &[]*string{&s.props.CORSOrigin},
		AllowHeaders:  jsii.Strings(requestHeaders...),
		AllowMethods:  &methods,
		ExposeHeaders: jsii.Strings("Retry-After", "RateLimit", "RateLimit-Policy"),

		AllowCredentials: s.allowCredentials(),
	}
}

// allowCredentials lets scripts that send cookies read the answers too. Browsers refuse
// that together with any origin.
func (s *Stack) allowCredentials() *bool {
	if s.props.CORSOrigin == authorizer.AnyOrigin {
		return nil
	}
	return jsii.Bool(true)
}

//go:embed backend.js
var backendSource string

func (s *Stack) newBackend() awslambda.Function {
	log := s.optionalLogGroup("BackendLog", "example-backend")
	role := awsiam.NewRole(s.Stack, jsii.String("BackendRole"), &awsiam.RoleProps{
		AssumedBy: awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		InlinePolicies: &map[string]awsiam.PolicyDocument{
			"Work": awsiam.NewPolicyDocument(&awsiam.PolicyDocumentProps{
				Statements: &[]awsiam.PolicyStatement{
					statement("Log", jsii.Strings("logs:CreateLogStream", "logs:PutLogEvents"),
						&[]*string{log.LogGroupArn()}),
				},
			})},
	})
	return awslambda.NewFunction(s.Stack, jsii.String("Backend"), &awslambda.FunctionProps{
		FunctionName: jsii.String(s.functionName("backend")),
		Description:  jsii.String("Sample backend of Tidegate's example APIs"),
		Runtime:      awslambda.Runtime_NODEJS_LATEST(),
		Architecture: awslambda.Architecture_ARM_64(),
		Handler:      jsii.String("index.handler"),
		Code:         awslambda.Code_FromInline(&backendSource),
		Environment:  &map[string]*string{"CORS_ORIGIN": &s.props.CORSOrigin},
		Timeout:      awscdk.Duration_Seconds(jsii.Number(5)),
		Role:         role,
		LogGroup:     log,
	})
}
