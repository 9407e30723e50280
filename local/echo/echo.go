// Package echo is the backend behind the local gateways: a Lambda proxy integration in
// this process, which answers with the authorizer's context.
package echo

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// Backend answers every request with 200 and a JSON object of method, path and authorizer
// context. It reads both payload formats.
type Backend struct {
	// Origin is the origin whose scripts may read the answers in a browser, "*" or
	// "none". Empty means "*".
	Origin string
}

// event has the fields of payload formats 1.0 and 2.0 that the backend reads.
type event struct {
	Version        string `json:"version"`
	HTTPMethod     string `json:"httpMethod"`
	Path           string `json:"path"`
	RawPath        string `json:"rawPath"`
	RequestContext struct {
		HTTP       struct{ Method string } `json:"http"`
		Authorizer map[string]any          `json:"authorizer"`
	} `json:"requestContext"`
}

// Answer is the body of an answer.
type Answer struct {
	Method     string         `json:"method"`
	Path       string         `json:"path"`
	Authorizer map[string]any `json:"authorizer"`
}

// Invoke handles one proxy event.
func (b Backend) Invoke(_ context.Context, payload []byte) ([]byte, error) {
	var e event
	if err := json.Unmarshal(payload, &e); err != nil {
		return nil, fmt.Errorf("echo: decode the event: %w", err)
	}
	a := Answer{Method: e.HTTPMethod, Path: e.Path, Authorizer: e.RequestContext.Authorizer}
	headers := map[string]string{"Content-Type": "application/json", "Cache-Control": "no-store"}
	b.addCORS(headers)
	if e.Version == "2.0" {
		a = Answer{Method: e.RequestContext.HTTP.Method, Path: e.RawPath}
		a.Authorizer, _ = e.RequestContext.Authorizer["lambda"].(map[string]any)
	} else {
		addRateLimit(headers, a.Authorizer)
	}
	body, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("echo: encode the answer: %w", err)
	}
	return json.Marshal(map[string]any{"statusCode": http.StatusOK, "headers": headers,
		"body": string(body) + "\n"})
}

// addCORS adds the CORS headers, which a REST API's backend sets itself. An HTTP API with
// a CORS configuration replaces them.
func (b Backend) addCORS(headers map[string]string) {
	origin := cmp.Or(b.Origin, "*")
	if origin == "none" {
		return
	}
	headers["Access-Control-Allow-Origin"] = origin
	headers["Access-Control-Expose-Headers"] = "Retry-After,RateLimit,RateLimit-Policy"
	if origin != "*" {
		headers["Access-Control-Allow-Credentials"] = "true"
		headers["Vary"] = "Origin"
	}
}

// addRateLimit adds the RateLimit fields, which a REST API's backend sets itself: a proxy
// integration has no response mapping.
func addRateLimit(headers map[string]string, authorizer map[string]any) {
	for header, key := range map[string]string{"RateLimit": "rateLimit",
		"RateLimit-Policy": "rateLimitPolicy"} {
		if value, ok := authorizer[key].(string); ok && value != "" {
			headers[header] = value
		}
	}
}
