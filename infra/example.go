package main

import (
	_ "embed"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2integrations"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"

	"tidegate/infra/authorizer"
	"tidegate/infra/settings"
	"tidegate/infra/tidegate"
)

// Throttle of each example API in calls a second. Above it API Gateway answers 429;
// unconfirmed whether before it calls the authorizer.
const (
	exampleRate  = 200
	exampleBurst = 400
)

// example is a REST API and an HTTP API with the authorizer, to try and to copy.
type example struct {
	awscdk.Stack
	props *settings.Props
}

// newExample adds the APIs to a stack with a deployment, and their outputs.
func newExample(stack awscdk.Stack, props *settings.Props, limits *tidegate.Tidegate) {
	e := &example{stack, props}
	backend := e.newBackend()
	rest, http := e.newREST(), e.newHTTP()
	restAuthorizer := authorizer.NewRateLimitAuthorizer(stack, jsii.String("ExampleRestLimits"),
		&authorizer.Props{Function: limits.Check, RestAPI: rest, Name: "tidegate"})
	httpAuthorizer := authorizer.NewRateLimitAuthorizer(stack, jsii.String("ExampleHttpLimits"),
		&authorizer.Props{Function: limits.Check, HTTPAPI: http, Name: "tidegate"})
	limited := &awsapigateway.MethodOptions{Authorizer: restAuthorizer.REST}
	integration := awsapigateway.NewLambdaIntegration(backend, &awsapigateway.LambdaIntegrationOptions{
		AllowTestInvoke: jsii.Bool(false), // a test would bypass the authorizer
	})
	rest.Root().AddMethod(jsii.String("ANY"), integration, limited)
	rest.Root().AddProxy(&awsapigateway.ProxyResourceOptions{DefaultIntegration: integration,
		DefaultMethodOptions: limited})
	http.AddRoutes(&awsapigatewayv2.AddRoutesOptions{
		Path:    jsii.String("/{proxy+}"),
		Methods: &exampleMethods,
		Integration: awsapigatewayv2integrations.NewHttpLambdaIntegration(jsii.String("Backend"),
			backend, nil),
		Authorizer: httpAuthorizer.HTTP,
	})
	limits.Admin.AddEnvironment(jsii.String("EXAMPLE_URL"), jsii.String(*rest.Url()+"hello"), nil)
	denial := "403"
	if props.DenialInContext() {
		denial = "its backend answers 429"
	}
	for id, o := range map[string][2]string{
		"ExampleRestUrl":           {*rest.Url(), "The example REST API: 429 over a limit"},
		"ExampleHttpUrl":           {*http.ApiEndpoint(), "The example HTTP API: " + denial + " over a limit"},
		"ExampleRestAuthorizerArn": {*restAuthorizer.ARN, "Authorizer of the example REST API"},
		"ExampleHttpAuthorizerArn": {*httpAuthorizer.ARN, "Authorizer of the example HTTP API"},
	} {
		awscdk.NewCfnOutput(stack, &id, &awscdk.CfnOutputProps{Value: &o[0], Description: &o[1]})
	}
}

// requestHeaders are the headers that scripts of other origins may send.
var requestHeaders = []string{"Authorization", "X-Api-Key", "Content-Type"}

func (e *example) newREST() awsapigateway.RestApi {
	api := awsapigateway.NewRestApi(e.Stack, jsii.String("ExampleRest"), &awsapigateway.RestApiProps{
		RestApiName:    jsii.String(e.props.Name() + "-example"),
		Description:    jsii.String("Example of a REST API behind Tidegate"),
		EndpointTypes:  &[]awsapigateway.EndpointType{awsapigateway.EndpointType_REGIONAL},
		CloudWatchRole: jsii.Bool(false), // the role is a setting of the whole account

		// OPTIONS has no authorizer, since browsers send no key with it.
		DefaultCorsPreflightOptions: &awsapigateway.CorsOptions{
			AllowOrigins: jsii.Strings(authorizer.AnyOrigin), AllowHeaders: jsii.Strings(requestHeaders...),
		},
		DeployOptions: &awsapigateway.StageOptions{
			StageName:            jsii.String("prod"),
			ThrottlingRateLimit:  jsii.Number(exampleRate),
			ThrottlingBurstLimit: jsii.Number(exampleBurst),
			TracingEnabled:       jsii.Bool(e.props.Tracing),
		},
	})
	api.Node().TryRemoveChild(jsii.String("Endpoint")) // the CDK's output; newExample adds ours
	return api
}

// exampleMethods are the methods of the HTTP API's routes. They exclude OPTIONS, which
// API Gateway answers from the CORS configuration if there is no route for it.
var exampleMethods = []awsapigatewayv2.HttpMethod{
	awsapigatewayv2.HttpMethod_GET, awsapigatewayv2.HttpMethod_HEAD, awsapigatewayv2.HttpMethod_POST,
	awsapigatewayv2.HttpMethod_PUT, awsapigatewayv2.HttpMethod_PATCH, awsapigatewayv2.HttpMethod_DELETE,
}

func (e *example) newHTTP() awsapigatewayv2.HttpApi {
	var methods []awsapigatewayv2.CorsHttpMethod
	for _, method := range exampleMethods {
		methods = append(methods, awsapigatewayv2.CorsHttpMethod(method))
	}
	api := awsapigatewayv2.NewHttpApi(e.Stack, jsii.String("ExampleHttp"), &awsapigatewayv2.HttpApiProps{
		ApiName:            jsii.String(e.props.Name() + "-example"),
		Description:        jsii.String("Example of an HTTP API behind Tidegate"),
		CreateDefaultStage: jsii.Bool(false),
		CorsPreflight: &awsapigatewayv2.CorsPreflightOptions{
			AllowOrigins: jsii.Strings(authorizer.AnyOrigin), AllowHeaders: jsii.Strings(requestHeaders...),
			AllowMethods: &methods, ExposeHeaders: jsii.Strings("Retry-After", "RateLimit", "RateLimit-Policy"),
		},
	})
	awsapigatewayv2.NewHttpStage(e.Stack, jsii.String("ExampleHttpStage"), &awsapigatewayv2.HttpStageProps{
		HttpApi: api, StageName: jsii.String("$default"), AutoDeploy: jsii.Bool(true),
		Throttle: &awsapigatewayv2.ThrottleSettings{RateLimit: jsii.Number(exampleRate),
			BurstLimit: jsii.Number(exampleBurst)},
	})
	return api
}

//go:embed backend.js
var backendSource string

func (e *example) newBackend() awslambda.Function {
	return awslambda.NewFunction(e.Stack, jsii.String("Backend"), &awslambda.FunctionProps{
		Description:  jsii.String("Sample backend of Tidegate's example APIs"),
		Runtime:      awslambda.Runtime_NODEJS_LATEST(),
		Architecture: awslambda.Architecture_ARM_64(),
		Handler:      jsii.String("index.handler"),
		Code:         awslambda.Code_FromInline(&backendSource),
		Environment:  &map[string]*string{"CORS_ORIGIN": jsii.String(authorizer.AnyOrigin)},
		Timeout:      awscdk.Duration_Seconds(jsii.Number(5)),
		LogGroup: awslogs.NewLogGroup(e.Stack, jsii.String("BackendLog"), &awslogs.LogGroupProps{
			Retention: awslogs.RetentionDays_TWO_WEEKS, RemovalPolicy: awscdk.RemovalPolicy_DESTROY}),
	})
}
