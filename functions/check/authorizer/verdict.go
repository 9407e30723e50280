package authorizer

import (
	"encoding/json"
	"strconv"

	"tidegate/internal/answer"
	"tidegate/internal/enforce"
)

// verdict is an answer before response gives it the form of an API.
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
	contextLimit           = "limit"
	contextRemaining       = "remaining"
	contextReset           = "reset"
	contextKeyID           = "keyId"
	contextKeyName         = "keyName"
	contextPlan            = "plan"
	contextVersion         = "policyVersion"
	contextKeyVersion      = "keyVersion"
	contextRule            = "rule"
	contextReservation     = "reservation"
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
	v.text(contextRule, c.Rule)
	v.text(contextReservation, c.Reservation)
	v.text(contextRateLimit, response.RateLimit)
	v.text(contextRateLimitPolicy, response.RateLimitPolicy)
	if c.Degraded {
		v.context[contextDegraded] = true
	}
	if response.Limited {
		v.context[contextLimit] = response.Binding.Limit.Requests
		v.context[contextRemaining] = response.Binding.Remaining
		v.context[contextReset] = answer.WholeSeconds(response.Binding.Reset)
	}
	switch {
	case response.Denial != nil:
		v.deny(*response.Denial)
	case !c.WouldAllow:
		v.context[contextShadow] = true
	}
	return v
}

// text adds a value unless it is empty: API Gateway leaves out a header whose value is
// missing.
func (v verdict) text(key, value string) {
	if value != "" {
		v.context[key] = value
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

// impossible is the answer to a call that costs more than a limit ever admits.
func impossible(id string) verdict {
	v := verdict{verified: true, principal: id,
		context: map[string]any{contextDenied: true, contextKeyID: id}}
	v.deny(answer.Impossible())
	return v
}

func (v verdict) deny(d answer.Denial) {
	names, _ := json.Marshal(d.Violated) // strings always encode
	v.context[contextProblemType] = d.Type
	v.context[contextWait] = d.Wait()
	if d.RetryAfter > 0 {
		v.context[contextRetryAfter] = strconv.FormatInt(d.RetryAfter, 10)
	}
	v.context[contextMessage] = d.Detail
	v.context[contextViolated] = string(names)
	v.context[contextPolicy] = d.Policy
}
