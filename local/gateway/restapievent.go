package gateway

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// restResource returns the resource of a path, and its parameters.
func restResource(path string) (string, map[string]string) {
	if path == "/" {
		return "/", nil
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
	return map[string]any{
		"type":                            "REQUEST",
		"methodArn":                       req.arn(a.apiID(), a.stage()),
		"resource":                        resource,
		"path":                            req.path,
		"httpMethod":                      req.method,
		"headers":                         lastValues(req.header),
		"multiValueHeaders":               req.header,
		"queryStringParameters":           lastValues(req.query),
		"multiValueQueryStringParameters": req.query,
		"pathParameters":                  orEmpty(parameters),
		"stageVariables":                  orEmpty(a.StageVariables),
		"requestContext":                  a.requestContext(req),
	}
}

// proxyEvent returns an event of payload format 1.0. Empty maps are null in it, unlike in
// authorizer events.
func (a *REST) proxyEvent(req *request, v verdict) ([]byte, error) {
	resource, parameters := restResource(req.path)
	body, isBase64 := req.encodedBody(a.binary(req.header.Get("Content-Type")))
	requestContext := a.requestContext(req)
	requestContext["authorizer"] = v.strings()
	payload, err := json.Marshal(map[string]any{
		"resource":                        resource,
		"path":                            req.path,
		"httpMethod":                      req.method,
		"headers":                         lastValues(req.header),
		"multiValueHeaders":               req.header,
		"queryStringParameters":           nilIfEmpty(lastValues(req.query)),
		"multiValueQueryStringParameters": nilIfEmpty(req.query),
		"pathParameters":                  nilIfEmpty(parameters),
		"stageVariables":                  nilIfEmpty(a.StageVariables),
		"requestContext":                  requestContext,
		"body":                            body,
		"isBase64Encoded":                 isBase64,
	})
	if err != nil {
		return nil, fmt.Errorf("encode the proxy event: %w", err)
	}
	return payload, nil
}

func (a *REST) requestContext(req *request) map[string]any {
	resource, _ := restResource(req.path)
	return map[string]any{
		"accountId":         account,
		"apiId":             a.apiID(),
		"domainName":        domain(a.apiID()),
		"domainPrefix":      a.apiID(),
		"extendedRequestId": req.id,
		"httpMethod":        req.method,
		"identity": map[string]any{
			"accessKey": nil, "accountId": nil, "caller": nil, "cognitoAuthenticationProvider": nil,
			"cognitoAuthenticationType": nil,
			"cognitoIdentityId":         nil, "cognitoIdentityPoolId": nil, "principalOrgId": nil,
			"user": nil, "userArn": nil,
			"sourceIp":  req.sourceIP,
			"userAgent": req.userAgent,
		},
		"path":             a.stagePath(req),
		"protocol":         req.protocol,
		"requestId":        req.id,
		"requestTime":      req.now.Format(timeLayout),
		"requestTimeEpoch": req.now.UnixMilli(),
		"resourceId":       "local",
		"resourcePath":     resource,
		"stage":            a.stage(),
	}
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

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func nilIfEmpty[M ~map[K]V, K comparable, V any](m M) any {
	if len(m) == 0 {
		return nil
	}
	return maps.Clone(m)
}
