package gateway

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// route is the key of the route for every request.
const route = "$default"

// authorizerEvent is the authorizer's event of format 2.0.
func (a *HTTP) authorizerEvent(req *request) map[string]any {
	event := a.common(req)
	maps.Copy(event, map[string]any{
		"type":           "REQUEST",
		"routeArn":       req.arn(a.apiID(), stage),
		"identitySource": a.identities(req),
	})
	return event
}

// authorizerEventV1 is the authorizer's event of format 1.0.
func (a *HTTP) authorizerEventV1(req *request) map[string]any {
	identity := strings.Join(a.identities(req), ",")
	return map[string]any{
		"version":                         "1.0",
		"type":                            "REQUEST",
		"methodArn":                       req.arn(a.apiID(), stage),
		"identitySource":                  identity,
		"authorizationToken":              identity,
		"resource":                        req.path,
		"path":                            req.path,
		"httpMethod":                      req.method,
		"headers":                         lastValues(req.header),
		"multiValueHeaders":               req.header,
		"queryStringParameters":           lastValues(req.query),
		"multiValueQueryStringParameters": req.query,
		"pathParameters":                  map[string]string{},
		"stageVariables":                  orEmpty(a.StageVariables),
		"requestContext":                  a.requestContextV1(req),
	}
}

func (a *HTTP) requestContextV1(req *request) map[string]any {
	return map[string]any{
		"accountId":         account,
		"apiId":             a.apiID(),
		"domainName":        domain(a.apiID()),
		"domainPrefix":      a.apiID(),
		"extendedRequestId": req.id,
		"httpMethod":        req.method,
		"identity":          map[string]any{"sourceIp": req.sourceIP, "userAgent": req.userAgent},
		"path":              req.path,
		"protocol":          req.protocol,
		"requestId":         req.id,
		"requestTime":       req.now.Format(timeLayout),
		"requestTimeEpoch":  req.now.UnixMilli(),
		"resourceId":        route,
		"resourcePath":      req.path,
		"stage":             stage,
	}
}

// proxyEvent is payload format 2.0.
func (a *HTTP) proxyEvent(req *request, v verdict) ([]byte, error) {
	event := a.common(req)
	if body, isBase64 := req.encodedBody(!textual(req.header)); body != nil {
		event["body"], event["isBase64Encoded"] = body, isBase64
	} else {
		event["isBase64Encoded"] = false
	}
	if a.Authorizer != nil {
		event["requestContext"].(map[string]any)["authorizer"] = map[string]any{"lambda": v.context}
	}
	payload, err := json.Marshal(event)
	if err != nil {
		return nil, fmt.Errorf("encode the proxy event: %w", err)
	}
	return payload, nil
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
	if len(a.StageVariables) > 0 {
		event["stageVariables"] = a.StageVariables
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

// identities returns the values of the identity sources, nil when there are none.
func (a *HTTP) identities(req *request) []string {
	var values []string
	for _, name := range a.IdentityHeaders {
		values = append(values, strings.Join(req.header.Values(name), ","))
	}
	return values
}

// joinedValues flattens headers and query strings as HTTP API events do: all values,
// joined by commas.
func joinedValues(values map[string][]string) map[string]string {
	flat := make(map[string]string, len(values))
	for name, all := range values {
		flat[name] = strings.Join(all, ",")
	}
	return flat
}

// lowerHeaders returns the headers field of format 2.0. Cookies have a separate field.
func (r *request) lowerHeaders() map[string]string {
	lower := map[string]string{}
	for name, value := range joinedValues(r.header) {
		if name != "Cookie" {
			lower[strings.ToLower(name)] = value
		}
	}
	return lower
}

// cookies lists every cookie of every Cookie header as name=value.
func (r *request) cookies() []string {
	var all []string
	for _, line := range r.header.Values("Cookie") {
		for cookie := range strings.SplitSeq(line, ";") {
			if cookie = strings.TrimSpace(cookie); cookie != "" {
				all = append(all, cookie)
			}
		}
	}
	return all
}
