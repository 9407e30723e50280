package dashboard_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"tidegate/internal/records"
	"tidegate/internal/testing/sitetest"
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
	would := records.Call{Caller: s.Keys.IDs["bolt"], Registered: true, Cost: 1,
		Time: now.Add(-2 * time.Hour)}
	for _, would.Shadow = range []string{"3 per day", "3 per day", "3 per day", ""} {
		s.Keys.Record(would)
	}
	const acme, bolt = "acme free 11 1 9 % 0", "bolt free 23 20 87 % 0"
	const today = "acme free 61 51 84 % 0 0 bolt free 27 20 74 % 0 3"
	custom := url.Values{"from": {now.Add(-40 * time.Minute).UTC().Format(time.RFC3339)},
		"to": {now.Add(-20 * time.Minute).UTC().Format(time.RFC3339)}}
	for _, c := range []struct{ view, tiles, shadow, mostDenied, busiest string }{
		{"range=5m", "Calls 11 Denied 1 9 %, by a limit", "0", acme, acme},
		{"range=1h", "Calls 34 Denied 21 62 %, by a limit", "0", bolt + " " + acme, bolt + " " + acme},
		{"range=24h", "Calls 88 Denied 71 81 %, by a limit", "3", today, today},
		{"range=7d", "Calls 188 Denied 71 38 %, by a limit", "3", today,
			"visitor no key 100 0 0 % 0 0 " + today},
		{custom.Encode(), "Calls 23 Denied 20 87 %, by a limit", "0", bolt, bolt},
	} {
		page := s.Get("/?"+c.view).Wants(t, http.StatusOK).Body
		words := sitetest.InWords(page)
		words = regexp.MustCompile(`Calls (\d+) since [-0-9: ]+UTC`).ReplaceAllString(words, "Calls $1")
		if !strings.Contains(words, c.tiles+" Refused 0 for another cause Active callers ") ||
			!strings.Contains(words, "In shadow "+c.shadow+" allowed, would be denied Valkey") {
			t.Errorf("%s: the tiles are not %q, %s in shadow:\n%s", c.view, c.tiles, c.shadow, words)
		}
		got := ranked(page)
		if got["most-denied"] != c.mostDenied || got["busiest"] != c.busiest {
			t.Errorf("%s: got rankings %q, want %q and %q", c.view, got, c.mostDenied, c.busiest)
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
	for order, want := range map[string]string{"busiest": "23 20", "denied": "23 20"} {
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
	s.Keys.Record(records.Call{Caller: s.Keys.IDs["acme"], Registered: true, Cost: 1, Time: at,
		Degraded: true})
	words := sitetest.InWords(s.Get("/?range=1h").Wants(t, http.StatusOK).Body)
	const form = "2006-01-02 15:04:05 UTC"
	if want := "Valkey was unavailable calls decided without it: at least 1, between " + at.Format(form) +
		" and " +
		at.Add(time.Minute).Format(form); !strings.Contains(words, want) {
		t.Errorf("Overview lacks %q: %s", want, words)
	}
	if want := "Calls at least 1 "; !strings.Contains(words, want) || !strings.Contains(words,
		"may be missing") {
		t.Errorf("Overview does not say that calls of the outage may be missing: %s", words)
	}
	s.Keys.Fail("ERR gone")
	s.Get("/").Wants(t, http.StatusServiceUnavailable, "Valkey is unavailable", "Last answer: 20",
		"Until it is back, each plan&#39;s outage setting applies.")
}
