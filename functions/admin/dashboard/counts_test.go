package dashboard_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/testing/sitetest"
)

// The form of limits keeps and edits what a limit counts.
func TestCountsInForm(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Post(limitsPath, sitetest.LimitsForm(1, "500 bytes per minute")).Wants(
		t, http.StatusUnprocessableEntity, `id="limits-0-error"`, "is not a limit")
	s.Post(limitsPath, sitetest.LimitsForm(1, "500 calls per minute")).Wants(t, http.StatusSeeOther)
	s.Get(limitsPath).Wants(t, http.StatusOK, `value="500 calls per minute"`, "whatever they cost")
	s.Post(limitsPath, sitetest.LimitsForm(2, "500 per minute")).Wants(t, http.StatusSeeOther)
	s.Get(limitsPath).Wants(t, http.StatusOK, `value="500 per minute"`)
}

// A limit that counts calls may be below the cost of a route beside one that counts cost.
func TestLimitsOfCallsAndCost(t *testing.T) {
	calls := limiter.Limit{Requests: 500, Window: time.Minute, Calls: true}
	cost := limiter.Limit{Requests: 1_000_000, Window: time.Minute}
	both := []limiter.Limit{calls, cost}
	set := policy.Set{
		Plans:  []policy.Plan{{Name: "free", Limits: both}},
		Routes: []policy.Route{{Name: "chat", Cost: 4000, PerKey: both, PerIP: both, Shared: both}},
		Global: policy.Scope{Limits: both},
	}
	if err := set.Validate(); err != nil {
		t.Errorf("both limits: got %v, want no error", err)
	}
}

// While an override is in force, the key's page lists the plan's limits too: they go on
// counting, and deny nothing.
func TestReplacedLimits(t *testing.T) {
	s := sitetest.New(t).Login()
	const heading = "replaced: counts, denies nothing"
	s.Keys.Use("acme", 7)
	if page := s.Get("/keys/{acme}").Wants(t, http.StatusOK); strings.Contains(page.Body, heading) {
		t.Error("the page lists replaced limits without an override")
	}
	s.Keys.OverrideKey("acme", limiter.Limit{Requests: 5000, Window: time.Hour})
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "5,000 per hour", "counting since", heading,
		"<b>7</b> of 10")
	s.Keys.UpdateKey("acme", func(k *policy.Key) {
		ended := *k.Override
		ended.Until = time.Now().Add(-time.Minute)
		k.Override = &ended
	})
	if page := s.Get("/keys/{acme}").Wants(t, http.StatusOK); strings.Contains(page.Body, heading) {
		t.Error("the page lists replaced limits after the override ended")
	}
}
