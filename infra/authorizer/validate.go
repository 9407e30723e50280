package authorizer

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// guard refuses at synthesis everything in the props and the app that would let calls
// pass without being counted.
type guard struct {
	scope constructs.Construct
	props Props
	id    *string // the authorizer's
}

// Validate returns the problems in the props and in the app, one sentence each.
func (g *guard) Validate() *[]*string {
	problems := g.checkProps()
	if g.props.Function == nil || len(problems) > 0 {
		return jsii.Strings(problems...)
	}
	var calls routes
	for _, node := range *g.scope.Node().Root().Node().FindAll(constructs.ConstructOrder_PREORDER) {
		problems = append(problems, g.checkConstruct(node)...)
		g.sort(node, &calls)
	}
	if len(calls.scoped) > 0 {
		problems = append(
			problems,
			strings.Join(calls.scoped, ", ")+" has scopes, which API Gateway does not "+
				"check with this authorizer: remove them, and require them in the policy, see "+
				"docs/policies.md",
		)
	}
	g.warnOf(calls.others)
	g.warnOfOpen(calls.open)
	if calls.guarded == 0 && len(calls.open)+len(calls.others) > 0 {
		problems = append(problems, fmt.Sprintf("no method or route of the API has this authorizer, so no "+
			"call is counted: give it to %s, as Authorizer of AddMethod and AddRoutes, or in "+
			"DefaultMethodOptions of AddProxy", strings.Join(slices.Concat(calls.open, calls.others), ", ")))
	}
	return jsii.Strings(problems...)
}

// routes are the methods or routes of the API by their authorization.
type routes struct {
	guarded int
	scoped  []string // with scopes beside this authorizer, which does not read them
	// open have none, and others have another authorizer. Each is its path in the API and
	// in the app.
	open, others []string
}

// sort adds a method or a route of the API to its kind. OPTIONS needs no credential.
func (g *guard) sort(node constructs.IConstruct, all *routes) {
	var kind, authorizer *string
	var scopes *[]*string
	var name string
	switch r := node.(type) {
	case awsapigateway.CfnMethod:
		if !g.ours(r, r.RestApiId()) || *r.HttpMethod() == "OPTIONS" {
			return
		}
		kind, authorizer, name = r.AuthorizationType(), r.AuthorizerId(), *r.HttpMethod()
	case awsapigatewayv2.CfnRoute:
		api := g.props.HTTPAPI
		if api == nil || !refers(r, r.ApiId(), api.ApiId(), api) || strings.HasPrefix(*r.RouteKey(),
			"OPTIONS ") {
			return
		}
		kind, authorizer, name = r.AuthorizationType(), r.AuthorizerId(), *r.RouteKey()
		scopes = r.AuthorizationScopes()
	default:
		return
	}
	name += " (" + *node.Node().Path() + ")"
	attached := g.scope.Node().TryFindChild(jsii.String("Authorizer"))
	switch {
	case kind == nil || *kind == "NONE":
		all.open = append(all.open, name)
	case *kind == "CUSTOM" && attached != nil && authorizer != nil && refers(node, authorizer, g.id,
		attached):
		if all.guarded++; scopes != nil && len(*scopes) > 0 {
			all.scoped = append(all.scoped, name)
		}
	default:
		all.others = append(all.others, name)
	}
}

func (g *guard) checkProps() []string {
	var problems []string
	if g.props.Function == nil {
		problems = append(problems, "Function is missing: set it to the check function")
	}
	if (g.props.RestAPI == nil) == (g.props.HTTPAPI == nil) {
		problems = append(problems, "set either RestAPI or HTTPAPI")
	}
	if isSpec(g.props.RestAPI) {
		problems = append(problems, "RestAPI is made from an OpenAPI body, and each import of a changed "+
			"body removes gateway responses beside it: put the authorizer and the gateway responses of "+
			"infra/attach/openapi.yaml into the body instead")
	}
	if !origin.MatchString(g.props.CORSOrigin) {
		problems = append(problems,
			fmt.Sprintf("CORSOrigin is %q: must be an origin such as https://app.example.com, AnyOrigin or "+
				"NoOrigin", g.props.CORSOrigin))
	}
	switch {
	case g.props.Challenge == "":
	case !challenge.MatchString(g.props.Challenge):
		problems = append(problems, fmt.Sprintf(`Challenge is %.200q: must be parameters such as `+
			`resource_metadata="https://api.example/.well-known/oauth-protected-resource", separated by commas`,
			g.props.Challenge))
	case g.props.HTTPAPI != nil:
		problems = append(problems, "Challenge is for a REST API: an HTTP API answers 403, which begins no "+
			"log-in")
	}
	return problems
}

// challenge has parameters of WWW-Authenticate, whose values fit into a static value of API
// Gateway.
var challenge = regexp.MustCompile(`^[a-z_]+="` + plainText + `"(, ?[a-z_]+="` + plainText + `")*$`)

const plainText = `[^"'\\[:cntrl:][:^ascii:]]*`

var origin = regexp.MustCompile(`^(\*|none|https?://[a-z0-9.-]+(:\d{1,5})?)$`)

// checkConstruct returns the problems of one construct of the app.
func (g *guard) checkConstruct(node constructs.IConstruct) []string {
	switch resource := node.(type) {
	case awsapigateway.CfnAuthorizer:
		return g.authorizer(node, resource.AuthorizerUri(), resource.AuthorizerResultTtlInSeconds(),
			resource.IdentitySource())
	case awsapigatewayv2.CfnAuthorizer:
		sources := ""
		if list := resource.IdentitySource(); list != nil {
			for _, source := range *list {
				sources += *source
			}
		}
		return g.authorizer(node, resource.AuthorizerUri(), resource.AuthorizerResultTtlInSeconds(), &sources)
	case awslambda.CfnPermission:
		return g.permission(node, resource)
	case awsapigateway.CfnGatewayResponse:
		return g.gatewayResponse(node, resource)
	}
	return nil
}

// ours reports whether the API's id in a construct is that of the REST API of the props.
func (g *guard) ours(node constructs.IConstruct, id *string) bool {
	return g.props.RestAPI != nil && refers(node, id, g.props.RestAPI.RestApiId(), g.props.RestAPI)
}

// gatewayResponse refuses a second answer of a type: API Gateway keeps the one that is
// deployed last.
func (g *guard) gatewayResponse(node constructs.IConstruct, r awsapigateway.CfnGatewayResponse) []string {
	within := strings.HasPrefix(*node.Node().Path(), *g.scope.Node().Path()+"/")
	kind := *r.ResponseType()
	if g.props.OwnResponses || within || !g.ours(node, r.RestApiId()) || kind != "ACCESS_DENIED" &&
		kind != "UNAUTHORIZED" {
		return nil
	}
	return []string{fmt.Sprintf("%s answers %s as %s does, and an API has one answer for each type: remove "+
		"it, or set OwnResponses and give it the status, headers and template of infra/attach/rest.yaml",
		*node.Node().Path(), kind, *g.scope.Node().Path())}
}

// warnOf warns of the methods with another authorizer.
func (g *guard) warnOf(methods []string) {
	if len(methods) == 0 || g.props.RestAPI == nil || g.props.OwnResponses {
		return
	}
	awscdk.Annotations_Of(g.scope).AddWarningV2(jsii.String("tidegate:OtherAuthorizers"), jsii.String(
		"The refusals of other authorizers, of IAM and of resource policies are answered 429 instead of "+
			"403, without Retry-After, since an API has one answer for ACCESS_DENIED. Clients repeat them "+
			"for ever. Move these methods to an API of their own, or set OwnResponses: "+
			strings.Join(methods, ", ")))
}

// warnOfOpen warns of methods and routes that anybody can call.
func (g *guard) warnOfOpen(open []string) {
	if len(open) == 0 {
		return
	}
	awscdk.Annotations_Of(g.scope).AddWarningV2(jsii.String("tidegate:OpenRoutes"), jsii.String(
		"These have no authorizer, so anybody calls them, and nothing is counted: "+strings.Join(open, ", ")+
			". The CDK adds ANY / beside a proxy without its options. Acknowledge the warning for those "+
			"that "+
			"are meant to be open: Annotations_Of(scope).AcknowledgeWarning(\"tidegate:OpenRoutes\")"))
}

// isFunction reports whether text of a construct, an ARN or a URI, refers to the check
// function.
func (g *guard) isFunction(node constructs.IConstruct, text *string) bool {
	return refers(node, text, g.props.Function.FunctionArn(), g.props.Function)
}

// refers reports whether text of a construct has the value, an id or ARN of owner. A
// value that only deployment knows resolves to a logical id, which other stacks of the app
// have too. So resolved texts are compared in owner's stack alone. Elsewhere the CDK's own
// token of the value counts.
func refers(node constructs.IConstruct, text, value *string, owner constructs.IConstruct) bool {
	if text == nil {
		return false
	}
	here := awscdk.Stack_Of(node)
	if *awscdk.Token_IsUnresolved(value) && *here.Node().Path() != *awscdk.Stack_Of(owner).Node().Path() {
		return strings.Contains(*text, *value)
	}
	return strings.Contains(fmt.Sprint(here.Resolve(text)),
		strings.Trim(fmt.Sprint(here.Resolve(value)), "[]"))
}

func (g *guard) authorizer(node constructs.IConstruct, uri *string, ttl *float64, sources *string) []string {
	if !g.isFunction(node, uri) {
		return nil
	}
	var problems []string
	switch {
	case ttl == nil:
		problems = append(problems, fmt.Sprintf("%s caches results for the default 300 s: set its TTL to 0",
			*node.Node().Path()))
	case *ttl != 0:
		problems = append(problems, fmt.Sprintf("%s caches results for %g s: set its TTL to 0",
			*node.Node().Path(), *ttl))
	}
	if sources != nil && *sources != "" {
		problems = append(problems, fmt.Sprintf("%s has an identity source: remove it",
			*node.Node().Path()))
	}
	return problems
}

// oneAuthorizer matches a source ARN of one authorizer. Parts of the ARN may be tokens.
var oneAuthorizer = regexp.MustCompile(`/authorizers/[^*]+$`)

func (g *guard) permission(node constructs.IConstruct, p awslambda.CfnPermission) []string {
	if !g.isFunction(node, p.FunctionName()) || *p.Principal() != "apigateway.amazonaws.com" {
		return nil
	}
	if p.SourceArn() == nil || strings.Contains(*p.SourceArn(), "*") ||
		!oneAuthorizer.MatchString(*p.SourceArn()) {
		return []string{*node.Node().Path() +
			" lets more than one authorizer invoke the check function: its SourceArn must end in " +
			"/authorizers/ID"}
	}
	return nil
}
