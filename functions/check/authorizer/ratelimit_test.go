package authorizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// crowded is a call that is held against as many limits as there can be, by a caller whose names are as long and as awkward as they can be.
func crowded(t *testing.T) policy.Checked {
	t.Helper()
	long := strings.Repeat("<", policy.MaxNameLen)
	c := policy.Checked{
		ID: strings.Repeat("a", 22), Name: long, Plan: long, Rule: long, Reservation: strings.Repeat("r", 512), SetVersion: 1 << 32, KeyVersion: 1 << 32,
		Cost: limiter.MaxRequests,
	}
	for _, scope := range []string{policy.ScopeKey, policy.ScopeRoute, policy.ScopeIP, policy.ScopeRouteIP, policy.ScopeGlobal, policy.ScopeRouteAll} {
		for i := range limiter.MaxLimits {
			l := limiter.Limit{Requests: limiter.MaxRequests - int64(i), Window: limiter.MaxWindow - time.Millisecond}
			if err := l.Validate(); err != nil {
				t.Fatal(err)
			}
			u := limiter.Usage{Limit: l, Reset: l.Window, RetryAfter: l.Window - time.Duration(i)*time.Hour}
			c.Limits = append(c.Limits, policy.Applied{Usage: u, Scope: scope, Mode: policy.Enforce})
		}
	}
	return c
}

// Whatever is configured, an answer is below 8 KB, and the fields below a fifth of the headers that an HTTP API passes on.
func TestAnswersAreBounded(t *testing.T) {
	c := crowded(t)
	v := verdictOf(c)
	for _, a := range []Answers{simple, {Format: IAM, Denial: Deny, UsageIdentifier: true}} {
		raw, err := json.Marshal(v.response(event{kind: restRequest, arn: strings.Repeat("é", 800)}, a))
		if err != nil || len(raw) >= 8000 {
			t.Errorf("%d bytes, %v", len(raw), err)
		}
	}
	if n := len(v.context[contextRateLimit].(string)) + len(v.context[contextRateLimitPolicy].(string)); n > 10240/5 {
		t.Errorf("the fields have %d bytes", n)
	}
}

// When there are too many limits, clients are told of those that denied, and of them of those that deny the longest.
func TestTheMostUrgentLimitsAreTold(t *testing.T) {
	c := crowded(t)
	for i := range c.Limits {
		c.Limits[i].RetryAfter, c.Limits[i].Remaining = 0, int64(len(c.Limits)-i)
	}
	c.Limits[20].RetryAfter, c.Limits[3].RetryAfter = time.Hour, time.Minute
	got := told(c.Limits)
	if len(got) != maxFields || got[0].RetryAfter != time.Hour || got[1].RetryAfter != time.Minute || got[2].Remaining != 1 {
		t.Errorf("%+v", got)
	}
	if names := violated(got); len(names) != 2 {
		t.Errorf("%v", names)
	}
}

// Limits in shadow are nobody's business but the operator's, and two limits of the same words have two names.
func TestNamesOfLimits(t *testing.T) {
	hour := limiter.Usage{Limit: limiter.Limit{Requests: 5, Window: time.Hour}, Remaining: 2, Reset: time.Minute}
	bucket := hour
	bucket.Limit.Algorithm = limiter.TokenBucket
	limits := told([]policy.Applied{
		{Usage: hour, Scope: policy.ScopeKey, Mode: policy.Enforce}, {Usage: hour, Scope: policy.ScopeIP, Mode: policy.Shadow},
		{Usage: bucket, Scope: policy.ScopeKey, Mode: policy.Enforce}, {Usage: hour, Scope: policy.ScopeGlobal, Mode: policy.Enforce},
	})
	if got, want := rateLimitField(limits), `"5 per 1 hour";r=2;t=60, "5 per 1 hour (2)";r=2;t=60, "global 5 per 1 hour";r=2;t=60`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := rateLimitPolicyField(limits[:1]); got != `"5 per 1 hour";q=5;w=3600` {
		t.Error(got)
	}
}

func TestQuoted(t *testing.T) {
	for text, want := range map[string]string{
		"": `""`, "a b": `"a b"`, `a"b\c`: `"a\"b\\c"`, "naïve\r\n\x7f": `"na?ve???"`, "日本": `"??"`, "\xff": `"?"`,
	} {
		if got := quoted(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// Every text in the context of a denial is free of what would have to be escaped in the template of a gateway response.
func TestDenialNeedsNoEscapes(t *testing.T) {
	v := verdictOf(crowded(t))
	for _, key := range []string{contextMessage, contextProblemType} {
		text, _ := v.context[key].(string)
		if quoted := must(json.Marshal(text)); string(quoted) != `"`+text+`"` {
			t.Errorf("%s is %s", key, quoted)
		}
	}
	var names []string
	if err := json.Unmarshal([]byte(v.context[contextViolated].(string)), &names); err != nil || len(names) != maxFields {
		t.Errorf("%v, %v", names, err)
	}
	for _, name := range names {
		if !slices.Contains(strings.Split(fmt.Sprint(v.context[contextRateLimitPolicy]), `"`), name) {
			t.Errorf("%s is no policy of the field", name)
		}
	}
}
