package dashboard_test

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/internal/cause"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/testing/sitetest"
)

const (
	inputForm = "2006-01-02T15:04"
	perPage   = 50
)

// denyAt records a denied call of a key at a time.
func denyAt(s *sitetest.Site, name string, at time.Time, c records.Call) {
	c.Caller, c.Registered, c.Time = s.Keys.IDs[name], true, at
	s.Keys.Record(c)
}

func sampleDenial(limit string) records.Call {
	return records.Call{
		Cause: cause.Limit, Plan: "free", Limit: limit, Routes: []string{"search"}, Method: "GET",
		Path: "/orders/{id}", API: "abcdef1234", Stage: "prod",
		Network: netip.MustParsePrefix("192.0.2.0/24"), RetryAfter: 5 * time.Minute,
		Request: "c6af9ac6-7b61-11e6-9a41-93e8deadbeef",
	}
}

// A key's page names the limits of its latest denials and links to the log. The log,
// filtered by key and minute, lists only the denial of that minute.
func TestDenialsOfOneMinute(t *testing.T) {
	s := sitetest.New(t).Login()
	at := time.Now().UTC().Add(-3 * time.Hour).Truncate(time.Minute)
	denyAt(s, "acme", at.Add(12*time.Second), sampleDenial("10 per 10 s"))
	denyAt(s, "acme", at.Add(-10*time.Minute), sampleDenial("7 per day"))
	denyAt(s, "bolt", at.Add(13*time.Second), sampleDenial("3 per hour"))

	live := s.Refresh("/denials?live=5").Wants(t, http.StatusOK, "10 per 10 s", `data-live="5"`).Body
	if strings.Contains(live, "<form") {
		t.Error("a refresh contains the form")
	}
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "10 per 10 s", "7 per day", "/orders/{id}",
		`href="/denials?key={acme}"`)
	q := url.Values{"key": {s.Keys.IDs["acme"]}, "from": {at.Format(inputForm)},
		"to": {at.Add(time.Minute).Format(inputForm)}}
	got := s.Get("/denials?" + q.Encode())
	got.Wants(t, http.StatusOK, at.Add(12*time.Second).Format("15:04:05"), "10 per 10 s", "search",
		"GET /orders/{id}", "abcdef1234/prod", "192.0.2.0/24", "5 min")
	for _, other := range []string{"7 per day", "3 per hour", "192.0.2.77"} {
		if strings.Contains(got.Body, other) {
			t.Errorf("the list has %s, which the filter excludes", other)
		}
	}
	s.Get("/denials").Wants(t, http.StatusOK, "10 per 10 s", "7 per day", "3 per hour")
	s.Get("/denials?limit=3+per+hour").Wants(t, http.StatusOK, "3 per hour")
	s.Get("/denials?cause=ban").Wants(t, http.StatusOK, "No denials")
	secret := s.Keys.Secrets["acme"].Reveal()
	pasted := s.Get("/denials?key="+secret).Wants(t, http.StatusUnprocessableEntity,
		"you pasted a whole secret")
	if strings.Contains(pasted.Body, secret) {
		t.Error("the page repeats a pasted secret")
	}
	for _, key := range []string{"acme", "ACME"} {
		named := s.Get("/denials?key="+key).Wants(t, http.StatusOK, "7 per day",
			`value="{acme}"`, "/denials.csv?key={acme}")
		if strings.Contains(named.Body, "3 per hour") {
			t.Error("the denials of the key acme include one of bolt")
		}
	}
}

// The summary of known calls: 12 in 3 minutes by one limit, 5 of another key on another
// route by a second, 2 refused. Every value links to the filter by it, and keeps the key.
func TestSummaryOfDenials(t *testing.T) {
	s := sitetest.New(t).Login()
	at := time.Now().UTC().Add(-2 * time.Hour).Truncate(15 * time.Minute)
	for i := range 12 {
		denyAt(s, "acme", at.Add(time.Duration(i/4)*time.Minute+time.Duration(i)*time.Second),
			sampleDenial("10 per 10 s"))
	}
	other := sampleDenial("3 per hour each address")
	other.Method, other.Path, other.Routes = "POST", "/carts", []string{"carts"}
	for i := range 5 {
		denyAt(s, "bolt", at.Add(-time.Duration(i)*time.Hour), other)
	}
	for range 2 {
		denyAt(s, "bolt", at, records.Call{Cause: cause.Revoked, Method: "GET", Path: "/carts"})
	}

	got := s.Get("/denials").Wants(t, http.StatusOK, "17 calls denied and 2 refused",
		`<option value="3 per hour each address">3 per hour each address</option>`,
		`<option value="free">free</option>`)
	for link, cells := range map[string]string{
		"/denials?limit=10+per+10+s":             "10 per 10 s 12 71 %",
		"/denials?limit=3+per+hour+each+address": "3 per hour each address 5 29 %",
		"/denials?key={acme}":                    "acme 12 100 % of its calls",
		"/denials?key={bolt}":                    "bolt 7 100 % of its calls",
		"/denials?cause=revoked": "Denied 17 by a limit " +
			"Refused 2 for another cause Revoked key 2",
	} {
		if !strings.Contains(got.Body, `href="`+link+`"`) {
			t.Errorf("no value links to %s", link)
		}
		if !strings.Contains(sitetest.InWords(got.Body), cells) {
			t.Errorf("the summary lacks %q:\n%s", cells, sitetest.InWords(got.Body))
		}
	}
	ofAcme := s.Get("/denials?key={acme}&range=today&live=5").Wants(t, http.StatusOK,
		`aria-label="Remove Key: acme"`)
	if strings.Contains(ofAcme.Body, "POST /carts") {
		t.Error("the denials of acme include those of bolt")
	}
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "/denials?key={acme}&amp;limit=10+per+10+s")
	for query, want := range map[string]string{
		"?limit=10+per+10+s": "12 denied and 0 refused", "?plan=free": "17 denied and 0 refused",
		"?route=search": "12 denied and 0 refused", "?cause=revoked": "0 denied and 2 refused",
		"?key={bolt}": "5 denied and 2 refused", "?key={bolt}&cause=limit": "5 denied and 0 refused",
	} {
		s.Get("/denials"+query).Wants(t, http.StatusOK, want)
	}
	s.Get("/denials?range=1h").Wants(t, http.StatusOK, "No denials")
}

// 10 calls that passed and that limits in shadow would have denied, beside 3 denials. They
// are counted by limit, and not as denied.
func TestLimitsInShadowAreCounted(t *testing.T) {
	s := sitetest.New(t).Login()
	at := time.Now().UTC().Add(-20 * time.Minute).Truncate(time.Minute)
	for i := range 10 {
		c := records.Call{Caller: s.Keys.IDs["acme"], Registered: true, Cost: 1, Plan: "free",
			Time: at.Add(time.Duration(i) * time.Minute), Shadow: "5 per hour"}
		if i >= 6 {
			c.Shadow = "2 per hour"
		}
		s.Keys.Record(c)
	}
	for range 3 {
		denyAt(s, "bolt", at, sampleDenial("7 per day"))
	}
	words := sitetest.InWords(s.Get("/denials").Wants(t, http.StatusOK, "3 denied and 0 refused").Body)
	for _, want := range []string{"7 per day 3 100 %", "5 per hour 6 60 % 2 per hour 4 40 %"} {
		if !strings.Contains(words, want) {
			t.Errorf("the page lacks %q: %s", want, words)
		}
	}
	if tiles := sitetest.InWords(s.Get("/?range=1h").Body); !strings.Contains(tiles,
		"Denied 3 23 % Refused 0") || !strings.Contains(tiles, "In shadow 10") {
		t.Errorf("Overview does not have 3 denied calls, and 10 in shadow: %s", tiles)
	}
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "None in the last 24 hours", "would be denied in shadow")
}

// The calls of one caller, limit and minute are one row.
func TestDenialsOfAMinuteAreOneRow(t *testing.T) {
	s := sitetest.New(t).Login()
	at := time.Now().UTC().Add(-2 * time.Hour).Truncate(time.Minute)
	for i := range 9 {
		c := sampleDenial("10 per 10 s")
		c.RetryAfter = time.Duration(9-i) * time.Second
		denyAt(s, "acme", at.Add(time.Duration(i)*time.Second), c)
	}
	denyAt(s, "acme", at.Add(5*time.Second), sampleDenial("7 per day"))
	got := s.Get("/denials").Wants(t, http.StatusOK, `aria-label="9 calls: {acme}.`, "9 s")
	if rows := strings.Count(got.Body, `data-label="Cause"`); rows != 2 {
		t.Errorf("%d rows, want 2: one for each limit", rows)
	}
}

// An invalid filter gets an error that names its field.
func TestDenialFilterProblems(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.CreateKey("tern", "free")
	s.Keys.CreateKey("teal", "free")
	for query, want := range map[string]string{
		"key=a%20b":      "Key: no key has this name or id.",
		"key=t":          "Key: several names begin with this.",
		"cause=anger":    "Cause: must be one of",
		"from=yesterday": "From: must be a date and a time",
		"from=2026-01-02T10:00&to=2026-01-01T10:00": "To: must be after from",
		"range=7d&to=2020-01-01T10:00":              "To: must be after from, and within the last 50 hours",
		"limit=" + strings.Repeat("x", 201):         "at most 200",
	} {
		s.Get("/denials?"+query).Wants(t, http.StatusUnprocessableEntity, want)
	}
	s.Get("/denials?after=x").Wants(t, http.StatusBadRequest)
}

// The first page is full and has a next one. The CSV has every row, without formulas.
func TestDenialPagesAndCSV(t *testing.T) {
	s := sitetest.New(t).Login()
	now := time.Now().UTC().Truncate(time.Second)
	for i := range perPage + 10 {
		denyAt(s, "acme", now.Add(-time.Duration(i)*time.Minute), sampleDenial(fmt.Sprintf("=%d+1", i)))
	}
	first := s.Get("/denials")
	first.Wants(t, http.StatusOK, "Next page")
	if n := strings.Count(first.Body, `data-label="Cause"`); n != perPage {
		t.Errorf("%d rows on the first page, want %d", n, perPage)
	}
	rows, err := csv.NewReader(strings.NewReader(s.Get("/denials.csv").Wants(t,
		http.StatusOK).Body)).ReadAll()
	if err != nil || len(rows) != perPage+11 {
		t.Fatalf("%d rows, %v, want %d", len(rows), err, perPage+11)
	}
	limit := slices.Index(rows[0], "limit")
	for _, row := range rows[1:] {
		if strings.HasPrefix(row[limit], "=") {
			t.Errorf("the cell %q is a formula", row[limit])
		}
	}
}

// Overview and the denials page count refused calls. A key's page counts only those that had
// a secret of the key.
func TestRefusedCredentials(t *testing.T) {
	s := sitetest.New(t).Login()
	now := time.Now()
	refuse := func(caller string, c cause.Cause) {
		s.Keys.Record(records.Call{Caller: caller, Registered: caller != "", Time: now, Cause: c})
	}
	for range 3 {
		refuse("", cause.Unknown)
	}
	refuse(s.Keys.IDs["acme"], cause.OldSecret)
	s.Get("/").Wants(t, http.StatusOK, "Refused", "3 unknown key, 1 previous secret", `href="/denials`)
	s.Get("/denials").Wants(t, http.StatusOK, "0 denied and 4 refused", "Unknown key", "Previous secret")
	got := s.Get("/keys/{acme}").Wants(t, http.StatusOK, "0 denied and 1 refused", "by previous secret")
	if strings.Contains(got.Body, "Unknown key") {
		t.Error("the key's page counts credentials of others")
	}
}

// The filters take the longest names, whatever their characters.
func TestFiltersTakeLongNames(t *testing.T) {
	s := sitetest.New(t).Login()
	long := strings.Repeat("😀", policy.MaxNameLen)
	s.Keys.Plan(long, sitetest.Per(5, time.Minute))
	s.Keys.UpdateKey("acme", func(k *policy.Key) { k.Name, k.Plan = long, long })
	name := url.QueryEscape(long)
	for _, path := range []string{
		"/audit?subject=", "/audit.csv?subject=", "/denials?key=", "/denials?plan=", "/denials?route=",
		"/denials.csv?plan=",
	} {
		s.Get(path+name).Wants(t, http.StatusOK)
	}
	s.Get("/audit?subject="+name).Wants(t, http.StatusOK, "{acme}")
}
