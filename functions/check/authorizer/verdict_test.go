package authorizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// crowded is a call that is held against as many limits as there can be, by a caller
// whose names are as long and as awkward as they can be.
func crowded(t *testing.T) enforce.Result {
	t.Helper()
	long := strings.Repeat("<", policy.MaxNameLen)
	c := enforce.Result{
		ID: strings.Repeat("a", 22), Name: long, Plan: long, Rule: long,
		Reservation: strings.Repeat("r", 512), SetVersion: 1 << 32, KeyVersion: 1 << 32,
		Cost: limiter.MaxRequests,
	}
	for _, scope := range []string{policy.ScopeKey, policy.ScopeRoute, policy.ScopeIP, policy.ScopeRouteIP,
		policy.ScopeGlobal, policy.ScopeRouteAll} {
		for i := range limiter.MaxLimits {
			l := limiter.Limit{Requests: limiter.MaxRequests - int64(i),
				Window: limiter.MaxWindow - time.Millisecond}
			if err := l.Validate(); err != nil {
				t.Fatal(err)
			}
			u := limiter.Usage{Limit: l, Reset: l.Window, RetryAfter: l.Window - time.Duration(i)*time.Hour}
			c.Limits = append(c.Limits, enforce.LimitState{Usage: u, Scope: scope, Mode: policy.Enforce})
		}
	}
	return c
}

// Whatever is configured, an answer is below 8 KB, and the fields below a fifth of the
// headers that an HTTP API passes on.
func TestAnswersAreBounded(t *testing.T) {
	c := crowded(t)
	v := verdictOf(c)
	for _, a := range []Answers{simple, {Format: IAM, Denial: Deny, UsageIdentifier: true}} {
		raw, err := json.Marshal(v.response(event{kind: restRequest, arn: strings.Repeat("é", 800)}, a))
		if err != nil || len(raw) >= 8000 {
			t.Errorf("%d bytes, %v", len(raw), err)
		}
	}
	if n := len(v.context[contextRateLimit].(string)) +
		len(v.context[contextRateLimitPolicy].(string)); n > 10240/5 {
		t.Errorf("the fields have %d bytes", n)
	}
}

// Every text in the context of a denial is free of what would have to be escaped in the
// template of a gateway response.
func TestDenialNeedsNoEscapes(t *testing.T) {
	v := verdictOf(crowded(t))
	for _, key := range []string{contextMessage, contextProblemType} {
		text, _ := v.context[key].(string)
		if quoted := must(json.Marshal(text)); string(quoted) != `"`+text+`"` {
			t.Errorf("%s is %s", key, quoted)
		}
	}
	var names []string
	if err := json.Unmarshal([]byte(v.context[contextViolated].(string)), &names); err != nil ||
		len(names) != 10 {
		t.Errorf("%v, %v", names, err)
	}
	for _, name := range names {
		if !slices.Contains(strings.Split(fmt.Sprint(v.context[contextRateLimitPolicy]), `"`), name) {
			t.Errorf("%s is no policy of the field", name)
		}
	}
}
