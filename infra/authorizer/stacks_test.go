package authorizer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"tidegate/infra/authorizer"
)

// environmentStack makes a team's stack: one class, made for each environment with the
// same ids.
func environmentStack(scope constructs.Construct, id string) *userApp {
	s := newUserApp(nil, awscdk.NewStack(scope, &id, nil))
	s.use(authorizer.NewRateLimitAuthorizer(s.stack, jsii.String("Limits"),
		&authorizer.Props{Function: s.check, RestAPI: s.rest}))
	s.use(authorizer.NewRateLimitAuthorizer(s.stack, jsii.String("HttpLimits"),
		&authorizer.Props{Function: s.check, HTTPAPI: s.http}))
	return s
}

// caching adds an authorizer that invokes a function and caches results.
func caching(stack awscdk.Stack, function awslambda.IFunction) {
	awsapigateway.NewCfnAuthorizer(stack, jsii.String("Own"), &awsapigateway.CfnAuthorizerProps{
		RestApiId: jsii.String("abc123"), Name: jsii.String("own"), Type: jsii.String("TOKEN"),
		AuthorizerUri: jsii.String("arn:aws:apigateway:eu-west-1:lambda:path/2015-03-31/functions/" +
			*function.FunctionArn() + "/invocations"),
	})
}

// denies adds an answer to a denial to a REST API.
func denies(stack awscdk.Stack, api awsapigateway.IRestApi) {
	awsapigateway.NewCfnGatewayResponse(stack, jsii.String("Denied"),
		&awsapigateway.CfnGatewayResponseProps{
			RestApiId: api.RestApiId(), ResponseType: jsii.String("ACCESS_DENIED"),
		})
}

// imported attaches the construct to an API of another stack.
func imported(stack awscdk.Stack, from *userApp) {
	api := awsapigateway.RestApi_FromRestApiAttributes(stack, jsii.String("Imported"),
		&awsapigateway.RestApiAttributes{
			RestApiId: from.rest.RestApiId(), RootResourceId: from.rest.RestApiRootResourceId(),
		})
	limits := authorizer.NewRateLimitAuthorizer(stack, jsii.String("Limits"),
		&authorizer.Props{Function: literal(stack), RestAPI: api})
	api.Root().AddMethod(jsii.String("GET"), awsapigateway.NewMockIntegration(nil),
		&awsapigateway.MethodOptions{Authorizer: limits.REST})
}

// literal is a function that a stack knows by its ARN.
func literal(stack awscdk.Stack) awslambda.IFunction {
	return awslambda.Function_FromFunctionArn(stack, jsii.String("Literal"), jsii.String(foreign))
}

// An app may have stacks with the same ids. The guard compares what is one thing, and what
// only has the same id in another stack passes.
func TestStacksOfOneApp(t *testing.T) {
	second := func(app awscdk.App) awscdk.Stack {
		return awscdk.NewStack(app, jsii.String("Second"), nil)
	}
	for name, c := range map[string]struct {
		build func(awscdk.App)
		want  string
	}{
		"two environments": {func(app awscdk.App) {
			environmentStack(app, "Dev")
			environmentStack(app, "Prod")
		}, ""},
		"two stages of a pipeline": {func(app awscdk.App) {
			for _, id := range []string{"Dev", "Prod"} {
				environmentStack(awscdk.NewStage(app, &id, nil), "Shop")
			}
		}, ""},
		"another stack's function of the same id": {func(app awscdk.App) {
			environmentStack(app, "Ours")
			theirs := newUserApp(nil, second(app))
			caching(theirs.stack, theirs.check)
		}, ""},
		"another stack's API of the same id": {func(app awscdk.App) {
			imported(second(app), newUserApp(nil, awscdk.NewStack(app, jsii.String("Ours"), nil)))
			theirs := newUserApp(nil, awscdk.NewStack(app, jsii.String("Theirs"), nil))
			denies(theirs.stack, theirs.rest)
		}, ""},
		"a function of another stack": {func(app awscdk.App) {
			check := newUserApp(nil, second(app)).check
			s := newUserApp(nil, awscdk.NewStack(app, jsii.String("Ours"), nil))
			s.use(authorizer.NewRateLimitAuthorizer(s.stack, jsii.String("Limits"),
				&authorizer.Props{Function: check, RestAPI: s.rest}))
			s.use(authorizer.NewRateLimitAuthorizer(s.stack, jsii.String("HttpLimits"),
				&authorizer.Props{Function: check, HTTPAPI: s.http}))
		}, ""},
		"our function in another stack": {func(app awscdk.App) {
			ours := environmentStack(app, "Ours")
			caching(second(app), ours.check)
		}, "Second/Own caches results"},
		"our function by its ARN in another stack": {func(app awscdk.App) {
			s := newUserApp(nil, awscdk.NewStack(app, jsii.String("Ours"), nil))
			s.use(authorizer.NewRateLimitAuthorizer(s.stack, jsii.String("Limits"),
				&authorizer.Props{Function: literal(s.stack), HTTPAPI: s.http}))
			stack := second(app)
			caching(stack, literal(stack))
		}, "Second/Own caches results"},
		"an answer of our API in another stack": {func(app awscdk.App) {
			ours := environmentStack(app, "Ours")
			denies(second(app), ours.rest)
		}, "Second/Denied answers ACCESS_DENIED"},
		"an answer of an imported API in its own stack": {func(app awscdk.App) {
			theirs := newUserApp(nil, awscdk.NewStack(app, jsii.String("Theirs"), nil))
			denies(theirs.stack, theirs.rest)
			imported(second(app), theirs)
		}, "Theirs/Denied answers ACCESS_DENIED"},
	} {
		t.Run(name, func(t *testing.T) {
			app := awscdk.NewApp(&awscdk.AppProps{AnalyticsReporting: jsii.Bool(false)})
			c.build(app)
			problem := synthesise(app)
			if (problem == "") != (c.want == "") || !strings.Contains(problem, c.want) {
				t.Errorf("got synthesis error %q, want %q", problem, c.want)
			}
		})
	}
}

// synthesise returns the errors of an app's synthesis.
func synthesise(app awscdk.App) (problem string) {
	defer func() {
		if r := recover(); r != nil {
			problem = fmt.Sprint(r)
		}
	}()
	app.Synth(nil)
	return ""
}
