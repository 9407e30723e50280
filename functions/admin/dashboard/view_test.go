package dashboard_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tidegate/internal/testing/sitetest"
)

// The period is chosen in the address, of Overview and of the pages of keys and callers.
// Overview leads to a key's page with the same one.
func TestRange(t *testing.T) {
	s := sitetest.New(t).Login()
	now := time.Now()
	s.Keys.Called("acme", now.Add(-3*time.Hour), 40, 2)
	s.Keys.Called("acme", now.Add(-9*24*time.Hour), 500, 60)
	for _, c := range []struct{ query, heading, summary string }{
		{"range=24h", "Last 24 hours", "40 allowed, 2 denied and 0 refused"},
		{"range=7d", "Last 7 days", "40 allowed, 2 denied and 0 refused"},
		{"range=30d", "Last 30 days", "540 allowed, 62 denied and 0 refused"},
		{period(now.Add(-4*time.Hour), now.Add(-2*time.Hour)), "Own range",
			"40 allowed, 2 denied and 0 refused"},
		{period(now.Add(-10*24*time.Hour), now.Add(-8*24*time.Hour)), "Own range",
			"500 allowed, 60 denied and 0 refused"},
	} {
		chosen := `<summary class="button">` + c.heading + `</summary>`
		body := s.Get("/?"+c.query).Wants(t, http.StatusOK, chosen, c.summary).Body
		if name, _, _ := strings.Cut(c.query, "="); !strings.Contains(body, `href="/keys/{acme}?`+name) {
			t.Errorf("%s: the page does not lead to the key in the same period", c.query)
		}
		s.Get("/keys/{acme}?"+c.query).Wants(t, http.StatusOK, chosen, c.summary)
		s.Get("/callers/nobody?"+c.query).Wants(t, http.StatusOK, chosen, "No calls.")
		s.Get("/keys/{acme}").Wants(t, http.StatusOK, `<summary class="button">Last hour</summary>`)
	}
}

// period returns the query parameters of a custom range.
func period(from, to time.Time) string {
	return url.Values{"from": {from.UTC().Format("2006-01-02T15:04")},
		"to": {to.UTC().Format(time.RFC3339)}}.Encode()
}

// An invalid custom range gets an error, and the page shows the last hour. An end in the
// far future is no error.
func TestInvalidCustomRange(t *testing.T) {
	s := sitetest.New(t).Login()
	now := time.Now()
	for query, problem := range map[string]string{
		"from=yesterday&to=2026-01-01T00:00":                         "From needs a date and a time.",
		"from=2026-01-01T00:00":                                      "To needs a date and a time.",
		period(now, now.Add(-time.Hour)):                             "From must be before To.",
		period(now.Add(-40*24*time.Hour), now.Add(-39*24*time.Hour)): "From must be within the last 30 days.",
		period(now.Add(2*time.Hour), now.Add(3*time.Hour)):           "From must be in the past.",
	} {
		for _, path := range []string{"/", "/keys/{acme}", "/callers/nobody"} {
			s.Get(path+"?"+query).Wants(t, http.StatusOK, problem, `<summary class="button">Last hour</summary>`)
		}
	}
	s.Get("/?"+period(now.Add(-time.Hour), now.AddDate(5000, 0, 0))).Wants(t, http.StatusOK, "Own range")
}

// The last five minutes are the last five whole minutes, with bars of one.
func TestShortestBars(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Called("acme", time.Now().Add(-90*time.Second), 30, 12)
	s.Keys.Called("acme", time.Now().Add(-5*time.Minute), 7, 0)
	for _, path := range []string{"/keys/{acme}?range=5m", "/?range=5m"} {
		s.Get(path).Wants(t, http.StatusOK, `<summary class="button">Last 5 minutes</summary>`,
			"30 allowed, 12 denied and 0 refused, up to 42 calls in 1", "&#34;step&#34;:60,", "Counted until")
	}
}

// Today and yesterday are days in UTC: a list or chart of one lacks the calls of the other.
func TestDays(t *testing.T) {
	s := sitetest.New(t).Login()
	midnight := time.Now().UTC().Truncate(24 * time.Hour)
	s.Keys.Called("acme", midnight.Add(-time.Hour), 3, 0)
	s.Keys.Called("acme", midnight.Add(time.Second), 4, 0)
	for name, want := range map[string]string{"today": "4 allowed", "yesterday": "3 allowed"} {
		s.Get("/?range="+name).Wants(t, http.StatusOK, want, `aria-current="true">`+
			strings.ToUpper(name[:1])+name[1:]+", UTC")
	}
	s.Get("/audit?range=today").Wants(t, http.StatusOK, "key.create", `aria-current="true">Today, UTC`)
	s.Get("/audit?range=yesterday").Wants(t, http.StatusOK, "No changes found")
}

// Denials and the audit choose their time in a menu as Overview does. It keeps the filter,
// and a search keeps the time.
func TestRangeOfLists(t *testing.T) {
	s := sitetest.New(t).Login()
	own := url.Values{"from": {time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)}}.Encode()
	for path, texts := range map[string][]string{
		"/denials":                             {`<summary class="button">Last 24 hours</summary>`},
		"/denials?range=1h&plan=free":          {`>Last hour</summary>`, `href="/denials?plan=free&amp;range=today"`},
		"/audit":                               {`>All time</summary>`},
		"/audit?action=key.&range=7d":          {`>Last 7 days</summary>`, `href="/audit?action=key."`},
		"/denials?plan=free&" + own:            {`>Own range</summary>`},
		"/audit?action=key.&by=test&" + own:    {`>Own range</summary>`},
		"/denials?range=yesterday&cause=limit": {`>Yesterday, UTC</summary>`},
	} {
		body := s.Get(path).Wants(t, http.StatusOK, texts...).Body
		at, _ := url.Parse(path)
		_, form, _ := strings.Cut(body, `<form class="own"`)
		form, rest, _ := strings.Cut(form, "</form>")
		for name, values := range at.Query() {
			if name == "range" || name == "from" {
				_, rest, _ = strings.Cut(rest, "data-filters")
				rest, _, _ = strings.Cut(rest, "</form>")
				if !strings.Contains(rest, `type="hidden" name="`+name+`"`) {
					t.Errorf("%s: a search forgets %s", path, name)
				}
			} else if !strings.Contains(form, `type="hidden" name="`+name+`" value="`+values[0]+`"`) {
				t.Errorf("%s: another time forgets %s", path, name)
			}
		}
	}
}
