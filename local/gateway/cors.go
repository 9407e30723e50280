package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// CORS is the CORS configuration of an HTTP API. API Gateway answers preflights from it
// without the authorizer. It also replaces the CORS headers of the integration's response
// by its own. An empty list leaves its header out.
type CORS struct {
	AllowOrigins     []string // an origin, "*", "https://*" or "http://*"
	AllowMethods     []string
	AllowHeaders     []string
	ExposeHeaders    []string
	AllowCredentials bool
	MaxAge           int // seconds; 0 leaves it out
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
	if c.MaxAge > 0 {
		h.Set("Access-Control-Max-Age", strconv.Itoa(c.MaxAge))
	}
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
	scheme, _, _ := strings.Cut(origin, "://")
	switch {
	case origin == "":
		return false
	case slices.Contains(c.AllowOrigins, "*"):
		origin = "*"
	case !slices.Contains(c.AllowOrigins, origin) && !slices.Contains(c.AllowOrigins, scheme+"://*"):
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
	return properties.CorsConfiguration, t.refusesPreflights(api)
}

func (t template) refusesPreflights(api reference) error {
	routes, err := properties[struct {
		APIID             reference `json:"ApiId"`
		AuthorizationType string
		RouteKey          string
	}](t, httpRoute)
	for _, r := range routes {
		method, _, _ := strings.Cut(r.RouteKey, " ")
		takesOptions := slices.Contains([]string{"$default", "ANY", http.MethodOptions}, method)
		if r.APIID == api && r.AuthorizationType == "CUSTOM" && takesOptions {
			return fmt.Errorf("route %s has the authorizer, which refuses preflights: name its methods "+
				"without OPTIONS", r.RouteKey)
		}
	}
	return err
}

// Values of OpenTo other than an origin.
const (
	AnyOrigin = "*"
	NoOrigin  = "none"
)

// OpenTo sets which scripts may read answers in a browser: those of one origin, of any or
// of none. The stack's flag corsOrigin does the same.
func (r *Rules) OpenTo(origin string) {
	const header = "gatewayresponse.header."
	for _, response := range r.REST.Responses {
		parameters := response.ResponseParameters
		delete(parameters, header+"Vary")
		switch origin {
		case NoOrigin:
			delete(parameters, header+"Access-Control-Allow-Origin")
			delete(parameters, header+"Access-Control-Expose-Headers")
			continue
		case AnyOrigin:
		default:
			parameters[header+"Vary"] = "'Origin'"
		}
		parameters[header+"Access-Control-Allow-Origin"] = "'" + origin + "'"
	}
	if origin == NoOrigin {
		r.REST.Preflight, r.HTTP.CORS = nil, nil
		return
	}
	r.REST.Preflight["Access-Control-Allow-Origin"] = origin
	r.HTTP.CORS.AllowOrigins = []string{origin}
}
