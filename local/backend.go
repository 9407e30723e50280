//go:build unix

package main

import (
	"encoding/json"
	"net/http"

	"github.com/akrylysov/algnhsa"

	"tidegate/local/echo"
	"tidegate/local/gateway"
	"tidegate/web/middleware"
)

// guardedBackend is an HTTP API's backend for HTTP_API_DENY=context. It runs the
// middleware, which answers 429 to calls over a limit. Other calls get the answer of the
// echo backend. The HTTP API's configuration sets the CORS headers.
func guardedBackend() gateway.Invoker {
	limits := middleware.Middleware{Source: authorizerContext, AllowOrigins: []string{}}
	return algnhsa.New(limits.Wrap(http.HandlerFunc(echoed)),
		&algnhsa.Options{RequestType: algnhsa.RequestTypeAPIGatewayV2})
}

// authorizerContext is a middleware.Source for algnhsa.
func authorizerContext(r *http.Request) map[string]any {
	event, ok := algnhsa.APIGatewayV2RequestFromContext(r.Context())
	if !ok || event.RequestContext.Authorizer == nil {
		return nil
	}
	return event.RequestContext.Authorizer.Lambda
}

func echoed(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	// The writer is a buffer of the adapter, so Encode cannot fail.
	_ = out.Encode(echo.Answer{Method: r.Method, Path: r.URL.Path, Authorizer: authorizerContext(r)})
}
