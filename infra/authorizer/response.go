package authorizer

import (
	"maps"
	"net/http"
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
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
// backslashes. The body of the 429 repeats Retry-After, for accounts whose gateway
// responses leave out headers from the context.
const (
	tooManyRequests = `{"type":"$context.authorizer.problemType",` +
		`"title":"Too Many Requests","status":429,"detail":"$context.authorizer.message",` +
		`"violated-policies":["$context.authorizer.violatedPolicy"],` +
		`"retry-after":"$context.authorizer.wait","instance":"urn:uuid:$context.requestId"}`
	unauthorized = `{"type":"about:blank","title":"Unauthorized","status":401,` +
		`"detail":"A valid credential is required.","instance":"urn:uuid:$context.requestId"}`
)

// addGatewayResponses adds Tidegate's gateway responses to a REST API: 429 for a deny,
// which the authorizer returns only over a limit, and 401 for the error "Unauthorized".
func addGatewayResponses(scope constructs.Construct, api awsapigateway.IRestApi, origin string) {
	add := func(id string, kind awsapigateway.ResponseType, status int, template string,
		headers map[string]*string) {
		headers["Cache-Control"] = jsii.String("'no-store'")
		headers["Content-Type"] = jsii.String(problemType)
		maps.Copy(headers, corsHeaders(origin))
		awsapigateway.NewGatewayResponse(scope, &id, &awsapigateway.GatewayResponseProps{
			RestApi:         api,
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
	add("Unauthorized", awsapigateway.ResponseType_UNAUTHORIZED(), http.StatusUnauthorized, unauthorized,
		map[string]*string{
			"WWW-Authenticate": jsii.String(`'Bearer realm="tidegate"'`),
		})
}

// exposed lists the headers of a 401 and a 429 that scripts of other origins may read.
const exposed = "'Retry-After,RateLimit,RateLimit-Policy'"

// corsHeaders returns the headers that let scripts of an origin read a response; none if
// origin is NoOrigin.
func corsHeaders(origin string) map[string]*string {
	if origin == NoOrigin {
		return nil
	}
	headers := map[string]*string{
		"Access-Control-Allow-Origin":   jsii.String("'" + origin + "'"),
		"Access-Control-Expose-Headers": jsii.String(exposed),
	}
	if origin != AnyOrigin {
		headers["Vary"] = jsii.String("'Origin'")
	}
	return headers
}

// responseMapping adds the RateLimit fields to the response of an HTTP API's integration.
var responseMapping = map[string]string{
	"overwrite:header.RateLimit":        "$context.authorizer.rateLimit",
	"overwrite:header.RateLimit-Policy": "$context.authorizer.rateLimitPolicy",
}

// ResponseParameters returns the property of that name for an HTTP API's integration. API
// Gateway requires a mapping for each status code; the property has all registered ones
// from 200.
func ResponseParameters() map[string]any {
	list := []any{}
	for _, destination := range []string{"overwrite:header.RateLimit", "overwrite:header.RateLimit-Policy"} {
		list = append(list, map[string]any{
			"Destination": destination, "Source": responseMapping[destination],
		})
	}
	parameters := map[string]any{}
	for status := http.StatusOK; status <= 599; status++ {
		if http.StatusText(status) != "" {
			parameters[strconv.Itoa(status)] = map[string]any{"ResponseParameters": list}
		}
	}
	return parameters
}

// mapResponses is an aspect that gives every integration of an HTTP API the response
// mapping.
type mapResponses struct{}

// Visit adds the mapping to node if it is an integration.
func (*mapResponses) Visit(node constructs.IConstruct) {
	if !*awscdk.CfnResource_IsCfnResource(node) {
		return
	}
	resource, ok := node.(awscdk.CfnResource)
	if ok && *resource.CfnResourceType() == "AWS::ApiGatewayV2::Integration" {
		resource.AddPropertyOverride(jsii.String("ResponseParameters"), ResponseParameters())
	}
}
