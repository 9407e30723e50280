package main

import (
	"strings"
	"testing"
	"time"

	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// A crossed threshold is reported after the answer, once, also by an environment that is
// about to end or whose Valkey is away, and never with the secret.
func TestCrossedThresholdsAreReported(t *testing.T) {
	daily := limiter.Limit{Requests: 4, Window: 24 * time.Hour, Algorithm: limiter.FixedWindow,
		Notify: limiter.Thresholds{50, 100}}
	f := newFunction(t, policy.Plan{Name: "free", Limits: []limiter.Limit{daily}})
	secret := f.key(t, "free")
	reported := func() int { return strings.Count(f.log.String(), "event=limit_crossed") }
	for calls, want := range []int{0, 1, 1, 2, 2} {
		f.call(t, secret)
		if before := reported(); before > want || want > before+1 {
			t.Errorf("%d reports before the answer to call %d", before, calls+1)
		}
		if f.afterAnswer(); reported() != want {
			t.Errorf("%d reports after call %d, want %d:\n%s", reported(), calls+1, want, f.log.String())
		}
	}
	for _, part := range []string{"key_id=" + secret.ID(), "key_name=caller", "plan=free", "scope=key",
		"threshold=50 used=2 max=4", "threshold=100 used=4 max=4", `limit="4 per 1 day"`} {
		if !strings.Contains(f.log.String(), part) {
			t.Errorf("no %s in\n%s", part, f.log.String())
		}
	}
	if strings.Contains(f.log.String(), secret.Reveal()) {
		t.Error("the log has the secret")
	}

	other := f.key(t, "free")
	f.call(t, other)
	f.call(t, other)
	f.leave(t)
	f.call(t, other) // finds Valkey away
	if f.afterAnswer(); reported() != 3 {
		t.Errorf("Valkey away: %d reports, want 3", reported())
	}
	f.come(t)

	last := f.key(t, "free")
	f.call(t, last)
	f.call(t, last)
	if (&assembled{checker: f.checker, metrics: f.metrics}).end(); reported() != 4 {
		t.Errorf("at the end: %d reports, want 4", reported())
	}
}

// A call that is checked again, since its first reply was lost, reports what either
// attempt crossed.
func TestCrossedByALostReply(t *testing.T) {
	daily := limiter.Limit{Requests: 10, Window: 24 * time.Hour, Notify: limiter.Thresholds{50}}
	f := newFunction(t, policy.Plan{Name: "free", Limits: []limiter.Limit{daily}})
	secret := f.key(t, "free")
	for range 4 {
		f.call(t, secret)
	}
	call := enforce.Call{Kind: policy.APIKey, Subject: secret.ID(), Secret: secret}
	checker := f.checker.Loaded()
	if _, err := checker.Check(t.Context(), call, nil); err != nil { // the fifth, whose reply is lost
		t.Fatal(err)
	}
	call.Again = true
	result, err := checker.Check(t.Context(), call, nil)
	if err != nil || len(result.Crossings) != 1 || result.Crossings[0].Percent != 50 {
		t.Errorf("%+v, %v", result.Crossings, err)
	}
}
