package authorizer

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"time"

	"tidegate/internal/policy"
)

// verdict is an answer before it takes the form that an API wants.
type verdict struct {
	allowed   bool
	verified  bool // of a caller that was found to be who it says; its id is the principal then
	principal string
	context   map[string]any // strings, numbers and booleans only: REST APIs refuse anything else
}

// The keys of the authorizer context. Backends, gateway responses and parameter mappings read them by these names; README.md documents each.
const (
	contextDenied          = "denied"
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
	contextReservation     = "reservation"
	contextShadow          = "shadowDenied"
	contextDegraded        = "degraded"
)

func verdictOf(c policy.Checked) verdict {
	if c.ID == "" { // decided without the store, which alone could have verified the caller
		return unavailable()
	}
	v := verdict{allowed: c.Allowed, verified: true, principal: c.ID, context: map[string]any{
		contextDenied:     !c.Allowed,
		contextKeyID:      c.ID,
		contextVersion:    c.SetVersion,
		contextKeyVersion: c.KeyVersion,
	}}
	limits := told(c.Limits)
	v.texts(map[string]string{
		contextKeyName: c.Name, contextPlan: c.Plan, contextRule: c.Rule, contextReservation: c.Reservation,
		contextRateLimit: rateLimitField(limits), contextRateLimitPolicy: rateLimitPolicyField(limits),
	})
	if c.Degraded {
		v.context[contextDegraded] = true
	}
	binding, limited := v.bind(c)
	switch {
	case c.Allowed && !c.Would:
		v.context[contextShadow] = true
	case c.Allowed:
	case c.Degraded && !limited:
		v.deny(aboutBlank, c.RetryAfter(), cannotCheck, nil)
	case !c.BannedUntil.IsZero():
		v.deny(aboutBlank, c.RetryAfter(), "This caller is banned.", nil)
	case limited:
		v.deny(quotaExceeded, c.RetryAfter(), fmt.Sprintf("The limit of %s is reached.", nameOf(binding)), violated(limits))
	}
	return v
}

// bind tells of the limit that the client should heed, of those that are enforced.
func (v verdict) bind(c policy.Checked) (binding policy.Applied, limited bool) {
	enforced := c
	enforced.Limits = nil
	for _, l := range c.Limits {
		if l.Mode == policy.Enforce {
			enforced.Limits = append(enforced.Limits, l)
		}
	}
	if binding, limited = enforced.Binding(); limited {
		v.context[contextLimit] = binding.Limit.Requests
		v.context[contextRemaining] = binding.Remaining
		v.context[contextReset] = wholeSeconds(binding.Reset)
	}
	return binding, limited
}

// texts adds those that are not empty: API Gateway leaves out a header whose value is not there.
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
	return verdict{principal: unverified, context: map[string]any{contextMessage: "A valid API key is required."}}
}

// The type of a denial, RFC 9457's: over a quota, or nothing that has a name.
const (
	quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	aboutBlank    = "about:blank"
)

const cannotCheck = "The limits cannot be checked right now."

// unavailable is the answer while the limits cannot be read: nobody is let in, and nobody is told that a limit was reached.
func unavailable() verdict {
	v := verdict{principal: unverified, context: map[string]any{contextDegraded: true}}
	v.deny(aboutBlank, time.Second, cannotCheck, nil)
	return v
}

// impossible is the answer to a call that costs more than a limit ever admits: it may not pass, and there is nothing to wait for. No save allows a
// plan or a route like that; an override older than the route's cost can come to it.
func impossible(id string) verdict {
	v := verdict{verified: true, principal: id, context: map[string]any{contextDenied: true, contextKeyID: id}}
	v.context[contextProblemType] = quotaExceeded
	v.context[contextMessage] = "This call costs more than its limit ever admits. It can never pass."
	v.context[contextViolated] = "[]"
	return v
}

func (v verdict) deny(problem string, retryAfter time.Duration, reason string, violated []string) {
	seconds := wholeSeconds(retryAfter)
	unit := "seconds"
	if seconds == 1 {
		unit = "second"
	}
	if violated == nil {
		violated = []string{}
	}
	names, _ := json.Marshal(violated) // strings always encode
	v.context[contextProblemType] = problem
	v.context[contextRetryAfter] = strconv.FormatInt(seconds, 10)
	v.context[contextMessage] = fmt.Sprintf("%s Retry after %d %s.", reason, seconds, unit)
	v.context[contextViolated] = string(names)
}

// wholeSeconds rounds up: a client that waits them out never comes too early.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
