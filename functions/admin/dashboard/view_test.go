package dashboard_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/server/sitetest"
)

// The overview, a key and a caller without one show the same time, which goes from page
// to page.
func TestRangeIsKept(t *testing.T) {
	s := sitetest.New(t).Login()
	now := time.Now()
	s.Keys.Called("acme", now.Add(-3*time.Hour), 40, 2)
	s.Keys.Called("acme", now.Add(-9*24*time.Hour), 500, 60)
	pages := []string{"/keys/{acme}", "/", "/callers/nobody"}
	for _, path := range pages {
		s.Get(path).Wants(t, http.StatusOK, "Calls, last hour", "No calls.")
	}
	for _, c := range []struct{ query, heading, summary string }{
		{"range=24h", "last 24 hours", "40 allowed and 2 blocked"},
		{"range=7d", "last 7 days", "40 allowed and 2 blocked"},
		{"range=30d", "last 30 days", "540 allowed and 62 blocked"},
		{chosen(now.Add(-4*time.Hour), now.Add(-2*time.Hour)), "chosen time", "40 allowed and 2 blocked"},
		{chosen(now.Add(-10*24*time.Hour), now.Add(-8*24*time.Hour)), "chosen time",
			"500 allowed and 60 blocked"},
	} {
		s.Get("/?"+c.query).Wants(t, http.StatusOK, "Calls, "+c.heading, c.summary)
		s.Get("/keys").Wants(t, http.StatusOK)
		s.Get("/keys/{acme}").Wants(t, http.StatusOK, "Calls, "+c.heading, c.summary)
		s.Get("/callers/nobody").Wants(t, http.StatusOK, "Calls, "+c.heading, "No calls.")
	}
}

func chosen(from, to time.Time) string {
	return url.Values{"from": {from.UTC().Format("2006-01-02T15:04")},
		"to": {to.UTC().Format(time.RFC3339)}}.Encode()
}

// A time that cannot be shown is named next to its fields. The page shows the last hour.
func TestChosenTimesThatCannotBeShown(t *testing.T) {
	s := sitetest.New(t).Login()
	now := time.Now()
	for query, problem := range map[string]string{
		"from=yesterday&to=2026-01-01T00:00":                         "From needs a date and a time.",
		"from=2026-01-01T00:00":                                      "To needs a date and a time.",
		chosen(now, now.Add(-time.Hour)):                             "From must be before To.",
		chosen(now.Add(-40*24*time.Hour), now.Add(-39*24*time.Hour)): "From must be within the last 30 days.",
		chosen(now.Add(2*time.Hour), now.Add(3*time.Hour)):           "From must be in the past.",
	} {
		for _, path := range []string{"/", "/keys/{acme}", "/callers/nobody"} {
			s.Get(path+"?"+query).Wants(t, http.StatusOK, problem, "Calls, last hour")
		}
	}
	s.Get("/?"+chosen(now.Add(-time.Hour), now.AddDate(5000, 0, 0))).Wants(t, http.StatusOK, "chosen time")
}

// Five minutes of a key have bars of 5 s, in the second of each call where it is known.
func TestFineBars(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Called("acme", time.Now().Add(-90*time.Second), 30, 12)
	got := s.Get("/keys/{acme}?range=5m").Wants(t, http.StatusOK, "Calls, last 5 minutes",
		"30 allowed and 12 blocked, at most 42 calls in 5", "&#34;step&#34;:5,")
	if strings.Contains(got.Body, "spread") {
		t.Error("the calls are spread, though their second is known")
	}
	s.Get("/?range=5m").Wants(t, http.StatusOK, "counted by the minute", "&#34;step&#34;:60,")
}
