package authorizer

import (
	"fmt"
	"regexp"
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
}

// Validate returns the problems in the props and in the app, one sentence each.
func (g *guard) Validate() *[]*string {
	problems := g.checkProps()
	if g.props.Function != nil {
		for _, node := range *g.scope.Node().Root().Node().FindAll(constructs.ConstructOrder_PREORDER) {
			problems = append(problems, g.checkConstruct(node)...)
		}
	}
	return jsii.Strings(problems...)
}

func (g *guard) checkProps() []string {
	var problems []string
	if g.props.Function == nil {
		problems = append(problems, "Function is missing: set it to the check function")
	}
	if (g.props.RestAPI == nil) == (g.props.HTTPAPI == nil) {
		problems = append(problems, "set either RestAPI or HTTPAPI")
	}
	if g.props.ResultsCacheTTL != 0 {
		problems = append(problems,
			fmt.Sprintf("ResultsCacheTTL is %s: must be 0, or calls pass uncounted and revoked keys "+
				"still work", g.props.ResultsCacheTTL))
	}
	if len(g.props.IdentitySources) > 0 {
		problems = append(problems, fmt.Sprintf(
			"IdentitySources are %q: must be empty, since the function itself answers calls without a "+
				"credential",
			g.props.IdentitySources))
	}
	if !origin.MatchString(g.props.CORSOrigin) {
		problems = append(problems,
			fmt.Sprintf("CORSOrigin is %q: must be an origin such as https://app.example.com, AnyOrigin or "+
				"NoOrigin", g.props.CORSOrigin))
	}
	return problems
}

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
	}
	return nil
}

// isFunction reports whether text, an ARN or a URI, refers to the check function.
func (g *guard) isFunction(text any) bool {
	resolve := func(value any) string {
		return fmt.Sprint(awscdk.Stack_Of(g.scope).Resolve(value))
	}
	return text != nil && strings.Contains(resolve(text),
		strings.Trim(resolve(g.props.Function.FunctionArn()), "[]"))
}

func (g *guard) authorizer(node constructs.IConstruct, uri *string, ttl *float64, sources *string) []string {
	if uri == nil || !g.isFunction(uri) {
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
	if !g.isFunction(p.FunctionName()) || *p.Principal() != "apigateway.amazonaws.com" {
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
