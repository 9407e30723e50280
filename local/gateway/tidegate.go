package gateway

import "net/http"

// RateLimitResponses are the gateway responses that a REST API needs to answer like Tidegate: 429 when the authorizer denies, which it does only over
// the limit, and 401 when it fails with "Unauthorized". The templates are filed under application/json because API Gateway's choice among other types
// is unconfirmed; a header sets the real type.
func RateLimitResponses() map[ResponseType]Response {
	return map[ResponseType]Response{
		AccessDenied: {
			StatusCode: http.StatusTooManyRequests,
			ResponseParameters: map[string]string{
				"gatewayresponse.header.Cache-Control":    "'no-store'",
				"gatewayresponse.header.Content-Type":     "'application/problem+json'",
				"gatewayresponse.header.RateLimit":        "context.authorizer.rateLimit",
				"gatewayresponse.header.RateLimit-Policy": "context.authorizer.rateLimitPolicy",
				"gatewayresponse.header.Retry-After":      "context.authorizer.retryAfter",
			},
			// violatedPolicies is a JSON array, problemType and message are text without characters that JSON escapes: the authorizer sees to it.
			ResponseTemplates: map[string]string{"application/json": `{"type":"$context.authorizer.problemType",` +
				`"title":"Too Many Requests","status":429,"detail":"$context.authorizer.message",` +
				`"violated-policies":$context.authorizer.violatedPolicies,"instance":"urn:uuid:$context.requestId"}`},
		},
		Unauthorized: {
			StatusCode: http.StatusUnauthorized,
			ResponseParameters: map[string]string{
				"gatewayresponse.header.Cache-Control":    "'no-store'",
				"gatewayresponse.header.Content-Type":     "'application/problem+json'",
				"gatewayresponse.header.WWW-Authenticate": `'Bearer realm="tidegate"'`,
			},
			ResponseTemplates: map[string]string{"application/json": `{"type":"about:blank","title":"Unauthorized","status":401,` +
				`"detail":"A valid API key is required.","instance":"urn:uuid:$context.requestId"}`},
		},
	}
}

// RateLimitMapping is the response mapping with which an HTTP API adds the RateLimit fields to whatever its integration answers. API Gateway wants
// one mapping for each status code.
func RateLimitMapping() map[int]Mapping {
	mappings := map[int]Mapping{}
	for status := 200; status <= 599; status++ {
		mappings[status] = Mapping{
			"overwrite:header.RateLimit":        "$context.authorizer.rateLimit",
			"overwrite:header.RateLimit-Policy": "$context.authorizer.rateLimitPolicy",
		}
	}
	return mappings
}
