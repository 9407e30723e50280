package dashboard_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"tidegate/internal/testing/sitetest"
	"tidegate/internal/usage"
)

var rankingsInPage = regexp.MustCompile(`(?s)<section aria-labelledby="([a-z-]+)">(.*?)</section>`)

// ranked returns the rows of each ranking on Overview, in words, by its id.
func ranked(page string) map[string]string {
	rows := map[string]string{}
	for _, m := range rankingsInPage.FindAllStringSubmatch(page, -1) {
		_, body, _ := strings.Cut(m[2], "<tbody>")
		rows[m[1]] = sitetest.InWords(body)
	}
	return rows
}

// Every tile and ranking counts the calls of the chosen range alone, and says what it
// shows. Busiest orders by all calls: bolt has more than acme, but fewer allowed ones.
func TestOverviewFigures(t *testing.T) {
	s := sitetest.New(t).Login()
	now := time.Now()
	s.Keys.Called("acme", now.Add(-2*time.Minute), 10, 1)
	s.Keys.Called("bolt", now.Add(-30*time.Minute), 3, 20)
	s.Keys.Called("acme", now.Add(-3*time.Hour), 0, 50)
	s.Keys.UnregisteredCalls("visitor", now.Add(-30*time.Hour), 100, 0)
	would := usage.Outcome{Subject: s.Keys.IDs["bolt"], Registered: true, Cost: 1,
		Time: now.Add(-2 * time.Hour)}
	for _, v := range []usage.Verdict{usage.ShadowDenied, usage.ShadowDenied, usage.ShadowDenied, 0} {
		would.Verdict = v
		s.Keys.Record(would)
	}
	const nothing = "Would block 0 by limits in shadow"
	const three = "Would block 3 by limits in shadow"
	const today, bolt = "acme free 61 51 83 % bolt free 27 20 74 %", "bolt free 23 20 86 %"
	custom := url.Values{"from": {now.Add(-40 * time.Minute).UTC().Format(time.RFC3339)},
		"to": {now.Add(-20 * time.Minute).UTC().Format(time.RFC3339)}}
	for _, c := range []struct{ view, tiles, active, would, mostBlocked, wouldBlock, busiest string }{
		{"range=5m", "Requests 11 Blocked 1 9 %", "1 last 5 minutes", nothing, "acme free 11 1 9 %", "",
			"acme free 11 1 9 %"},
		{"range=1h", "Requests 34 Blocked 21 61 %", "2 last hour", nothing, bolt + " acme free 11 1 9 %", "",
			bolt + " acme free 11 1 9 %"},
		{"range=24h", "Requests 88 Blocked 71 80 %", "2 last 24 hours", three, today, "bolt free 27 3 11 %",
			today},
		{"range=7d", "Requests 188 Blocked 71 37 %", "2 last 24 hours, whatever the range", three, today,
			"bolt free 27 3 11 %", "visitor no key 100 0 0 % " + today},
		{custom.Encode(), "Requests 23 Blocked 20 86 %", "2 last 24 hours, whatever the range", nothing, bolt,
			"", bolt},
	} {
		page := s.Get("/?"+c.view).Wants(t, http.StatusOK).Body
		tiles := c.tiles + " Refused 0 credentials Active callers " + c.active + " " + c.would + " Valkey"
		if words := sitetest.InWords(page); !strings.Contains(words, tiles) {
			t.Errorf("%s: the tiles are not %q:\n%s", c.view, tiles, words)
		}
		got := ranked(page)
		for id, want := range map[string]string{"most-blocked": c.mostBlocked, "would-block": c.wouldBlock,
			"busiest": c.busiest} {
			if got[id] != want {
				t.Errorf("%s: %s has %q, want %q", c.view, id, got[id], want)
			}
			linked := strings.Contains(page, `href="#`+id+`"`) || strings.Contains(page, "?cause="+id)
			if id != "most-blocked" && linked != (want != "") {
				t.Errorf("%s: a tile links to %s: %t", c.view, id, linked)
			}
		}
	}
}

// The lists of keys are ordered by what they show: the calls of the last hour.
func TestKeysOrderedByCalls(t *testing.T) {
	s := sitetest.New(t).Login()
	now := time.Now()
	s.Keys.Called("acme", now.Add(-10*time.Minute), 10, 1)
	s.Keys.Called("bolt", now.Add(-10*time.Minute), 3, 20)
	s.Keys.Called("acme", now.Add(-2*time.Hour), 100, 100) // not in the last hour
	for order, want := range map[string]string{"busiest": "23 20", "blocked": "23 20"} {
		words := sitetest.InWords(s.Get("/keys?order="+order).Wants(t, http.StatusOK).Body)
		bolt, acme := strings.Index(words, want), strings.Index(words, "11 1 ")
		if bolt < 0 || acme < bolt {
			t.Errorf("%s: bolt with 23 calls is not before acme with 11: %s", order, words)
		}
	}
}

// Overview says when calls were decided without Valkey. While Valkey does not answer, the
// page of the error has the time of its last answer.
func TestOutage(t *testing.T) {
	s := sitetest.New(t).Login()
	at := time.Now().UTC().Add(-10 * time.Minute).Truncate(time.Minute)
	s.Keys.Record(usage.Outcome{Subject: s.Keys.IDs["acme"], Registered: true, Cost: 1, Time: at,
		Verdict: usage.Degraded})
	words := sitetest.InWords(s.Get("/?range=1h").Wants(t, http.StatusOK).Body)
	const form = "2006-01-02 15:04:05 UTC"
	if want := "Valkey was unavailable calls decided without it: 1, between " + at.Format(form) + " and " +
		at.Add(time.Minute).Format(form); !strings.Contains(words, want) {
		t.Errorf("Overview lacks %q: %s", want, words)
	}
	s.Keys.Fail("ERR gone")
	s.Get("/").Wants(t, http.StatusServiceUnavailable, "Valkey is unavailable", "Last answer: 20",
		"Until it is back, each plan&#39;s outage setting applies.")
}
