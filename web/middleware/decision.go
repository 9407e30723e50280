package middleware

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Source returns the authorizer context of a request: keys with strings, numbers or
// booleans. Nil means that there is none. It must read what the adapter or API Gateway
// wrote, and nothing that a client can send: docs/backends.md has one for each adapter.
type Source func(*http.Request) map[string]any

// WebAdapter is the Source behind the AWS Lambda Web Adapter. It passes API Gateway's
// request context as JSON in the header X-Amzn-Request-Context, which it overwrites.
// Behind anything else a client could send that header.
func WebAdapter(r *http.Request) map[string]any {
	values := r.Header.Values("X-Amzn-Request-Context")
	if len(values) != 1 {
		return nil
	}
	var c struct {
		Authorizer map[string]any `json:"authorizer"`
	}
	if json.Unmarshal([]byte(values[0]), &c) != nil {
		return nil
	}
	return Authorizer(c.Authorizer)
}

// Authorizer returns the authorizer context within requestContext.authorizer of an event,
// for Sources of other adapters. HTTP APIs with payload format 2.0 have it under lambda,
// all others directly.
func Authorizer(authorizer map[string]any) map[string]any {
	if values, ok := authorizer["lambda"].(map[string]any); ok {
		return values
	}
	return authorizer
}

// Headers is a Source for HTTP integrations. API Gateway's parameter mapping writes keys
// of the context into headers whose names are the prefix and the key, such as
//
//	overwrite:header.X-Tidegate-denied   $context.authorizer.denied
//
// for the prefix X-Tidegate-. Map denied, and the other keys of docs/backends.md that you
// want, always with overwrite, and pass just these keys: any other header with the prefix
// comes from the client and is not read. Without the key denied, or if a header has more
// than one value, the request has no decision.
func Headers(prefix string, mapped ...string) Source {
	return func(r *http.Request) map[string]any {
		context := map[string]any{}
		for _, key := range mapped {
			values := r.Header.Values(prefix + key)
			if len(values) > 1 {
				return nil
			}
			if len(values) == 1 && values[0] != "" {
				context[key] = values[0]
			}
		}
		return context
	}
}

// Decision is the authorizer's decision on a call. docs/backends.md describes each key of
// the context. A missing key gives the zero value.
type Decision struct {
	Denied                      bool
	KeyID, KeyName, Plan, Route string
	PolicyVersion, KeyVersion   int64
	Limit, Remaining, Reset     int64 // of the binding limit; Reset in seconds
	RateLimit, RateLimitPolicy  string
	RetryAfter                  int64  // seconds, at most a day
	Wait                        string // exact seconds until a retry passes, or never
	Message, ProblemType        string
	Violated                    []string
	Reference                   string // by which an operator finds the denial
	Settlement                  string
	AtOnce                      bool // the settlement ends a call of a limit at once
	ShadowDenied, Degraded      bool
}

var errNoDecision = errors.New("denied is neither true nor false in the authorizer context")

// parseDecision parses a context. It returns an error unless denied is true or false, as
// in every context of Tidegate.
func parseDecision(context map[string]any) (Decision, error) {
	v := values(context)
	denied := v.text("denied")
	if denied != "true" && denied != "false" {
		return Decision{}, errNoDecision
	}
	d := Decision{
		Denied: denied == "true", KeyID: v.text("keyId"), KeyName: v.text("keyName"), Plan: v.text("plan"),
		Route:         v.text("route"),
		PolicyVersion: v.number("policyVersion"), KeyVersion: v.number("keyVersion"),
		Limit: v.number("limit"), Remaining: v.number("remaining"), Reset: v.number("reset"),
		RateLimit: v.text("rateLimit"), RateLimitPolicy: v.text("rateLimitPolicy"),
		RetryAfter: v.number("retryAfter"), Wait: v.text("wait"),
		Message: v.text("message"), ProblemType: v.text("problemType"), Reference: v.text("reference"),
		Settlement: v.text("settlement"), AtOnce: v.text("atOnce") == "true",
		ShadowDenied: v.text("shadowDenied") == "true", Degraded: v.text("degraded") == "true",
	}
	if list := v.text("violatedPolicies"); list != "" {
		if err := json.Unmarshal([]byte(list), &d.Violated); err != nil {
			return Decision{}, fmt.Errorf("violatedPolicies: %w", err)
		}
	}
	return d, nil
}

// values is an authorizer context. REST APIs convert every value to a string.
type values map[string]any

func (v values) text(key string) string {
	switch value := v[key].(type) {
	case string:
		return value
	case bool:
		return strconv.FormatBool(value)
	case json.Number:
		return value.String()
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64)
	case int, int64:
		return fmt.Sprint(value)
	}
	return ""
}

// number returns a value as an integer, or 0 if it is not one.
func (v values) number(key string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(v.text(key)), 10, 64)
	return n
}
