package authorizer

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"

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
		contextRateLimit:       rateLimitField(c),
		contextRateLimitPolicy: rateLimitPolicyField(c),
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
		v.context[contextReset] = wholeSeconds(binding.Reset)
	}
	switch {
	case c.Allowed && !c.Would:
		v.context[contextShadow] = true
	case c.Allowed:
	case !c.BannedUntil.IsZero():
		v.deny(aboutBlank, c.RetryAfter(), "This caller is banned.", []string{})
	default:
		v.deny(quotaExceeded, c.RetryAfter(), fmt.Sprintf("The limit of %s is reached.", nameOf(binding)), violated(c))
	}
	return v
}

// unauthorized is the answer of an HTTP API to a call without a good credential.
func unauthorized() verdict {
	return verdict{principal: unverified, context: map[string]any{contextMessage: "A valid API key is required."}}
}

// unverified is the principal of a caller whose credential was not found to be good.
const unverified = "unverified"

// The type of a denial, RFC 9457's: over a quota, or nothing that has a name.
const (
	quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	aboutBlank    = "about:blank"
)

// unavailable is the answer while the limits cannot be read: nobody is let in, and nobody is told that a limit was reached.
func unavailable() verdict {
	v := verdict{principal: unverified, context: map[string]any{contextDegraded: true}}
	v.deny(aboutBlank, time.Second, "The limits cannot be checked right now.", []string{})
	return v
}

func (v verdict) deny(problem string, retryAfter time.Duration, reason string, violated []string) {
	seconds := wholeSeconds(retryAfter)
	unit := "seconds"
	if seconds == 1 {
		unit = "second"
	}
	names, _ := json.Marshal(violated) // strings always encode
	v.context[contextProblemType] = problem
	v.context[contextRetryAfter] = strconv.FormatInt(seconds, 10)
	v.context[contextMessage] = fmt.Sprintf("%s Retry after %d %s.", reason, seconds, unit)
	v.context[contextViolated] = string(names)
}

// rateLimitPolicyField returns the RateLimit-Policy field: each limit by name, its quota and its window in seconds, rounded up.
// The fields are those of draft-ietf-httpapi-ratelimit-headers.
func rateLimitPolicyField(c policy.Checked) string {
	items := make([]string, len(c.Limits))
	for i, l := range c.Limits {
		items[i] = fmt.Sprintf("%q;q=%d;w=%d", nameOf(l), l.Limit.Requests, wholeSeconds(l.Limit.Span()))
	}
	return strings.Join(items, ", ")
}

// rateLimitField returns the RateLimit field: what remains of each limit, and the seconds until there is more: on a limit that denied the instant of
// Retry-After, otherwise the end of its window.
func rateLimitField(c policy.Checked) string {
	items := make([]string, len(c.Limits))
	for i, l := range c.Limits {
		wait := l.Reset
		if l.RetryAfter > 0 {
			wait = l.RetryAfter
		}
		items[i] = fmt.Sprintf("%q;r=%d;t=%d", nameOf(l), l.Remaining, wholeSeconds(wait))
	}
	return strings.Join(items, ", ")
}

// nameOf is what clients know a limit by; it says on what the limit is unless that is the caller.
func nameOf(l policy.Applied) string {
	if l.Scope == policy.ScopeKey {
		return l.Limit.String()
	}
	return l.Scope + " " + l.Limit.String()
}

func violated(c policy.Checked) []string {
	names := []string{}
	for _, l := range c.Limits {
		if l.RetryAfter > 0 && l.Mode == policy.Enforce {
			names = append(names, nameOf(l))
		}
	}
	return names
}

// wholeSeconds rounds up: a client that waits them out never comes too early.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

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
