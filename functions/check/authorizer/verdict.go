package authorizer

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"tidegate/internal/answer"
	"tidegate/internal/policy"
)

// verdict is an answer before it takes the form that an API wants.
type verdict struct {
	allowed   bool
	principal string
	context   map[string]any // strings, numbers and booleans only: REST APIs refuse anything else
}

// The keys of the authorizer context. Backends, gateway responses and parameter mappings read them by these names; README.md documents each.
const (
	contextRateLimit       = "rateLimit"
	contextRateLimitPolicy = "rateLimitPolicy"
	contextRetryAfter      = "retryAfter"
	contextMessage         = "message"
	contextViolated        = "violatedPolicies"
	contextProblemType     = "problemType"
	contextLimit           = "limit"
	contextRemaining       = "remaining"
	contextReset           = "reset"
	contextKeyID           = "keyId"
	contextKeyName         = "keyName"
	contextPlan            = "plan"
	contextVersion         = "policyVersion"
	contextKeyVersion      = "keyVersion"
	contextRule            = "rule"
	contextShadow          = "shadowDenied"
	contextDegraded        = "degraded"
)

func verdictOf(c policy.Checked) verdict {
	v := verdict{allowed: c.Allowed, principal: c.ID, context: map[string]any{
		contextRateLimit:       answer.RateLimit(c),
		contextRateLimitPolicy: answer.RateLimitPolicy(c),
		contextKeyID:           c.ID,
		contextKeyName:         c.Name,
		contextPlan:            c.Plan,
		contextVersion:         c.SetVersion,
		contextKeyVersion:      c.KeyVersion,
	}}
	if c.Rule != "" {
		v.context[contextRule] = c.Rule
	}
	binding, limited := c.Binding()
	if limited {
		v.context[contextLimit] = binding.Limit.Requests
		v.context[contextRemaining] = binding.Remaining
		v.context[contextReset] = answer.WholeSeconds(binding.Reset)
	}
	switch {
	case c.Allowed && !c.Would:
		v.context[contextShadow] = true
	case c.Allowed:
	default:
		v.deny(answer.Denied(c))
	}
	return v
}

// unauthorized is the answer of an HTTP API to a call without a good credential.
func unauthorized() verdict {
	return verdict{principal: unverified, context: map[string]any{contextMessage: "A valid API key is required."}}
}

// unverified is the principal of a caller whose credential was not found to be good.
const unverified = "unverified"

// unavailable is the answer while the limits cannot be read: nobody is let in, and nobody is told that a limit was reached.
func unavailable() verdict {
	v := verdict{principal: unverified, context: map[string]any{contextDegraded: true}}
	v.deny(answer.Deny(answer.AboutBlank, time.Second, "The limits cannot be checked right now.", nil))
	return v
}

func (v verdict) deny(d answer.Denial) {
	names, _ := json.Marshal(d.Violated) // strings always encode
	v.context[contextProblemType] = d.Type
	v.context[contextRetryAfter] = strconv.FormatInt(d.RetryAfter, 10)
	v.context[contextMessage] = d.Detail
	v.context[contextViolated] = string(names)
}

// response puts the verdict in the form that the event's API wants.
func (v verdict) response(e event, format Format) any {
	if e.kind == http2 && format == Simple {
		return events.APIGatewayV2CustomAuthorizerSimpleResponse{IsAuthorized: v.allowed, Context: v.context}
	}
	effect := "Deny"
	if v.allowed {
		effect = "Allow"
	}
	return events.APIGatewayCustomAuthorizerResponse{
		PrincipalID: v.principal,
		PolicyDocument: events.APIGatewayCustomAuthorizerPolicy{
			Version:   "2012-10-17",
			Statement: []events.IAMPolicyStatement{{Action: []string{"execute-api:Invoke"}, Effect: effect, Resource: []string{resource(e.arn)}}},
		},
		Context: v.context,
	}
}

const maxResourceLen = 512 // of a policy's resource; the path of a call can be longer

func resource(arn string) string {
	if len(arn) <= maxResourceLen {
		return arn
	}
	return strings.ToValidUTF8(arn[:maxResourceLen-1], "") + "*"
}
