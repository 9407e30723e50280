package authorizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// kind tells the authorizer events of API Gateway apart; each wants its own answer.
type kind int

const (
	restToken   kind = iota // REST API, TOKEN authorizer
	restRequest             // REST API, REQUEST authorizer
	http1                   // HTTP API, payload format 1.0
	http2                   // HTTP API, payload format 2.0
)

var errEvent = errors.New("not an authorizer event that can be answered")

// event is what the authorizer reads of any of them.
type event struct {
	kind    kind
	arn     string              // the method or route that is called; an answer's policy names it
	token   string              // restToken: the whole token
	headers map[string][]string // lower-case names; every value given, in no particular order
}

// payload is the union of the fields that the events have.
type payload struct {
	Type               string              `json:"type"`
	Version            string              `json:"version"`
	MethodARN          string              `json:"methodArn"`
	RouteARN           string              `json:"routeArn"`
	AuthorizationToken string              `json:"authorizationToken"`
	Headers            map[string]string   `json:"headers"`
	MultiValueHeaders  map[string][]string `json:"multiValueHeaders"`
	RequestContext     struct {
		EventType string `json:"eventType"` // only WebSocket APIs set it
	} `json:"requestContext"`
}

// parseEvent decodes an event. It fails with errEvent for anything but the four kinds.
func parseEvent(raw []byte) (event, error) {
	var p payload
	if err := json.Unmarshal(raw, &p); err != nil {
		return event{}, fmt.Errorf("%w: no JSON of its form", errEvent) // the cause could quote a credential
	}
	e := event{arn: p.MethodARN, token: p.AuthorizationToken, headers: mergeHeaders(p.Headers, p.MultiValueHeaders)}
	switch {
	case p.Type == "TOKEN" && p.Version == "":
		e.kind = restToken
	case p.Type == "REQUEST" && p.Version == "2.0":
		e.kind, e.arn = http2, p.RouteARN
	case p.Type == "REQUEST" && p.Version == "1.0":
		e.kind = http1
	case p.Type == "REQUEST" && p.Version == "" && p.RequestContext.EventType == "" && !strings.HasSuffix(p.MethodARN, "/$connect"):
		e.kind = restRequest
	default:
		return event{}, fmt.Errorf("%w: type %.20q version %.20q", errEvent, p.Type, p.Version)
	}
	if !strings.HasPrefix(e.arn, "arn:") {
		return event{}, fmt.Errorf("%w: no method or route ARN", errEvent)
	}
	return e, nil
}

// mergeHeaders folds names to lower case. A REST event gives each header twice, once with its last value and once with all of them.
func mergeHeaders(single map[string]string, multi map[string][]string) map[string][]string {
	merged := make(map[string][]string, max(len(single), len(multi)))
	for name, values := range multi {
		name = strings.ToLower(name)
		merged[name] = append(merged[name], values...)
	}
	for name, value := range single {
		if _, given := multi[name]; !given {
			name = strings.ToLower(name)
			merged[name] = append(merged[name], value)
		}
	}
	return merged
}
