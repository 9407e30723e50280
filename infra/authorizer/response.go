package authorizer

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// The templates are for application/json, because API Gateway's choice among other types
// is unconfirmed. A header sets the real type.
const (
	templateType = "application/json"
	problemType  = "'application/problem+json'"
)

// It is unconfirmed whether API Gateway escapes quotes in the values of a template. The
// bodies are valid either way, since the context's strings have no quotes and
// backslashes. Clients made for API Gateway, such as AWS Amplify, read message, not
// detail. The body of the 429 repeats Retry-After, for accounts whose gateway
// responses leave out headers from the context.
const (
	tooManyRequests = `{"type":"$context.authorizer.problemType",` +
		`"title":"Too Many Requests","status":429,"detail":"$context.authorizer.message",` +
		`"message":"$context.authorizer.message",` +
		`"violated-policies":["$context.authorizer.violatedPolicy"],` +
		`"retry-after":"$context.authorizer.wait","reference":"$context.authorizer.reference",` +
		`"instance":"urn:uuid:$context.requestId"}`
	unauthorized = `{"type":"about:blank","title":"Unauthorized","status":401,` +
		`"detail":"A valid credential is required.","message":"A valid credential is required.",` +
		`"instance":"urn:uuid:$context.requestId"}`
)

// addGatewayResponses adds Tidegate's gateway responses to a REST API: 429 for a deny,
// which the authorizer returns only over a limit, and 401 for the error "Unauthorized".
func addGatewayResponses(scope constructs.Construct, p *Props) {
	add := func(id string, kind awsapigateway.ResponseType, status int, template string,
		headers map[string]*string) {
		headers["Cache-Control"] = jsii.String("'no-store'")
		headers["Content-Type"] = jsii.String(problemType)
		for name, value := range corsHeaders(p.CORSOrigin) {
			if headers[name] == nil {
				headers[name] = value
			}
		}
		awsapigateway.NewGatewayResponse(scope, &id, &awsapigateway.GatewayResponseProps{
			RestApi:         p.RestAPI,
			Type:            kind,
			StatusCode:      jsii.String(strconv.Itoa(status)),
			ResponseHeaders: &headers,
			Templates:       &map[string]*string{templateType: &template},
		})
	}
	add("TooManyRequests", awsapigateway.ResponseType_ACCESS_DENIED(), http.StatusTooManyRequests,
		tooManyRequests, map[string]*string{
			"RateLimit":        jsii.String("context.authorizer.rateLimit"),
			"RateLimit-Policy": jsii.String("context.authorizer.rateLimitPolicy"),
			"Retry-After":      jsii.String("context.authorizer.retryAfter"),
		})
	challenge := map[string]*string{"WWW-Authenticate": jsii.String(`'Bearer realm="tidegate"'`)}
	if p.Challenge != "" {
		challenge["WWW-Authenticate"] = jsii.String(`'Bearer realm="tidegate", ` + p.Challenge + "'")
		if p.CORSOrigin != NoOrigin {
			challenge[exposeHeaders] = jsii.String(strings.TrimSuffix(exposed, "'") + ",WWW-Authenticate'")
		}
	}
	add("Unauthorized", awsapigateway.ResponseType_UNAUTHORIZED(), http.StatusUnauthorized, unauthorized,
		challenge)
}

const exposeHeaders = "Access-Control-Expose-Headers"

// exposed lists the headers of a 401 and a 429 that scripts of other origins may read.
const exposed = "'Retry-After,RateLimit,RateLimit-Policy'"

// corsHeaders returns the headers that let scripts of an origin read a response; none if
// origin is NoOrigin. Browsers refuse AnyOrigin for scripts that send cookies.
func corsHeaders(origin string) map[string]*string {
	if origin == NoOrigin {
		return nil
	}
	headers := map[string]*string{
		"Access-Control-Allow-Origin": jsii.String("'" + origin + "'"),
		exposeHeaders:                 jsii.String(exposed),
	}
	if origin != AnyOrigin {
		headers["Access-Control-Allow-Credentials"] = jsii.String("'true'")
		headers["Vary"] = jsii.String("'Origin'")
	}
	return headers
}

// responseMappings add the RateLimit fields to the response of an HTTP API's integration.
var responseMappings = []mapping{
	{"overwrite:header.RateLimit", "$context.authorizer.rateLimit"},
	{"overwrite:header.RateLimit-Policy", "$context.authorizer.rateLimitPolicy"},
}

// mapping is a response parameter of an integration in CloudFormation's form.
type mapping struct{ Destination, Source string }

// statusMappings are the mappings of one status code.
type statusMappings struct{ ResponseParameters []mapping }

// statuses are those of answers that get the RateLimit fields. API Gateway requires a list
// for each; an integration's own mappings add theirs.
var statuses = []string{"200", "201", "202", "204", "206", "301", "302", "303", "304", "307", "308", "400",
	"401", "402", "403", "404", "405", "406", "408", "409", "410", "412", "413", "415", "422", "424", "428",
	"429",
	"500", "501", "502", "503", "504"}

// mappingsWith returns the property ResponseParameters of an HTTP API's integration, which
// keeps the integration's own mappings.
func mappingsWith(own map[string]statusMappings) map[string]any {
	all := map[string]any{}
	for _, status := range statuses {
		all[status] = own[status].withOurs()
	}
	for status, mappings := range own {
		all[status] = mappings.withOurs()
	}
	return all
}

// withOurs returns own mappings and those of responseMappings for other fields.
func (own statusMappings) withOurs() map[string]any {
	list := []any{}
	taken := map[string]bool{}
	for _, m := range slices.Concat(own.ResponseParameters, responseMappings) {
		_, field, _ := strings.Cut(m.Destination, ":")
		if field = strings.ToLower(field); !taken[field] || slices.Contains(own.ResponseParameters, m) {
			list = append(list, map[string]any{"Destination": m.Destination, "Source": m.Source})
		}
		taken[field] = true
	}
	return map[string]any{"ResponseParameters": list}
}

// mapResponses is an aspect that gives every integration of an HTTP API the response
// mapping. Integrations of routes made in the stack, or of an imported API, are not below
// the API.
type mapResponses struct{ api awsapigatewayv2.IHttpApi }

// Visit adds the mappings to node if it is an integration of the API.
func (m *mapResponses) Visit(node constructs.IConstruct) {
	resource, ok := node.(awsapigatewayv2.CfnIntegration)
	if !ok || !refers(node, resource.ApiId(), m.api.ApiId(), m.api) {
		return
	}
	own, err := ownMappings(resource)
	if err != nil {
		awscdk.Annotations_Of(node).AddError(jsii.String(
			"ResponseParameters must be lists by status code, to keep them beside the RateLimit fields: " +
				err.Error()))
		return
	}
	resource.AddPropertyOverride(jsii.String("ResponseParameters"), mappingsWith(own))
}

// ownMappings returns the response mappings that an integration has.
func ownMappings(integration awsapigatewayv2.CfnIntegration) (map[string]statusMappings, error) {
	parameters := integration.ResponseParameters()
	if parameters == nil {
		return nil, nil //nolint:nilnil // an integration without mappings
	}
	text, err := json.Marshal(awscdk.Stack_Of(integration).Resolve(parameters))
	if err != nil {
		return nil, err
	}
	var own map[string]statusMappings
	return own, json.Unmarshal(text, &own)
}
