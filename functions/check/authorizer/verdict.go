package authorizer

import (
	"encoding/json"
	"maps"
	"strconv"

	"tidegate/internal/answer"
	"tidegate/internal/enforce"
)

// verdict is an answer before it takes the form that an API wants.
type verdict struct {
	allowed   bool
	verified  bool // of a caller that was found to be who it says; its id is the principal then
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
	if c.ID == "" { // decided without the store, which alone could have verified the caller
		return unavailable()
	}
	v := verdict{allowed: c.Allowed, verified: true, principal: c.ID, context: map[string]any{
		contextDenied:     !c.Allowed,
		contextKeyID:      c.ID,
		contextVersion:    c.SetVersion,
		contextKeyVersion: c.KeyVersion,
	}}
	response := answer.To(c)
	v.texts(map[string]string{
		contextKeyName: c.Name, contextPlan: c.Plan, contextRule: c.Rule, contextReservation: c.Reservation,
		contextRateLimit: response.RateLimit, contextRateLimitPolicy: response.RateLimitPolicy,
	})
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

// texts adds those that are not empty: API Gateway leaves out a header whose value is not
// there.
func (v verdict) texts(values map[string]string) {
	maps.DeleteFunc(values, func(_, value string) bool { return value == "" })
	for key, value := range values {
		v.context[key] = value
	}
}

// unverified is the principal of a caller whose credential was not found to be good.
const unverified = "unverified"

// unauthorized is the answer of an HTTP API to a call without a good credential.
func unauthorized() verdict {
	return verdict{principal: unverified, context: map[string]any{contextMessage: answer.Unauthorized}}
}

// unavailable is the answer while the limits cannot be read, or not whose they are.
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
