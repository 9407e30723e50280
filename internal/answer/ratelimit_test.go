package answer

import (
	"testing"
	"time"

	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// When there are too many limits, clients see those that denied, and of them
// those that deny the longest.
func TestTheMostUrgentLimitsAreReported(t *testing.T) {
	limits := make([]enforce.LimitState, 48)
	for i := range limits {
		l := limiter.Limit{Requests: limiter.MaxRequests - int64(i), Window: time.Hour}
		limits[i] = enforce.LimitState{Usage: limiter.Usage{Limit: l, Remaining: int64(len(limits) - i)},
			Scope: policy.ScopeKey, Mode: policy.Enforce}
	}
	limits[20].RetryAfter, limits[3].RetryAfter = time.Hour, time.Minute
	got := reported(limits)
	if len(got) != maxFields || got[0].RetryAfter != time.Hour || got[1].RetryAfter != time.Minute ||
		got[2].Remaining != 1 {
		t.Errorf("%+v", got)
	}
	if names := violated(got); len(names) != 2 {
		t.Errorf("%v", names)
	}
}

// Limits in shadow are nobody's business but the operator's, and two limits of the same
// words have two names.
func TestNamesOfLimits(t *testing.T) {
	hour := limiter.Usage{Limit: limiter.Limit{Requests: 5, Window: time.Hour}, Remaining: 2,
		Reset: time.Minute, Next: 7 * time.Second}
	bucket := hour
	bucket.Limit.Algorithm = limiter.TokenBucket
	limits := reported([]enforce.LimitState{
		{Usage: hour, Scope: policy.ScopeKey, Mode: policy.Enforce},
		{Usage: hour, Scope: policy.ScopeIP, Mode: policy.Shadow},
		{Usage: bucket, Scope: policy.ScopeKey, Mode: policy.Enforce},
		{Usage: hour, Scope: policy.ScopeGlobal, Mode: policy.Enforce},
	})
	if got, want := stateField(limits),
		`"5 per 1 hour";r=2;t=7, "5 per 1 hour (2)";r=2;t=7, "global 5 per 1 hour";r=2;t=7`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := policyField(limits[:1]); got != `"5 per 1 hour";q=5;w=3600` {
		t.Error(got)
	}
}

func TestQuoted(t *testing.T) {
	for text, want := range map[string]string{
		"": `""`, "a b": `"a b"`, `a"b\c`: `"a\"b\\c"`, "naïve\r\n\x7f": `"na?ve???"`, "日本": `"??"`,
		"\xff": `"?"`,
	} {
		if got := quoted(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
