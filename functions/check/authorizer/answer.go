package authorizer

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-lambda-go/events"

	"tidegate/internal/answer"
	"tidegate/internal/enforce"
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

// verdict is an answer in no API's form yet.
type verdict struct {
	allowed   bool
	verified  bool // the credential is good, and principal is the caller's id
	principal string
	context   map[string]any // strings, numbers and booleans only: REST APIs refuse anything else
}

// The keys of the authorizer context. Backends, gateway responses and parameter mappings
// read them by these names; docs/backends.md documents each.
const (
	contextDenied          = "denied"
	contextRateLimit       = "rateLimit"
	contextRateLimitPolicy = "rateLimitPolicy"
	contextRetryAfter      = "retryAfter"
	contextWait            = "wait"
	contextMessage         = "message"
	contextViolated        = "violatedPolicies"
	contextPolicy          = "violatedPolicy"
	contextProblemType     = "problemType"
	contextReference       = "reference"
	contextLimit           = "limit"
	contextRemaining       = "remaining"
	contextReset           = "reset"
	contextKeyID           = "keyId"
	contextKeyName         = "keyName"
	contextPlan            = "plan"
	contextVersion         = "policyVersion"
	contextKeyVersion      = "keyVersion"
	contextRoute           = "route"
	contextSettlement      = "settlement"
	contextAtOnce          = "atOnce"
	contextShadow          = "shadowDenied"
	contextDegraded        = "degraded"
)

func verdictOf(c enforce.Result) verdict {
	if c.ID == "" { // decided without Valkey, for a caller who is not known to be good
		return unavailable()
	}
	v := verdict{allowed: c.Allowed, verified: true, principal: c.ID, context: make(map[string]any, 16)}
	v.context[contextDenied] = !c.Allowed
	v.context[contextKeyID] = c.ID
	v.context[contextVersion] = c.SetVersion
	v.context[contextKeyVersion] = c.KeyVersion
	response := answer.To(c)
	v.text(contextKeyName, c.Name)
	v.text(contextPlan, c.Plan)
	v.text(contextRoute, c.Route)
	v.text(contextSettlement, c.Settlement)
	v.text(contextRateLimit, response.RateLimit)
	v.text(contextRateLimitPolicy, response.RateLimitPolicy)
	if c.Degraded {
		v.context[contextDegraded] = true
	}
	if c.Settlement != "" && slices.ContainsFunc(c.Limits, isAtOnce) {
		v.context[contextAtOnce] = true
	}
	if response.Limited {
		v.context[contextLimit] = response.Binding.Requests
		v.context[contextRemaining] = response.Binding.Remaining
		v.context[contextReset] = answer.WholeSeconds(response.Binding.Next)
	}
	switch {
	case response.Denial != nil:
		v.deny(*response.Denial)
	case !c.WouldAllow:
		v.context[contextShadow] = true
	}
	return v
}

func isAtOnce(l enforce.LimitState) bool { return l.AtOnce }

// Context returns what an authorizer adds for backends to a decided call.
func Context(c enforce.Result) map[string]any { return verdictOf(c).context }

// text adds a value unless it is empty: API Gateway leaves out a header whose value is
// missing.
func (v verdict) text(key, value string) {
	if value != "" {
		v.context[key] = value
	}
}

// maxContext bounds the context with claims, so that an answer stays below the 8 KB that API
// Gateway takes.
const maxContext = 7000

// addClaims adds claims for the backend, in the order of their names. It leaves out those for
// which there is no room.
func (v verdict) addClaims(claims map[string]any) {
	if len(claims) == 0 {
		return
	}
	text, _ := json.Marshal(v.context) // strings, numbers and booleans always encode
	left := maxContext - len(text)
	for _, key := range slices.Sorted(maps.Keys(claims)) {
		one, _ := json.Marshal(map[string]any{key: claims[key]})
		if left -= len(one); left < 0 {
			return
		}
		v.context[key] = claims[key]
	}
}

// unverified is the principal of a caller whose credential is not verified.
const unverified = "unverified"

// unauthorized is the answer of an HTTP API to a call without a good credential.
func unauthorized() verdict {
	return verdict{principal: unverified, context: map[string]any{contextMessage: answer.Unauthorized}}
}

// unavailable is the answer while the limits, or the caller's record, cannot be read.
func unavailable() verdict {
	v := verdict{principal: unverified, context: map[string]any{contextDegraded: true}}
	v.deny(answer.Unavailable())
	return v
}

func (v verdict) deny(d answer.Denial) {
	names, _ := json.Marshal(d.Violated) // strings always encode
	v.context[contextProblemType] = d.Type
	v.context[contextWait] = d.Wait
	if d.RetryAfter > 0 {
		v.context[contextRetryAfter] = strconv.FormatInt(d.RetryAfter, 10)
	}
	v.context[contextMessage] = d.Detail
	v.context[contextViolated] = string(names)
	v.context[contextPolicy] = d.Policy
	v.context[contextReference] = d.Reference // also if empty: the body of a REST API's 429 names it
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

const maxResourceLen = 512 // bytes of a policy's resource

// resource returns the policy's resource for an ARN. It cuts the ARN of a long path.
func resource(arn string) string {
	if len(arn) <= maxResourceLen {
		return arn
	}
	return strings.ToValidUTF8(arn[:maxResourceLen-1], "") + "*"
}
