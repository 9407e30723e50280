package dashboard_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"tidegate/internal/cause"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/testing/sitetest"
)

var panelsInPage = regexp.MustCompile(
	`(?s)<section class="panel" aria-labelledby="([a-z-]+)">(.*?)</section>`,
)

// panels returns the rows of each panel of Overview, in words, by its id.
func panels(page string) map[string]string {
	rows := map[string]string{}
	for _, m := range panelsInPage.FindAllStringSubmatch(page, -1) {
		_, body, _ := strings.Cut(m[2], "<tbody>")
		rows[m[1]] = sitetest.InWords(body)
	}
	return rows
}

// Every tile and panel counts the calls of the chosen range alone. Who has denied calls
// needs attention, and is not among the busiest.
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
	const limit = " denied 10 per 10 seconds "
	const acme, bolt = "acme free" + limit + "11 1 denied Ban", "bolt free" + limit + "23 20 denied Ban"
	const today = "acme free" + limit + "61 51 denied Ban bolt free" + limit + "27 20 denied Ban"
	custom := url.Values{"from": {now.Add(-40 * time.Minute).UTC().Format(time.RFC3339)},
		"to": {now.Add(-20 * time.Minute).UTC().Format(time.RFC3339)}}
	for _, c := range []struct{ view, lead, tiles, shadow, attention, busiest string }{
		{"range=5m", "1 of 11 calls denied in the last 5 minutes. Nearly all of them are of acme",
			"Calls 11 Denied 1 9 %", "0", acme, ""},
		{"range=1h", "21 of 34 calls denied in the last hour. Nearly all of them are of bolt",
			"Calls 34 Denied 21 62 %", "0", bolt + " " + acme, ""},
		{"range=24h", "71 of 88 calls denied in the last 24 hours. 72 % of them are of acme",
			"Calls 88 Denied 71 81 %", "3", today, ""},
		{"range=7d", "71 of 188 calls denied in the last 7 days. 72 % of them are of acme",
			"Calls 188 Denied 71 38 %", "3", today, "visitor no key 100"},
		{custom.Encode(), "20 of 23 calls denied in this range. Nearly all of them are of bolt",
			"Calls 23 Denied 20 87 %", "0", bolt, ""},
	} {
		page := s.Get("/?"+c.view).Wants(t, http.StatusOK).Body
		words := sitetest.InWords(page)
		words = regexp.MustCompile(`Calls (\d+) since [-0-9: ]+UTC`).ReplaceAllString(words, "Calls $1")
		if !strings.Contains(words, c.lead+" , over 10 per 10 seconds") ||
			!strings.Contains(words, c.tiles+" Refused 0 Callers ") ||
			!strings.Contains(words, "In shadow "+c.shadow+" would be denied") {
			t.Errorf("%s: want %q and the tiles %q, %s in shadow:\n%s", c.view, c.lead, c.tiles, c.shadow,
				words)
		}
		got := panels(page)
		if got["attention"] != c.attention || !strings.HasPrefix(got["busiest"], c.busiest) ||
			strings.Contains(got["busiest"], "acme") {
			t.Errorf("%s: got panels %q, want attention %q, busiest %q", c.view, got, c.attention, c.busiest)
		}
	}
}

// A caller that is denied now, banned or refused needs attention once, with the reason that
// decides. The navigation counts those that a limit denies now, as the list of keys does.
func TestOverviewAttention(t *testing.T) {
	s := sitetest.New(t).Login()
	now := time.Now()
	s.Keys.CreateNamed("free", "coal", "dory")
	s.Keys.Use("acme", 10)
	denyAt(s, "acme", now, sampleDenial("10 per 10 seconds"))
	denyAt(s, "bolt", now, sampleDenial("10 per 10 seconds"))
	s.Keys.UpdateKey("bolt", func(k *policy.Key) { k.Banned = now.Add(time.Hour) })
	s.Keys.Record(records.Call{Caller: s.Keys.IDs["coal"], Registered: true, Cause: cause.Revoked, Time: now})
	s.Keys.Use("dory", 9)
	page := s.Get("/?range=1h").Wants(t, http.StatusOK).Body
	got := panels(page)["attention"]
	for _, want := range []string{"acme free denied now 10 per 10 seconds, next call in ", "bolt free " +
		"banned until ",
		"coal free refused revoked key 1 1 refused"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("the panel has %q %d times, want once: %s", want, strings.Count(got, want), got)
		}
	}
	if listed := strings.Count(s.Get("/keys?state=blocked").Body, `id="key-`); !strings.Contains(page,
		fmt.Sprintf("data-denied>%d now<", listed)) || listed == 0 {
		t.Errorf("the list has %d keys that are denied now, and the navigation says otherwise", listed)
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
	if want := "Valkey was unavailable between " + at.Format(form) + " and " +
		at.Add(time.Minute).Format(form) + ". Calls decided without it: at least " +
		"1."; !strings.Contains(words, want) {
		t.Errorf("Overview lacks %q: %s", want, words)
	}
	if want := "Calls at least 1 "; !strings.Contains(words, want) || !strings.Contains(words,
		"may be missing") {
		t.Errorf("Overview does not say that calls of the outage may be missing: %s", words)
	}
	s.Keys.Fail("ERR gone")
	s.Get("/").Wants(t, http.StatusServiceUnavailable, "Valkey is unavailable", "Last answer: 20",
		"Until it is back, on free: calls are denied.", `href="/keys"`, "data-retry")
}
