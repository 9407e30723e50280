package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"tidegate/internal/golden"
)

// APIs are the two APIs of a template, without functions: Authorizer and Integration are
// nil.
type APIs struct {
	REST *REST
	HTTP *HTTP
}

// Deployed returns the example APIs of the stack in infra. Local runs use them, so that
// they behave like a deployment.
func Deployed() (APIs, error) { return ReadTemplate(golden.Dev) }

// ReadTemplate returns the APIs of a CloudFormation template with one authorizer of a REST
// API and one of an HTTP API. It refuses authorizers, responses and mappings that the
// deployment tools' templates do not have, such as an authorizer that caches results.
func ReadTemplate(text []byte) (APIs, error) {
	var t template
	if err := json.Unmarshal(text, &t); err != nil {
		return APIs{}, fmt.Errorf("read template: %w", err)
	}
	rest, restErr := t.rest()
	http, httpErr := t.http()
	if err := errors.Join(restErr, httpErr); err != nil {
		return APIs{}, fmt.Errorf("read template: %w", err)
	}
	return APIs{rest, http}, nil
}

// template is the part of a CloudFormation template that the emulators read.
type template struct {
	Resources map[string]struct {
		Type       string
		Properties json.RawMessage
	}
}

// Types of resources.
const (
	restAuthorizer  = "AWS::ApiGateway::Authorizer"
	gatewayResponse = "AWS::ApiGateway::GatewayResponse"
	restMethod      = "AWS::ApiGateway::Method"
	httpAuthorizer  = "AWS::ApiGatewayV2::Authorizer"
	httpIntegration = "AWS::ApiGatewayV2::Integration"
	httpRoute       = "AWS::ApiGatewayV2::Route"
)

// properties decodes the properties of every resource of a type, ordered by id.
func properties[P any](t template, kind string) ([]P, error) {
	var all []P
	for _, id := range slices.Sorted(maps.Keys(t.Resources)) {
		if t.Resources[id].Type != kind {
			continue
		}
		var p P
		if err := json.Unmarshal(t.Resources[id].Properties, &p); err != nil {
			return nil, fmt.Errorf("%s: %w", id, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// one returns the only resource of a type.
func one[P any](t template, kind string) (P, error) {
	all, err := properties[P](t, kind)
	if err == nil && len(all) != 1 {
		err = fmt.Errorf("%d resources are of type %s, want 1", len(all), kind)
	}
	if err != nil {
		var none P
		return none, err
	}
	return all[0], nil
}

// The reasons to refuse an authorizer. CloudFormation's default TTL is 300 seconds.
var (
	errCache       = errors.New("the authorizer caches results: AuthorizerResultTtlInSeconds must be 0")
	errNotEmulated = errors.New("not emulated")
)

func (t template) rest() (*REST, error) {
	a, err := one[struct {
		Type, IdentitySource string
		TTL                  *int `json:"AuthorizerResultTtlInSeconds"`
	}](t, restAuthorizer)
	if err != nil {
		return nil, err
	}
	responses, err := properties[struct {
		ResponseType       ResponseType
		StatusCode         string
		ResponseParameters map[string]string
		ResponseTemplates  map[string]string
	}](t, gatewayResponse)
	if err != nil {
		return nil, err
	}
	api := &REST{Responses: map[ResponseType]Response{}}
	if api.Preflight, err = t.preflight(); err != nil {
		return nil, err
	}
	switch {
	case a.TTL == nil || *a.TTL != 0:
		return nil, fmt.Errorf("%s: %w", restAuthorizer, errCache)
	case a.Type != "REQUEST" || a.IdentitySource != "":
		return nil, fmt.Errorf("%s: type %q, identity source %q: %w", restAuthorizer, a.Type,
			a.IdentitySource, errNotEmulated)
	}
	for _, r := range responses {
		for name, source := range r.ResponseParameters {
			if !strings.HasPrefix(source, "'") && !strings.HasPrefix(source, "context.") {
				return nil, fmt.Errorf("%s of %s is %s: %w", name, r.ResponseType, source,
					errNotEmulated)
			}
		}
		status, err := strconv.Atoi(r.StatusCode)
		if err != nil {
			return nil, fmt.Errorf("status code of %s: %w", r.ResponseType, err)
		}
		api.Responses[r.ResponseType] = Response{StatusCode: status,
			ResponseParameters: r.ResponseParameters, ResponseTemplates: r.ResponseTemplates}
	}
	return api, nil
}

// preflight returns the headers of OPTIONS methods without authorizer and backend.
func (t template) preflight() (map[string]string, error) {
	methods, err := properties[struct {
		Method            string `json:"HttpMethod"`
		AuthorizationType string
		Integration       struct {
			Type                 string
			IntegrationResponses []struct{ ResponseParameters map[string]string }
		}
	}](t, restMethod)
	for _, m := range methods {
		if m.Method != http.MethodOptions || m.AuthorizationType != "NONE" || m.Integration.Type != "MOCK" {
			continue
		}
		headers := map[string]string{}
		for _, r := range m.Integration.IntegrationResponses {
			for target, value := range r.ResponseParameters {
				name, isHeader := strings.CutPrefix(target, "method.response.header.")
				if literal := strings.Trim(value, "'"); isHeader && literal != value {
					headers[name] = literal
				}
			}
		}
		return headers, err
	}
	return nil, err
}

func (t template) http() (*HTTP, error) {
	a, err := one[struct {
		APIID                          reference `json:"ApiId"`
		AuthorizerPayloadFormatVersion string
		EnableSimpleResponses          bool
		IdentitySource                 []string
		TTL                            *int `json:"AuthorizerResultTtlInSeconds"`
	}](t, httpAuthorizer)
	if err != nil {
		return nil, err
	}
	switch {
	case a.TTL == nil || *a.TTL != 0:
		return nil, fmt.Errorf("%s: %w", httpAuthorizer, errCache)
	case a.AuthorizerPayloadFormatVersion != "2.0" || !a.EnableSimpleResponses || len(a.IdentitySource) > 0:
		return nil, fmt.Errorf("%s: payload format %q, simple responses %t, identity source %q: %w",
			httpAuthorizer, a.AuthorizerPayloadFormatVersion, a.EnableSimpleResponses, a.IdentitySource,
			errNotEmulated)
	}
	responses, responsesErr := t.responseParameters()
	cors, corsErr := t.cors(a.APIID)
	return &HTTP{Simple: true, ResponseParameters: responses, CORS: cors}, errors.Join(responsesErr, corsErr)
}

// The prefixes of a mapping's keys and values.
const (
	overwriteHeader = "overwrite:header."
	contextVariable = "$context."
)

// responseParameters returns the response parameters of the one integration that has
// some.
func (t template) responseParameters() (map[int]Mapping, error) {
	integrations, err := properties[struct {
		ResponseParameters map[string]struct {
			ResponseParameters []struct{ Destination, Source string }
		}
	}](t, httpIntegration)
	if err != nil {
		return nil, err
	}
	mappings := map[int]Mapping{}
	for _, integration := range integrations {
		for code, list := range integration.ResponseParameters {
			status, err := strconv.Atoi(code)
			if err != nil || mappings[status] != nil {
				return nil, fmt.Errorf("%s: response parameters of status %q: not a number, or of two "+
					"integrations", httpIntegration, code)
			}
			mappings[status] = Mapping{}
			for _, parameter := range list.ResponseParameters {
				if !strings.HasPrefix(parameter.Destination, overwriteHeader) ||
					!strings.HasPrefix(parameter.Source, contextVariable) {
					return nil, fmt.Errorf("%s: response parameter %s of %s: %w", httpIntegration,
						parameter.Destination, parameter.Source, errNotEmulated)
				}
				mappings[status][parameter.Destination] = parameter.Source
			}
		}
	}
	return mappings, nil
}

// reference is the id of the resource to which a property refers; empty for any other
// value.
type reference string

// UnmarshalJSON reads {"Ref": "ID"}.
func (r *reference) UnmarshalJSON(text []byte) error {
	var value struct{ Ref string }
	if json.Unmarshal(text, &value) == nil {
		*r = reference(value.Ref)
	}
	return nil
}

// cors returns the CORS configuration of an HTTP API. It refuses a route that includes
// OPTIONS and has the authorizer, since the authorizer would refuse preflights.
func (t template) cors(api reference) (*CORS, error) {
	resource, found := t.Resources[string(api)]
	if !found {
		return nil, nil // the API is of another template
	}
	var properties struct{ CorsConfiguration *CORS }
	if err := json.Unmarshal(resource.Properties, &properties); err != nil {
		return nil, fmt.Errorf("%s: %w", api, err)
	}
	if properties.CorsConfiguration == nil {
		return nil, nil
	}
	return properties.CorsConfiguration, t.checkPreflights(api)
}

func (t template) checkPreflights(api reference) error {
	routes, err := properties[struct {
		APIID             reference `json:"ApiId"`
		AuthorizationType string
		RouteKey          string
	}](t, httpRoute)
	for _, r := range routes {
		method, _, _ := strings.Cut(r.RouteKey, " ")
		matchesOptions := slices.Contains([]string{"$default", "ANY", http.MethodOptions}, method)
		if r.APIID == api && r.AuthorizationType == "CUSTOM" && matchesOptions {
			return fmt.Errorf("route %s has the authorizer, which refuses preflights: name its methods "+
				"without OPTIONS", r.RouteKey)
		}
	}
	return err
}
