package authorizer

import (
	"strings"

	"github.com/aws/aws-lambda-go/events"
)

// Format is the form of answers to HTTP APIs with payload format 2.0. It must equal the
// authorizer's setting, which the event does not contain.
type Format string

// The formats.
const (
	Simple Format = "simple" // {"isAuthorized": …}; needs enableSimpleResponses
	IAM    Format = "iam"    // an IAM policy, as REST APIs take
)

// Denial says how a call over a limit is denied on an HTTP API. An HTTP API turns every
// deny into 403.
type Denial string

// The denials.
const (
	Deny Denial = "deny" // the API answers 403, without Retry-After
	// InContext lets the call pass with a context that says denied. The backend must run
	// the middleware, which answers 429.
	InContext Denial = "context"
)

// Answers selects the form of answers. The zero value is not valid.
type Answers struct {
	Format Format
	Denial Denial
	// UsageIdentifier adds a usageIdentifierKey, for APIs whose usage plans count by the
	// key that the authorizer returns (apiKeySource AUTHORIZER).
	UsageIdentifier bool
}

// usageIdentifierPrefix lengthens a caller's id to what API Gateway accepts as a key's
// value: 20 to 128 alphanumeric characters.
const usageIdentifierPrefix = "tidegate0"

// usageIdentifier returns the value of the API Gateway key that stands for a caller. Ids
// of API keys are alphanumeric. Those of tokens and addresses are base64url of an HMAC;
// their - and _ become two letters each.
func usageIdentifier(id string) string {
	return usageIdentifierPrefix + strings.NewReplacer("-", "xh", "_", "xu").Replace(id)
}

// response returns the verdict in the form that the event's API expects.
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
