package authorizer

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"tidegate/internal/limiter"
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
	contextDegraded        = "degraded"
)

func verdictOf(c policy.Checked) verdict {
	d, binding := c.Decision, c.Decision.Binding()
	v := verdict{allowed: d.Allowed, principal: c.Key.ID, context: map[string]any{
		contextRateLimit:       rateLimitField(d),
		contextRateLimitPolicy: rateLimitPolicyField(d),
		contextLimit:           binding.Limit.Requests,
		contextRemaining:       binding.Remaining,
		contextReset:           wholeSeconds(binding.Reset),
		contextKeyID:           c.Key.ID,
		contextKeyName:         c.Key.Name,
		contextPlan:            c.Key.Plan,
		contextVersion:         c.Key.Version,
	}}
	if !d.Allowed {
		v.deny(quotaExceeded, d.RetryAfter(), fmt.Sprintf("The limit of %s is reached.", binding.Limit), violated(d))
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
func rateLimitPolicyField(d limiter.Decision) string {
	items := make([]string, len(d.Limits))
	for i, u := range d.Limits {
		items[i] = fmt.Sprintf("%q;q=%d;w=%d", u.Limit.String(), u.Limit.Requests, wholeSeconds(u.Limit.Window))
	}
	return strings.Join(items, ", ")
}

// rateLimitField returns the RateLimit field: what remains of each limit, and the seconds until there is more: on a limit that denied the instant of
// Retry-After, otherwise the end of its window.
func rateLimitField(d limiter.Decision) string {
	items := make([]string, len(d.Limits))
	for i, u := range d.Limits {
		wait := u.Reset
		if u.RetryAfter > 0 {
			wait = u.RetryAfter
		}
		items[i] = fmt.Sprintf("%q;r=%d;t=%d", u.Limit.String(), u.Remaining, wholeSeconds(wait))
	}
	return strings.Join(items, ", ")
}

func violated(d limiter.Decision) []string {
	names := []string{}
	for _, u := range d.Limits {
		if u.RetryAfter > 0 {
			names = append(names, u.Limit.String())
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
