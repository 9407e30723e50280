package gateway

import (
	"cmp"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
)

const jsonType = "application/json"

// ResponseType is the reason of a gateway response.
type ResponseType string

// The types that this emulator produces, and the two that other types fall back to.
const (
	AccessDenied                 ResponseType = "ACCESS_DENIED"
	AuthorizerConfigurationError ResponseType = "AUTHORIZER_CONFIGURATION_ERROR"
	AuthorizerFailure            ResponseType = "AUTHORIZER_FAILURE"
	IntegrationTimeout           ResponseType = "INTEGRATION_TIMEOUT"
	RequestTooLarge              ResponseType = "REQUEST_TOO_LARGE"
	Unauthorized                 ResponseType = "UNAUTHORIZED"
	uriTooLong                   ResponseType = "URI_TOO_LONG" // unconfirmed: AWS documents the status alone
	Default4XX                   ResponseType = "DEFAULT_4XX"
	Default5XX                   ResponseType = "DEFAULT_5XX"
)

// Response is a REST API's configured response for a request that does not reach the
// integration. The zero value is Amazon's own response.
type Response struct {
	// StatusCode is the status to send; 0 keeps the type's own.
	StatusCode int
	// ResponseParameters maps gatewayresponse.header.NAME to 'a literal' or to context.X.
	// An expression without a value leaves the header out.
	ResponseParameters map[string]string
	// ResponseTemplates has the body by its content type, application/json. The body's
	// $context.X are replaced, and escaped as REST.EscapeTemplates says. A variable
	// without a value becomes empty (unconfirmed, as is the escaping).
	ResponseTemplates map[string]string
}

// standard has Amazon's response of each type. An empty message is a JSON null.
var standard = map[ResponseType]struct {
	status  int
	message string
	name    string // in x-amzn-ErrorType
}{
	AccessDenied: {http.StatusForbidden, "User is not authorized to access this resource",
		"AccessDeniedException"},
	AuthorizerConfigurationError: {http.StatusInternalServerError, "", "AuthorizerConfigurationException"},
	AuthorizerFailure:            {http.StatusInternalServerError, "", "AuthorizerFailureException"},
	IntegrationTimeout: {http.StatusGatewayTimeout, "Endpoint request timed out",
		"InternalServerErrorException"},
	RequestTooLarge: {http.StatusRequestEntityTooLarge, "Request Too Long", "RequestTooLargeException"},
	uriTooLong:      {http.StatusRequestURITooLong, "Request-URI Too Long", "RequestUriTooLongException"},
	Unauthorized:    {http.StatusUnauthorized, "Unauthorized", "UnauthorizedException"},
	Default4XX: {http.StatusRequestHeaderFieldsTooLarge, "Request Header Fields Too Large",
		"BadRequestException"},
	Default5XX: {http.StatusBadGateway, "Internal server error", "InternalServerErrorException"},
}

// respond sends the gateway response of a type. detail replaces the type's message unless
// it is empty.
func (a *REST) respond(w http.ResponseWriter, req *request, t ResponseType, detail string, v verdict) {
	configured, own := a.configured(t), standard[t]
	message := cmp.Or(detail, own.message)
	e := a.expressions(req, v)
	e.context["error.message"], e.context["error.messageString"] = message, quoted(message)
	e.context["error.responseType"] = string(t)
	template := cmp.Or(configured.ResponseTemplates[jsonType], `{"message":$context.error.messageString}`)

	h := http.Header{"X-Amzn-Errortype": {own.name}, "Content-Type": {jsonType}}
	for target, expression := range configured.ResponseParameters {
		name, ok := strings.CutPrefix(target, "gatewayresponse.header.")
		if value := e.parameter(expression); ok && value != "" && validHeader(name, value) {
			h.Set(name, value)
		}
	}
	a.send(w, req, cmp.Or(configured.StatusCode, own.status), h, []byte(e.template(template)))
}

// configured returns the response configured for a type or, like API Gateway, for its
// class.
func (a *REST) configured(t ResponseType) Response {
	if r, ok := a.Responses[t]; ok {
		return r
	}
	if standard[t].status < http.StatusInternalServerError {
		return a.Responses[Default4XX]
	}
	return a.Responses[Default5XX]
}

// send writes a response with the headers that every response of a REST API has.
func (a *REST) send(w http.ResponseWriter, req *request, status int, header http.Header, body []byte) {
	header.Set("X-Amzn-Requestid", req.id)
	header.Set("X-Amz-Apigw-Id", req.id)
	write(w, status, header, body)
}

// expressions has the values of the variables in one request's gateway response.
type expressions struct {
	context map[string]string
	escape  bool // quotes and backslashes of values in templates
}

// parameter returns the value of a header expression, or "" for an unknown one.
func (e expressions) parameter(expression string) string {
	if literal, ok := strings.CutPrefix(expression, "'"); ok {
		return strings.TrimSuffix(literal, "'")
	}
	name, isContext := strings.CutPrefix(expression, "context.")
	if !isContext {
		return ""
	}
	return e.context[name]
}

var variable = regexp.MustCompile(`\$context(?:\.[A-Za-z0-9_-]+)+`)

// template replaces the variables of a body template.
func (e expressions) template(text string) string {
	return variable.ReplaceAllStringFunc(text, func(found string) string {
		value := e.parameter(found[1:])
		if value == "" || !e.escape || strings.HasSuffix(found, ".messageString") {
			return value
		}
		text := quoted(value)
		return text[1 : len(text)-1]
	})
}

func quoted(message string) string {
	if message == "" {
		return "null"
	}
	text, err := json.Marshal(message)
	if err != nil {
		return "null"
	}
	return string(text)
}
