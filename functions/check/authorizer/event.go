package authorizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"tidegate/functions/check/identity"
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

	// source is the client's address as API Gateway saw it; X-Forwarded-For is never
	// read. It is not valid for restToken, whose events have no address.
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
	Query              json.RawMessage     `json:"queryStringParameters"`
	MultiValueQuery    json.RawMessage     `json:"multiValueQueryStringParameters"`
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
	case restRequest, http1:
		e.resource, e.source = p.Resource, parseSource(c.Identity.SourceIP)
		e.call.Path = callPath(e, p.Path)
	case http2:
		e.resource, e.source = p.RouteKey, parseSource(c.HTTP.SourceIP)
		e.call.Path = callPath(e, p.RawPath)
	case webSocket:
		e.resource, e.source = connectRoute, parseSource(c.Identity.SourceIP)
		return p.fillQuery(e)
	}
	if method := p.HTTPMethod + c.HTTP.Method; method != "" && e.kind != restToken {
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

// parseSource returns an address without a zone, and IPv4 in its short form. A text that
// is no address gives the zero Addr.
func parseSource(text string) netip.Addr {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap().WithZone("")
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
