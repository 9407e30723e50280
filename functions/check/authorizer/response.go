package authorizer

import (
	"strings"

	"github.com/aws/aws-lambda-go/events"
)

// Format says how HTTP APIs with payload format 2.0 want to be answered. The event does
// not tell, so it must equal the authorizer's setting.
type Format string

// The formats.
const (
	Simple Format = "simple" // {"isAuthorized": …}; needs enableSimpleResponses
	IAM    Format = "iam"    // an IAM policy, as REST APIs take
)

// Denial says how a call over a limit is denied on an HTTP API, which turns every deny
// into 403.
type Denial string

// The denials.
const (
	Deny Denial = "deny" // the API answers 403, without Retry-After
	// the call passes, and the context says denied: the backend must run the middleware,
	// which answers 429
	InContext Denial = "context"
)

// Answers says which of several forms an answer takes. The zero value is not valid.
type Answers struct {
	Format Format
	Denial Denial
	// UsageIdentifier adds a usageIdentifierKey, for APIs whose usage plans count by the
	// authorizer's word (apiKeySource AUTHORIZER).
	UsageIdentifier bool
}

// usageIdentifierPrefix makes a caller's id as long as the value of an API Gateway key
// must be: 20 to 128 alphanumeric characters.
const usageIdentifierPrefix = "tidegate0"

// usageIdentifier returns the value of the API Gateway key that counts for a caller. Ids
// of API keys are alphanumeric. Those of tokens and addresses are base64url of an HMAC,
// so that no two of them differ in what is replaced alone.
func usageIdentifier(id string) string {
	return usageIdentifierPrefix + strings.NewReplacer("-", "xh", "_", "xu").Replace(id)
}

// response puts the verdict in the form that the event's API wants.
func (v verdict) response(e event, a Answers) any {
	allowed := v.allowed || v.verified && a.Denial == InContext && (e.kind == http1 || e.kind == http2)
	if e.kind == http2 && a.Format == Simple {
		return events.APIGatewayV2CustomAuthorizerSimpleResponse{IsAuthorized: allowed, Context: v.context}
	}
	effect := "Deny"
	if allowed {
		effect = "Allow"
	}
	r := events.APIGatewayCustomAuthorizerResponse{
		PrincipalID: v.principal,
		PolicyDocument: events.APIGatewayCustomAuthorizerPolicy{
			Version: "2012-10-17",
			Statement: []events.IAMPolicyStatement{{Action: []string{"execute-api:Invoke"}, Effect: effect,
				Resource: []string{resource(e.arn)}}},
		},
		Context: v.context,
	}
	if a.UsageIdentifier && v.verified && e.kind != http1 && e.kind != http2 {
		r.UsageIdentifierKey = usageIdentifier(v.principal)
	}
	return r
}

const maxResourceLen = 512 // of a policy's resource; the path of a call can be longer

func resource(arn string) string {
	if len(arn) <= maxResourceLen {
		return arn
	}
	return strings.ToValidUTF8(arn[:maxResourceLen-1], "") + "*"
}
