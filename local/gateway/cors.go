package gateway

import (
	"net/http"
	"slices"
	"strings"
)

// CORS is the CORS configuration of an HTTP API. API Gateway answers preflights from it
// without the authorizer. It also replaces the CORS headers of the integration's response
// by its own. An empty list leaves its header out.
type CORS struct {
	AllowOrigins     []string // an origin, or "*"
	AllowMethods     []string
	AllowHeaders     []string
	ExposeHeaders    []string
	AllowCredentials bool
}

// isPreflight reports whether a request is a CORS preflight. API Gateway requires both
// headers.
func isPreflight(req *request) bool {
	return req.method == http.MethodOptions &&
		req.header.Get("Origin") != "" && req.header.Get("Access-Control-Request-Method") != ""
}

// preflight returns the headers of the answer to a preflight. An origin that is not
// allowed gets no CORS headers; the status of that answer is unconfirmed.
func (c *CORS) preflight(origin string) http.Header {
	h := http.Header{}
	if !c.allow(h, origin) {
		return h
	}
	setList(h, "Access-Control-Allow-Methods", c.AllowMethods)
	setList(h, "Access-Control-Allow-Headers", c.AllowHeaders)
	return h
}

// replace replaces the integration's CORS headers by the API's. A request without an
// origin gets none.
func (c *CORS) replace(h http.Header, origin string) {
	for name := range h {
		if strings.HasPrefix(name, "Access-Control-") {
			delete(h, name)
		}
	}
	if c.allow(h, origin) {
		setList(h, "Access-Control-Expose-Headers", c.ExposeHeaders)
	}
}

// allow sets the headers that let an allowed origin's scripts read the answer.
func (c *CORS) allow(h http.Header, origin string) bool {
	switch {
	case origin == "":
		return false
	case slices.Contains(c.AllowOrigins, "*"):
		origin = "*"
	case !slices.Contains(c.AllowOrigins, origin):
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	if c.AllowCredentials {
		h.Set("Access-Control-Allow-Credentials", "true")
	}
	return true
}

func setList(h http.Header, name string, values []string) {
	if len(values) > 0 {
		h.Set(name, strings.Join(values, ","))
	}
}

// Values of OpenTo other than an origin.
const (
	AnyOrigin = "*"
	NoOrigin  = "none"
)

// OpenTo sets which scripts may read answers in a browser: those of one origin, of any or
// of none.
func (a APIs) OpenTo(origin string) {
	const header = "gatewayresponse.header."
	for _, response := range a.REST.Responses {
		parameters := response.ResponseParameters
		delete(parameters, header+"Vary")
		delete(parameters, header+"Access-Control-Allow-Credentials")
		switch origin {
		case NoOrigin:
			delete(parameters, header+"Access-Control-Allow-Origin")
			delete(parameters, header+"Access-Control-Expose-Headers")
			continue
		case AnyOrigin:
		default:
			parameters[header+"Vary"] = "'Origin'"
			parameters[header+"Access-Control-Allow-Credentials"] = "'true'"
		}
		parameters[header+"Access-Control-Allow-Origin"] = "'" + origin + "'"
	}
	if origin == NoOrigin {
		a.REST.Preflight, a.HTTP.CORS = nil, nil
		return
	}
	delete(a.REST.Preflight, "Access-Control-Allow-Credentials")
	if a.HTTP.CORS.AllowCredentials = origin != AnyOrigin; a.HTTP.CORS.AllowCredentials {
		a.REST.Preflight["Access-Control-Allow-Credentials"] = "true"
	}
	a.REST.Preflight["Access-Control-Allow-Origin"] = origin
	a.HTTP.CORS.AllowOrigins = []string{origin}
}
