package authorizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"tidegate/functions/check/identity"
	"tidegate/internal/proxies"
	"tidegate/internal/route"
)

// kind is the kind of an authorizer event of API Gateway. Each kind needs its own form of
// answer.
type kind int

const (
	restToken   kind = iota // REST API, TOKEN authorizer
	restRequest             // REST API, REQUEST authorizer
	http1                   // HTTP API, payload format 1.0
	http2                   // HTTP API, payload format 2.0
	webSocket               // WebSocket API, $connect
)

var errEvent = errors.New("not an authorizer event that can be answered")

// event is what the authorizer reads from an event of any kind.
type event struct {
	kind kind
	arn  string // the method or route that is called; an answer's policy names it
	call route.Call
	// resource is what API Gateway matched: a REST resource (/orders/{id}), an HTTP route
	// key (GET /orders/{id}), or $connect. It is empty for restToken.
	resource string

	// source is the address that API Gateway saw. It is not valid if the event has no text
	// that is an address, as with restToken and with the test of a method in the console.
	source netip.Addr

	token string // restToken: the whole token, the only credential there is
	// headers have lower-case names and every value in no particular order. They are nil
	// for restToken.
	headers map[string][]string
	query   map[string][]string // webSocket only: browsers cannot set headers on a handshake

	requestID string // API Gateway's; restToken has none
}

// request returns what the event says about its caller.
func (e event) request() identity.Request {
	return identity.Request{TokenOnly: e.kind == restToken, Token: e.token, Headers: e.headers,
		Query: e.query, Source: e.source}
}

// payload has the fields of all kinds of events.
type payload struct {
	Type               string              `json:"type"`
	Version            string              `json:"version"`
	MethodARN          string              `json:"methodArn"`
	RouteARN           string              `json:"routeArn"`
	AuthorizationToken string              `json:"authorizationToken"`
	IdentitySource     json.RawMessage     `json:"identitySource"`
	Resource           string              `json:"resource"`
	RouteKey           string              `json:"routeKey"`
	Path               string              `json:"path"`
	RawPath            string              `json:"rawPath"`
	HTTPMethod         string              `json:"httpMethod"`
	Headers            map[string]string   `json:"headers"`
	MultiValueHeaders  map[string][]string `json:"multiValueHeaders"`
	Cookies            []string            `json:"cookies"` // payload 2.0
	Query              json.RawMessage     `json:"queryStringParameters"`
	MultiValueQuery    json.RawMessage     `json:"multiValueQueryStringParameters"`
	PathParameters     json.RawMessage     `json:"pathParameters"`
	RequestContext     struct {
		EventType string `json:"eventType"` // only WebSocket APIs set it
		RequestID string `json:"requestId"`
		Identity  struct {
			SourceIP string `json:"sourceIp"`
		} `json:"identity"`
		HTTP struct {
			Method   string `json:"method"`
			SourceIP string `json:"sourceIp"`
		} `json:"http"`
	} `json:"requestContext"`
}

// parseEvent decodes an event. It fails with errEvent for anything but the five kinds.
func parseEvent(raw []byte) (event, error) {
	var p payload
	if err := json.Unmarshal(raw, &p); err != nil {
		return event{}, fmt.Errorf("%w: no JSON of its form", errEvent) // the cause could quote a credential
	}
	kind, err := p.kind()
	if err != nil {
		return event{}, err
	}
	e := event{kind: kind, arn: p.MethodARN, requestID: p.RequestContext.RequestID}
	e.headers = mergeValues(p.Headers, p.MultiValueHeaders, strings.ToLower)
	if kind == http2 {
		e.arn = p.RouteARN
		if len(e.headers["cookie"]) == 0 {
			e.headers["cookie"] = p.Cookies
		}
	}
	if e.call, err = parseARN(e.arn); err != nil {
		return event{}, err
	}
	return p.fill(e)
}

// kind returns the event's kind by the fields that only one kind has, and refuses any
// other event. The version alone decides nothing: emulators give REST events one, and AWS
// may.
func (p *payload) kind() (kind, error) {
	handshake := isConnect(p.MethodARN)
	if eventType := p.RequestContext.EventType; eventType != "" && (eventType != "CONNECT" || !handshake) {
		return 0, fmt.Errorf("%w: event type %s", errEvent, word(eventType))
	}
	request, format2 := p.Type == "REQUEST", p.RouteARN != "" && p.MethodARN == ""
	switch {
	case request && format2 && (p.Version == "2.0" || p.Version == ""):
		return http2, nil
	case format2 || p.Version != "1.0" && p.Version != "":
	case p.Type == "TOKEN" && !handshake:
		return restToken, nil
	case request && handshake:
		return webSocket, nil
	case request && p.isHTTP1():
		return http1, nil
	case request:
		return restRequest, nil
	}
	return 0, fmt.Errorf("%w: type %s version %s", errEvent, word(p.Type), word(p.Version))
}

// isHTTP1 reports whether an event with a methodArn comes from an HTTP API. AWS documents
// that format 1.0 has identitySource and authorizationToken but no multiValueHeaders;
// REST events are the reverse. Only HTTP APIs have a stage named $default.
func (p *payload) isHTTP1() bool {
	if p.Version != "1.0" {
		return false
	}
	c, err := parseARN(p.MethodARN)
	return len(p.IdentitySource) > 0 || p.AuthorizationToken != "" || p.MultiValueHeaders == nil ||
		err == nil && c.Stage == "$default"
}

// word quotes short words of AWS's own, such as MESSAGE or 3.0. It describes any other
// text by its length, since it could be a credential or an address.
func word(text string) string {
	letters := strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == ""
	if letters && len(text) <= 20 || len(text) <= 4 {
		return strconv.Quote(text)
	}
	return fmt.Sprintf("of %d bytes", len(text))
}

// fill adds the fields that only some kinds have. It prefers the event's own path and
// method to those of the ARN where callPath does.
func (p *payload) fill(e event) (event, error) {
	c := &p.RequestContext
	switch e.kind {
	case restToken:
		e.token, e.headers = p.AuthorizationToken, nil
		return e, nil
	case restRequest, http1:
		e.resource = p.Resource
		e.source, _ = proxies.ParseAddr(c.Identity.SourceIP)
		e.call.Path = callPath(e, p.Path, p.PathParameters)
	case http2:
		e.resource = p.RouteKey
		e.source, _ = proxies.ParseAddr(c.HTTP.SourceIP)
		e.call.Path = callPath(e, p.RawPath, p.PathParameters)
	case webSocket:
		e.resource = connectRoute
		e.source, _ = proxies.ParseAddr(c.Identity.SourceIP)
		return p.fillQuery(e)
	}
	if method := p.HTTPMethod + c.HTTP.Method; method != "" {
		e.call.Method = method // an event has one of the two
	}
	return e, nil
}

func (p *payload) fillQuery(e event) (event, error) {
	var single map[string]string
	var multi map[string][]string
	if unmarshalGiven(p.Query, &single) != nil || unmarshalGiven(p.MultiValueQuery, &multi) != nil {
		return event{}, fmt.Errorf("%w: query of another form", errEvent)
	}
	e.query = mergeValues(single, multi, func(name string) string { return name })
	return e, nil
}

func unmarshalGiven(raw json.RawMessage, into any) error {
	if len(raw) == 0 {
		return nil
	}
	return json.Unmarshal(raw, into)
}

// mergeValues merges the two forms of headers or parameters of an event: one with the
// last value of each name, one with all values. It applies fold to each name.
func mergeValues(single map[string]string, multi map[string][]string,
	fold func(string) string) map[string][]string {
	merged := make(map[string][]string, max(len(single), len(multi)))
	for name, values := range multi {
		name = fold(name)
		merged[name] = append(merged[name], values...)
	}
	for name, value := range single {
		if _, given := multi[name]; !given {
			name = fold(name)
			merged[name] = append(merged[name], value)
		}
	}
	return merged
}

// connectRoute is the route of a WebSocket handshake. It stands in the ARN's method
// field.
const connectRoute = "$connect"

// parseARN reads the called API, stage, method and path from
// arn:PARTITION:execute-api:REGION:ACCOUNT:API/STAGE/METHOD/PATH.
func parseARN(arn string) (route.Call, error) {
	parts := strings.SplitN(arn, ":", 6)
	if len(parts) < 6 || parts[0] != "arn" || parts[2] != "execute-api" {
		return route.Call{}, fmt.Errorf("%w: no method or route ARN", errEvent)
	}
	resource := strings.SplitN(parts[5], "/", 4)
	if len(resource) > 2 && resource[0] == "" {
		return route.Call{}, fmt.Errorf("%w: a test event of the AWS console, whose ARN names no API: put "+
			"an API id before /STAGE", errEvent)
	}
	if len(resource) < 3 || resource[0] == "" || resource[1] == "" || resource[2] == "" {
		return route.Call{}, fmt.Errorf("%w: ARN without API, stage and method", errEvent)
	}
	c := route.Call{API: resource[0], Stage: resource[1], Method: resource[2], Path: "/"}
	if len(resource) == 4 {
		c.Path += resource[3]
	}
	return c, nil
}

// isConnect reports whether the ARN is that of a WebSocket handshake, API/STAGE/$connect.
// An ARN with a further path that ends in $connect belongs to another kind of API.
func isConnect(arn string) bool {
	c, err := parseARN(arn)
	return err == nil && c.Method == connectRoute && c.Path == "/"
}

// callPath returns the path in the API. The event's own path may begin with a stage or
// the base path of a custom domain. The ARN's path has neither, so it is the same for
// every domain.
//
// AWS does not document whether an ARN's path is percent-encoded. If only one of the two
// paths is, callPath returns that one, because a decoded path may hide a slash. Otherwise
// the ARN's path of a REST API decides. The ARN of an HTTP API's route $default or
// {proxy+} may have no path; callPath then returns the one that the path parameters say,
// or else the event's path without its stage.
func callPath(e event, given string, parameters json.RawMessage) string {
	named := e.call.Path
	if given == "" || e.isRoot() {
		return named
	}
	if named != "/" {
		if _, spelled, found := tail(given, named); found {
			return spelled
		}
	}
	if e.kind == restRequest {
		return named
	}
	if path, found := proxyPath(e.resource, given, parameters); found {
		return path
	}
	if after, found := strings.CutPrefix(given, "/"+e.call.Stage); found && (after == "" || after[0] == '/') {
		return "/" + strings.TrimPrefix(after, "/")
	}
	return given
}

// proxyPath returns the end of given that a route or resource which ends in a greedy
// parameter, such as /shop/{proxy+}, matched: the parameter's value, and as many segments
// before it as the route has.
func proxyPath(resource, given string, parameters json.RawMessage) (path string, found bool) {
	last := strings.LastIndexByte(resource, '/') + 1
	name, greedy := strings.CutSuffix(resource[last:], "+}")
	var values map[string]string
	if !greedy || json.Unmarshal(parameters, &values) != nil {
		return "", false
	}
	value := values[strings.TrimPrefix(name, "{")]
	front, path, found := tail(given, "/"+value)
	if value == "" || !found {
		return "", false
	}
	at := len(front)
	for range strings.Count(resource[:last], "/") - 1 {
		if at = strings.LastIndexByte(front[:at], '/'); at < 0 {
			return "", false
		}
	}
	return front[at:] + path, true
}

// isRoot reports whether API Gateway matched the root path. The event's resource is then
// /, or a route key such as "GET /".
func (e event) isRoot() bool {
	return e.call.Path == "/" && (e.resource == "/" || strings.HasSuffix(e.resource, " /"))
}

// tail splits given before its end that is the same path as named. Of the two spellings
// of that end it returns the percent-encoded one.
func tail(given, named string) (front, spelled string, found bool) {
	if front, found = strings.CutSuffix(given, named); found {
		return front, named, true
	}
	front, found = strings.CutSuffix(route.DecodeAll(given), route.DecodeAll(named))
	if !found || !strings.HasPrefix(given, front) {
		return "", "", false
	}
	spelled = given[len(front):]
	if len(named) > len(spelled) {
		spelled = named
	}
	return front, spelled, strings.HasPrefix(spelled, "/")
}
