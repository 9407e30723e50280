package authorizer

import "encoding/json"

// warmEvent has the fields that most events have.
const warmEvent = `{"type":"REQUEST","methodArn":"arn:aws:execute-api:us-east-1:123456789012:warm/up/GET/","headers":{"a":"b"},"path":"/",` +
	`"multiValueHeaders":{"a":["b"]},"requestContext":{"identity":{"sourceIp":"192.0.2.1"}}}`

// Warm encodes one answer, so that the JSON encoder knows the types before the first
// event. It may run in parallel with Invoke.
func (a *Authorizer) Warm() {
	e, err := parseEvent([]byte(warmEvent))
	if err == nil {
		_, _ = json.Marshal(unavailable().response(e, a.answers))
	}
}
