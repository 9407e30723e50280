package dashboard_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"tidegate/internal/policy"
	"tidegate/internal/testing/sitetest"
)

var countingSince = regexp.MustCompile(`counting since\s*<time[^>]*datetime="([^"]+)"`)

// A limit says since when it counts: since its first call, if that is no window ago.
func TestCountingSince(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.OverrideKey("acme", sitetest.Per(50, 24*time.Hour), sitetest.Per(50, time.Minute))
	if page := s.Get("/keys/{acme}").Wants(t, http.StatusOK); strings.Contains(page.Body, "counting since") {
		t.Error("an unused limit counts since a time")
	}
	before := time.Now().UTC()
	s.Keys.Use("acme", 3)
	page := s.Get("/keys/{acme}").Wants(t, http.StatusOK)
	at := countingSince.FindAllStringSubmatch(page.Body, -1)
	if len(at) != 1 {
		t.Fatalf("got %q, want the time of the limit of a day alone", at)
	}
	if since, err := time.Parse(time.RFC3339, at[0][1]); err != nil ||
		since.Before(before.Truncate(time.Second)) || since.After(time.Now()) {
		t.Errorf("got %v, %v, want the first call", since, err)
	}
}

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
