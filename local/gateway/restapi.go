package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"tidegate/local/lambda"
)

// REST is a REST API with a Lambda authorizer whose results are not cached, and a Lambda
// proxy integration of payload format 1.0. Its paths have no stage in front. Authorizer
// and Integration are required. Its fields must not change once it serves.
type REST struct {
	Authorizer Invoker
	// Token makes it a TOKEN authorizer, which gets only the Authorization header;
	// otherwise it is a REQUEST authorizer.
	Token       bool
	Integration Invoker
	Responses   map[ResponseType]Response
	// Preflight are the headers of the answer to every OPTIONS, which is 204 without the
	// authorizer. If Preflight is nil, OPTIONS is a method like any other.
	Preflight map[string]string
	// EscapeTemplates escapes quotes and backslashes of values in templates of gateway
	// responses. AWS may or may not escape them (unconfirmed), so a template must work
	// either way.
	EscapeTemplates bool

	APIID string // "" means "localrest0"
	Stage string // "" means "prod"
	Now   func() time.Time
	Log   *slog.Logger // gets the cause of 5xx answers
}

// restTimeout bounds the authorizer and the integration.
const restTimeout = 29 * time.Second

// ServeHTTP authorizes the request and passes it to the integration.
func (a *REST) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req, err := readRequest(w, r, clock(a.Now), 0)
	switch {
	case errors.Is(err, errHeadersTooLarge):
		a.respond(w, req, Default4XX, "", verdict{}) // the type is unconfirmed
		return
	case errors.Is(err, errBodyTooLarge):
		a.respond(w, req, RequestTooLarge, "", verdict{})
		return
	case err != nil:
		panic(http.ErrAbortHandler) // the client disconnected before the end of the body
	}
	if len(req.arn(a.apiID(), a.stage())) > maxARN {
		a.respond(w, req, uriTooLong, "", verdict{})
		return
	}
	if a.Preflight != nil && req.method == http.MethodOptions {
		h := http.Header{}
		for name, value := range a.Preflight {
			h.Set(name, value)
		}
		a.send(w, req, http.StatusNoContent, h, nil)
		return
	}
	v, err := a.authorize(r.Context(), req)
	if err != nil || v.effect != allow {
		a.refuse(w, req, v, err)
		return
	}
	a.integrate(r.Context(), w, req, v)
}

func (a *REST) authorize(ctx context.Context, req *request) (verdict, error) {
	event := a.requestEvent(req)
	switch {
	case a.Token && req.header.Get("Authorization") == "":
		return verdict{}, errUnauthorized
	case a.Token:
		event = a.tokenEvent(req)
	}
	answer, err := authorize(ctx, a.Authorizer, restTimeout, event)
	if err != nil {
		return verdict{}, err
	}
	if len(answer) > maxResult {
		return verdict{}, fmt.Errorf("%w: it is %d bytes, over %d", errConfiguration, len(answer), maxResult)
	}
	v, err := policyVerdict(answer, req.arn(a.apiID(), a.stage()))
	if err == nil {
		err = v.requireScalars()
	}
	return v, err
}

// refuse answers a request that the authorizer did not allow.
func (a *REST) refuse(w http.ResponseWriter, req *request, v verdict, err error) {
	switch {
	case err == nil && v.effect == explicitDeny:
		a.respond(w, req, AccessDenied, standard[AccessDenied].message+" with an explicit deny", v)
	case err == nil:
		a.respond(w, req, AccessDenied, "", v)
	case errors.Is(err, errUnauthorized):
		a.respond(w, req, Unauthorized, "", verdict{})
	case errors.Is(err, errConfiguration):
		logger(a.Log).Error("authorizer", "cause", err)
		a.respond(w, req, AuthorizerConfigurationError, "", verdict{})
	default:
		logger(a.Log).Error("authorizer", "cause", err)
		a.respond(w, req, AuthorizerFailure, "", verdict{})
	}
}

func (a *REST) integrate(ctx context.Context, w http.ResponseWriter, req *request, v verdict) {
	answer, err := call(ctx, a.Integration, restTimeout, a.proxyEvent(req, v))
	if err == nil {
		err = a.reply(w, req, answer)
	}
	var tooLarge *lambda.PayloadError
	switch {
	case err == nil:
		return
	case errors.As(err, &tooLarge):
		a.respond(w, req, RequestTooLarge, "", v)
	case errors.Is(err, context.DeadlineExceeded):
		a.respond(w, req, IntegrationTimeout, "", v)
	default:
		a.respond(w, req, Default5XX, "", v)
	}
	logger(a.Log).Error("integration", "cause", err)
}

// reply sends the integration's answer.
func (a *REST) reply(w http.ResponseWriter, req *request, answer []byte) error {
	out, err := parseProxyV1(answer)
	if err != nil {
		return err
	}
	remap(out.header)
	if out.header.Get("Content-Type") == "" {
		out.header.Set("Content-Type", "application/json")
	}
	a.send(w, req, out.status, out.header, []byte(out.Body))
	return nil
}

func (a *REST) expressions(req *request, v verdict) expressions {
	resource, _ := restResource(req.path)
	variables := req.context(a.apiID(), a.stage())
	variables["path"] = a.stagePath(req)
	variables["resourcePath"] = resource
	v.addTo(variables)
	return expressions{context: variables, escape: a.EscapeTemplates}
}

func (a *REST) apiID() string { return cmp.Or(a.APIID, "localrest0") }

func (a *REST) stage() string { return cmp.Or(a.Stage, "prod") }

func (a *REST) stagePath(req *request) string { return "/" + a.stage() + req.path }

// restResource returns the resource of a path, and its parameters.
func restResource(path string) (string, map[string]string) {
	if path == "/" {
		return "/", map[string]string{}
	}
	return "/{proxy+}", map[string]string{"proxy": strings.TrimPrefix(path, "/")}
}

func (a *REST) tokenEvent(req *request) map[string]any {
	tokens := req.header.Values("Authorization")
	return map[string]any{
		"type":               "TOKEN",
		"authorizationToken": tokens[len(tokens)-1],
		"methodArn":          req.arn(a.apiID(), a.stage()),
	}
}

func (a *REST) requestEvent(req *request) map[string]any {
	resource, parameters := restResource(req.path)
	event := req.authorizerEventV1(a.apiID(), a.stage())
	event["resource"] = resource
	event["pathParameters"] = parameters
	event["requestContext"] = a.requestContext(req)
	return event
}

// proxyEvent returns an event of payload format 1.0. Empty maps are null in it, unlike in
// authorizer events.
func (a *REST) proxyEvent(req *request, v verdict) map[string]any {
	resource, parameters := restResource(req.path)
	body, isBase64 := req.encodedBody(false)
	requestContext := a.requestContext(req)
	requestContext["authorizer"] = v.strings()
	return map[string]any{
		"resource":                        resource,
		"path":                            req.path,
		"httpMethod":                      req.method,
		"headers":                         lastValues(req.header),
		"multiValueHeaders":               req.header,
		"queryStringParameters":           nilIfEmpty(lastValues(req.query)),
		"multiValueQueryStringParameters": nilIfEmpty(req.query),
		"pathParameters":                  nilIfEmpty(parameters),
		"stageVariables":                  nil,
		"requestContext":                  requestContext,
		"body":                            body,
		"isBase64Encoded":                 isBase64,
	}
}

func (a *REST) requestContext(req *request) map[string]any {
	resource, _ := restResource(req.path)
	c := req.requestContextV1(a.apiID(), a.stage())
	c["identity"] = map[string]any{
		"accessKey": nil, "accountId": nil, "caller": nil, "cognitoAuthenticationProvider": nil,
		"cognitoAuthenticationType": nil, "cognitoIdentityId": nil, "cognitoIdentityPoolId": nil,
		"principalOrgId": nil, "user": nil, "userArn": nil,
		"sourceIp": req.sourceIP, "userAgent": req.userAgent,
	}
	c["path"] = a.stagePath(req)
	c["resourceId"] = "local"
	c["resourcePath"] = resource
	return c
}

// strings returns the context for proxy events of REST APIs, where every value is a
// string.
func (v verdict) strings() map[string]string {
	variables := map[string]string{}
	v.addTo(variables)
	context := map[string]string{}
	for name, value := range variables {
		context[strings.TrimPrefix(name, "authorizer.")] = value
	}
	return context
}

func nilIfEmpty[M ~map[K]V, K comparable, V any](m M) any {
	if len(m) == 0 {
		return nil
	}
	return m
}
