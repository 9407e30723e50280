// Package authorizer attaches Tidegate's check function to an API of a CDK app: a REST
// API or an HTTP API, in Tidegate's own stack or in another.
//
//	limits := authorizer.NewRateLimitAuthorizer(stack, jsii.String("Limits"),
//		&authorizer.Props{Function: check, RestAPI: api})
//	api.Root().AddMethod(jsii.String("GET"), backend,
//		&awsapigateway.MethodOptions{Authorizer: limits.REST})
//
// Synthesis fails, with the construct's name, if the app would let calls pass without
// being counted: no method or route with the authorizer, cached results, an identity source,
// or a permission to invoke the function for more than one authorizer. It warns of methods
// and routes without an authorizer.
package authorizer

import (
	"fmt"
	"regexp"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// Props has the function and the API. Function and one of RestAPI and HTTPAPI are
// required.
type Props struct {
	// Function is the check function. One of another stack comes from
	// awslambda.Function_FromFunctionArn with the stack's output CheckFunctionArn.
	Function awslambda.IFunction
	// OtherAccount is true if the function is in another account, whose stack must allow
	// this authorizer: see Allow. It is not needed if the function's ARN and the stack's
	// env contain the accounts.
	OtherAccount bool
	// RestAPI gets a REQUEST authorizer, and gateway responses that answer 429 and 401.
	RestAPI awsapigateway.IRestApi
	// HTTPAPI gets an authorizer with payload format 2.0 and simple responses, and its
	// integrations get response mappings that add the RateLimit fields.
	HTTPAPI awsapigatewayv2.IHttpApi
	// Name is the authorizer's name. The default is the construct's id.
	Name string
	// CORSOrigin is the origin whose scripts may read a REST API's 401 and 429 in a
	// browser: one origin, such as https://app.example, AnyOrigin or NoOrigin. The
	// default is AnyOrigin: a script sends the key in a header that it sets itself, never
	// in a cookie, so another site's script learns nothing without the key. Scripts that
	// send cookies too (credentials: "include") need one origin. An HTTP API has its own
	// CORS configuration, CorsPreflight, which is not changed.
	CORSOrigin string
	// Challenge has further parameters of WWW-Authenticate in a REST API's 401, such as
	// resource_metadata="https://api.example/.well-known/oauth-protected-resource", where
	// clients of an MCP server begin their log-in. Scripts may then read that header too.
	Challenge string
	// OwnResponses leaves out the gateway responses of a REST API, or the response
	// mappings of an HTTP API, for an API that answers in its own way. Without it an own
	// gateway response of the same type is refused, and own mappings are kept.
	OwnResponses bool
}

// Values of Props.CORSOrigin other than one origin.
const (
	AnyOrigin = "*"
	NoOrigin  = "none"
)

// RateLimitAuthorizer is Tidegate's authorizer of an API.
type RateLimitAuthorizer struct {
	// REST is for the methods of a REST API; nil on an HTTP API.
	REST awsapigateway.IAuthorizer
	// HTTP is for the routes of an HTTP API; nil on a REST API.
	HTTP awsapigatewayv2.IHttpRouteAuthorizer
	ID   *string
	// ARN is the source ARN in the function's permission.
	ARN *string
}

// NewRateLimitAuthorizer attaches the function of props to the API of props. Synthesis
// fails for props that would let calls pass without being counted.
func NewRateLimitAuthorizer(scope constructs.Construct, id *string, props *Props) *RateLimitAuthorizer {
	construct := constructs.NewConstruct(scope, id)
	props.checkStack(construct)
	guard := &guard{scope: construct, props: *props}
	construct.Node().AddValidation(guard)
	if props.Name == "" {
		guard.props.Name = *id
	}
	if props.CORSOrigin == "" {
		guard.props.CORSOrigin = AnyOrigin
	}
	a := &RateLimitAuthorizer{}
	switch {
	case props.Function == nil || (props.RestAPI == nil) == (props.HTTPAPI == nil): // the guard reports it
	case isSpec(props.RestAPI): // the guard reports it
	case props.RestAPI != nil:
		a.attachREST(construct, &guard.props)
	default:
		a.attachHTTP(construct, &guard.props)
	}
	guard.id = a.ID
	return a
}

// checkStack refuses an API of another stack of the app: its methods need the authorizer,
// and the authorizer needs the API, so neither stack could be deployed first.
func (p *Props) checkStack(scope constructs.Construct) {
	var api constructs.IConstruct = p.RestAPI
	if p.RestAPI == nil {
		api = p.HTTPAPI
	}
	if p.RestAPI == nil && p.HTTPAPI == nil {
		return // the guard reports it
	}
	if here, there := awscdk.Stack_Of(scope),
		awscdk.Stack_Of(api); *here.Node().Path() != *there.Node().Path() {
		panic(fmt.Sprintf("%s: the API is of stack %s, and its methods and this authorizer need each other: "+
			"make the authorizer in that stack; the function may be of another", *scope.Node().Path(),
			*there.Node().Path()))
	}
}

// isSpec reports whether a REST API is made from an OpenAPI body.
func isSpec(api awsapigateway.IRestApi) bool {
	if api == nil {
		return false
	}
	resource, ok := api.Node().DefaultChild().(awsapigateway.CfnRestApi)
	return ok && (resource.Body() != nil || resource.BodyS3Location() != nil)
}

func (a *RateLimitAuthorizer) attachREST(scope constructs.Construct, p *Props) {
	attached := awsapigateway.NewCfnAuthorizer(scope, jsii.String("Authorizer"),
		&awsapigateway.CfnAuthorizerProps{
			RestApiId: p.RestAPI.RestApiId(), Name: &p.Name, Type: jsii.String("REQUEST"),
			AuthorizerUri: invokeURI(scope, p.Function), AuthorizerResultTtlInSeconds: jsii.Number(0),
		})
	a.ID = attached.Ref()
	a.REST = &restAuthorizer{a.ID}
	a.ARN = p.permit(scope, p.RestAPI.RestApiId(), a.ID)
	if !p.OwnResponses {
		addGatewayResponses(scope, p)
	}
	warnOfDeployment(scope, p.RestAPI)
}

// restAuthorizer is the authorizer as the CDK's methods take it. The CDK's own type must be
// attached to a method before its API is known, and sends an empty identity source, which
// API Gateway refuses.
type restAuthorizer struct{ id *string }

// AuthorizerId implements awsapigateway.IAuthorizer.
//
//nolint:revive,staticcheck // the CDK's name
func (a *restAuthorizer) AuthorizerId() *string { return a.id }

// AuthorizationType implements awsapigateway.IAuthorizer.
func (*restAuthorizer) AuthorizationType() awsapigateway.AuthorizationType {
	return awsapigateway.AuthorizationType_CUSTOM
}

// warnOfDeployment warns at synthesis if this app does not deploy the REST API, as with
// an imported one. The operator must deploy it: its stages keep their last deployment.
func warnOfDeployment(scope constructs.Construct, api awsapigateway.IRestApi) {
	if api.LatestDeployment() != nil {
		return
	}
	awscdk.Annotations_Of(scope).AddWarningV2(jsii.String("tidegate:DeployAnew"),
		jsii.String("This app does not deploy the REST API. "+
			"After this stack, deploy the API anew: aws apigateway create-deployment --rest-api-id ID "+
			"--stage-name STAGE. "+
			"Until then its stages count no calls, or answer 403 without Retry-After."))
}

func (a *RateLimitAuthorizer) attachHTTP(scope constructs.Construct, p *Props) {
	attached := awsapigatewayv2.NewHttpAuthorizer(scope, jsii.String("Authorizer"),
		&awsapigatewayv2.HttpAuthorizerProps{
			HttpApi:               p.HTTPAPI,
			Type:                  awsapigatewayv2.HttpAuthorizerType_LAMBDA,
			AuthorizerName:        &p.Name,
			AuthorizerUri:         invokeURI(scope, p.Function),
			EnableSimpleResponses: jsii.Bool(true),
			PayloadFormatVersion:  awsapigatewayv2.AuthorizerPayloadVersion_VERSION_2_0,
			ResultsCacheTtl:       awscdk.Duration_Seconds(jsii.Number(0)),
			IdentitySource:        &[]*string{},
		})
	a.ID = attached.AuthorizerId()
	a.HTTP = awsapigatewayv2.HttpAuthorizer_FromHttpAuthorizerAttributes(scope, jsii.String("Route"),
		&awsapigatewayv2.HttpAuthorizerAttributes{
			AuthorizerId: a.ID, AuthorizerType: jsii.String("CUSTOM"),
		})
	a.ARN = p.permit(scope, p.HTTPAPI.ApiId(), a.ID)
	if !p.OwnResponses {
		awscdk.Aspects_Of(awscdk.Stack_Of(scope)).Add(&mapResponses{p.HTTPAPI}, nil)
	}
}

// invokeURI returns the URI with which API Gateway invokes a function.
func invokeURI(scope constructs.Construct, function awslambda.IFunction) *string {
	return awscdk.Stack_Of(scope).FormatArn(&awscdk.ArnComponents{
		Service: jsii.String("apigateway"), Account: jsii.String("lambda"), Resource: jsii.String("path"),
		ResourceName: jsii.String("2015-03-31/functions/" + *function.FunctionArn() + "/invocations"),
	})
}

// authorizerARN is the ARN of one authorizer, of any partition.
var authorizerARN = regexp.MustCompile(
	`^arn:aws[a-z-]*:execute-api:[a-z0-9-]+:\d{12}:[a-z0-9]+/authorizers/[a-z0-9]+$`)

// CheckARN returns an error unless arn is the ARN of one authorizer. With a wildcard,
// every matching API could invoke the function.
func CheckARN(arn string) error {
	if !authorizerARN.MatchString(arn) {
		return fmt.Errorf("%q is not the ARN of one authorizer: want "+
			"arn:aws:execute-api:REGION:ACCOUNT:API/authorizers/ID, without wildcards", arn)
	}
	return nil
}

// Allow lets one authorizer of another account or another deployment invoke the function.
func Allow(function awslambda.IFunction, id *string, arn string) error {
	if err := CheckARN(arn); err != nil {
		return err
	}
	function.AddPermission(id, &awslambda.Permission{
		Principal: awsiam.NewServicePrincipal(jsii.String("apigateway.amazonaws.com"), nil), SourceArn: &arn})
	return nil
}

// GrantCheck lets a role make direct calls of the check function, and nothing else. The
// function's stack needs the setting check.DIRECT_CALLS=on. A role of another account also needs
// its ARN in the setting directCallers.
func GrantCheck(function awslambda.IFunction, role awsiam.IGrantable) awsiam.Grant {
	return awsiam.Grant_AddToPrincipal(&awsiam.GrantOnPrincipalOptions{Grantee: role,
		Actions: jsii.Strings("lambda:InvokeFunction"), ResourceArns: &[]*string{function.FunctionArn()}})
}

// permit adds a permission for the authorizer to its own stack, unless the function is in
// another account, where only its owner can add it. It returns the authorizer's ARN.
func (p *Props) permit(scope constructs.Construct, api, authorizer *string) *string {
	here := awscdk.Stack_Of(scope)
	arn := here.FormatArn(&awscdk.ArnComponents{Service: jsii.String("execute-api"), Resource: api,
		ResourceName: jsii.String("authorizers/" + *authorizer)})
	if !p.OtherAccount && !differ(p.Function.Env().Account, here.Account()) {
		awslambda.NewCfnPermission(scope, jsii.String("Permission"), &awslambda.CfnPermissionProps{
			Action: jsii.String("lambda:InvokeFunction"), FunctionName: p.Function.FunctionArn(),
			Principal: jsii.String("apigateway.amazonaws.com"), SourceArn: arn,
		})
	}
	return arn
}

// differ reports whether a and b are both known at synthesis and different.
func differ(a, b *string) bool {
	return !*awscdk.Token_IsUnresolved(a) && !*awscdk.Token_IsUnresolved(b) && *a != *b
}
