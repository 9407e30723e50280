package dashboard_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"tidegate/internal/policy"
	"tidegate/internal/testing/sitetest"
)

// While an override is in force, the key's page lists the plan's limits too: they go on
// counting, and deny nothing.
func TestReplacedLimits(t *testing.T) {
	s := sitetest.New(t).Login()
	const heading = "counts only"
	s.Keys.Use("acme", 7)
	if page := s.Get("/keys/{acme}").Wants(t, http.StatusOK); strings.Contains(page.Body, heading) {
		t.Error("the page lists replaced limits without an override")
	}
	s.Keys.OverrideKey("acme", sitetest.Per(5000, time.Hour))
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "5,000 per hour", heading, "<b>7</b> of 5,000",
		"Goes on counting.")
	s.Keys.UpdateKey("acme", func(k *policy.Key) {
		ended := *k.Override
		ended.Until = time.Now().Add(-time.Minute)
		k.Override = &ended
	})
	if page := s.Get("/keys/{acme}").Wants(t, http.StatusOK); strings.Contains(page.Body, heading) {
		t.Error("the page lists replaced limits after the override ended")
	}
}
