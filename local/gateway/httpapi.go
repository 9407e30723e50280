package gateway

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"strings"
	"time"

	"tidegate/local/lambda"
)

// Format is the payload format of an HTTP API's authorizer. The zero value is Format2.
type Format uint8

// The payload formats.
const (
	Format2 Format = iota // 2.0
	Format1               // 1.0, close to a REST API's REQUEST event; the answer is a policy
)

// HTTP is an HTTP API on the stage and the route $default. It has an optional Lambda
// authorizer whose results are not cached, and a Lambda proxy integration of payload
// format 2.0. Integration is required. Its fields must not change once it serves.
type HTTP struct {
	Authorizer Invoker // nil admits every request
	Format     Format
	// Simple says that the authorizer answers isAuthorized instead of a policy. Format1
	// has no simple responses.
	Simple      bool
	Integration Invoker
	// ResponseParameters maps the integration's status code to a mapping of its response.
	ResponseParameters map[int]Mapping
	// CORS may be nil: OPTIONS is then a method like any other, and the integration sets
	// CORS headers.
	CORS *CORS

	APIID string // "" means "localhttp0"
	Now   func() time.Time
	Log   *slog.Logger // gets the cause of 5xx answers
}

// Time-outs of an HTTP API's functions.
const (
	authorizerTimeout  = 10 * time.Second
	integrationTimeout = 30 * time.Second
)

// stage is the only stage. Its name is not part of paths.
const stage = "$default"

// ServeHTTP authorizes the request and passes it to the integration.
func (a *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req, err := readRequest(w, r, clock(a.Now), lineSize(r))
	switch {
	case errors.Is(err, errHeadersTooLarge):
		a.fail(w, req, http.StatusRequestHeaderFieldsTooLarge)
		return
	case errors.Is(err, errBodyTooLarge):
		a.fail(w, req, http.StatusRequestEntityTooLarge)
		return
	case err != nil:
		panic(http.ErrAbortHandler) // the client disconnected before the end of the body
	}
	if a.CORS != nil && isPreflight(req) {
		a.send(w, req, http.StatusNoContent, a.CORS.preflight(req.header.Get("Origin")), nil)
		return
	}
	v, status := a.authorize(r.Context(), req)
	if status != http.StatusOK {
		a.fail(w, req, status)
		return
	}
	a.integrate(r.Context(), w, req, v)
}

// authorize returns 200 or the status to refuse with.
func (a *HTTP) authorize(ctx context.Context, req *request) (verdict, int) {
	if a.Authorizer == nil {
		return verdict{}, http.StatusOK
	}
	v, err := a.invokeAuthorizer(ctx, req)
	switch {
	case err != nil: // even if it is "Unauthorized": Amazon's guide promises 401 only for REST APIs
		logger(a.Log).Error("authorizer", "cause", err)
		return v, http.StatusInternalServerError
	case v.effect != allow:
		return v, http.StatusForbidden
	}
	return v, http.StatusOK
}

func (a *HTTP) invokeAuthorizer(ctx context.Context, req *request) (verdict, error) {
	event := a.authorizerEvent
	if a.Format == Format1 {
		event = a.authorizerEventV1
	}
	answer, err := authorize(ctx, a.Authorizer, authorizerTimeout, event(req))
	if err != nil {
		return verdict{}, err
	}
	if a.Simple && a.Format == Format2 {
		return simpleVerdict(answer)
	}
	v, err := policyVerdict(answer, req.arn(a.apiID(), stage))
	if err == nil && a.Format == Format1 {
		err = v.requireScalars()
	}
	return v, err
}

func (a *HTTP) integrate(ctx context.Context, w http.ResponseWriter, req *request, v verdict) {
	answer, err := call(ctx, a.Integration, integrationTimeout, a.proxyEvent(req, v))
	if err == nil {
		err = a.reply(w, req, v, answer)
	}
	var tooLarge *lambda.PayloadError
	switch {
	case err == nil:
		return
	case errors.As(err, &tooLarge):
		a.fail(w, req, http.StatusRequestEntityTooLarge)
	case errors.Is(err, context.DeadlineExceeded):
		a.fail(w, req, http.StatusGatewayTimeout) // unconfirmed: it may be 503
	default:
		a.fail(w, req, http.StatusInternalServerError)
	}
	logger(a.Log).Error("integration", "cause", err)
}

// reply sends the integration's answer, mapped.
func (a *HTTP) reply(w http.ResponseWriter, req *request, v verdict, answer []byte) error {
	out, err := parseProxyV2(answer)
	if err != nil {
		return err
	}
	body, err := out.decodedBody()
	if err != nil {
		return err
	}
	out.header.Del("Content-Length")
	if out.header.Get("Content-Type") == "" {
		out.header.Set("Content-Type", "text/plain;charset=utf-8")
	}
	variables := req.context(a.apiID(), stage)
	v.addTo(variables)
	a.ResponseParameters[out.status].apply(out.header, variables)
	if a.CORS != nil {
		a.CORS.replace(out.header, req.header.Get("Origin"))
	}
	a.send(w, req, out.status, out.header, body)
	return nil
}

// fail sends the gateway's own answer, which an HTTP API cannot change. It has no CORS
// headers: Amazon's guide promises them only for an integration's response. Unconfirmed:
// other emulators differ.
func (a *HTTP) fail(w http.ResponseWriter, req *request, status int) {
	body := `{"message":` + quoted(http.StatusText(status)) + `}`
	a.send(w, req, status, http.Header{"Content-Type": {"application/json"}}, []byte(body))
}

func (a *HTTP) send(w http.ResponseWriter, req *request, status int, header http.Header, body []byte) {
	header.Set("Apigw-Requestid", req.id)
	write(w, status, header, body)
}

// textual reports whether an HTTP API passes a body of this type as text. It encodes all
// other bodies, including forms, in base64.
func textual(header http.Header) bool {
	if header.Get("Content-Encoding") != "" {
		return false
	}
	t, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return header.Get("Content-Type") == ""
	}
	switch t {
	case "application/json", "application/javascript", "application/xml":
		return true
	}
	return strings.HasPrefix(t, "text/")
}

func (a *HTTP) apiID() string { return cmp.Or(a.APIID, "localhttp0") }

// route is the key of the route for every request.
const route = "$default"

// authorizerEvent returns the authorizer's event of format 2.0.
func (a *HTTP) authorizerEvent(req *request) map[string]any {
	event := a.common(req)
	maps.Copy(event, map[string]any{
		"type":           "REQUEST",
		"routeArn":       req.arn(a.apiID(), stage),
		"identitySource": nil,
	})
	return event
}

// authorizerEventV1 returns the authorizer's event of format 1.0.
func (a *HTTP) authorizerEventV1(req *request) map[string]any {
	c := req.requestContextV1(a.apiID(), stage)
	c["identity"] = map[string]any{"sourceIp": req.sourceIP, "userAgent": req.userAgent}
	c["path"] = req.path
	c["resourceId"] = route
	c["resourcePath"] = req.path

	event := req.authorizerEventV1(a.apiID(), stage)
	event["version"] = "1.0"
	event["identitySource"] = ""
	event["authorizationToken"] = ""
	event["resource"] = req.path
	event["pathParameters"] = map[string]string{}
	event["requestContext"] = c
	return event
}

// proxyEvent returns an event of payload format 2.0.
func (a *HTTP) proxyEvent(req *request, v verdict) map[string]any {
	event := a.common(req)
	body, isBase64 := req.encodedBody(!textual(req.header))
	if body != nil {
		event["body"] = body
	}
	event["isBase64Encoded"] = isBase64
	if a.Authorizer != nil {
		event["requestContext"].(map[string]any)["authorizer"] = map[string]any{"lambda": v.context}
	}
	return event
}

// common returns the fields that authorizer and proxy events of format 2.0 share. Absent
// parts have no field.
func (a *HTTP) common(req *request) map[string]any {
	event := map[string]any{
		"version":        "2.0",
		"routeKey":       route,
		"rawPath":        req.path,
		"rawQueryString": req.rawQuery,
		"headers":        req.lowerHeaders(),
		"requestContext": a.requestContext(req),
	}
	if cookies := req.cookies(); cookies != nil {
		event["cookies"] = cookies
	}
	if len(req.query) > 0 {
		event["queryStringParameters"] = joinedValues(req.query)
	}
	return event
}

func (a *HTTP) requestContext(req *request) map[string]any {
	return map[string]any{
		"accountId":    account,
		"apiId":        a.apiID(),
		"domainName":   domain(a.apiID()),
		"domainPrefix": a.apiID(),
		"http": map[string]any{
			"method":    req.method,
			"path":      req.path,
			"protocol":  req.protocol,
			"sourceIp":  req.sourceIP,
			"userAgent": req.userAgent,
		},
		"requestId": req.id,
		"routeKey":  route,
		"stage":     stage,
		"time":      req.now.Format(timeLayout),
		"timeEpoch": req.now.UnixMilli(),
	}
}
