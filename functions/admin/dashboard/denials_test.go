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
	"tidegate/internal/testing/sitetest"
	"tidegate/internal/usage"
	"tidegate/internal/usage/denylog"
)

const (
	inputForm = "2006-01-02T15:04"
	perPage   = 50
)

// denyAt records a denied call of a key at a time.
func denyAt(s *sitetest.Site, name string, at time.Time, d denylog.Denial) {
	s.Keys.Record(usage.Outcome{Subject: s.Keys.IDs[name], Registered: true, Verdict: usage.Denied, Cost: 1,
		Time: at, Denial: &d})
}

func sampleDenial(limit string) denylog.Denial {
	return denylog.Denial{
		Cause: cause.Limit, Plan: "free", Limit: limit, Rule: "search", Method: "GET", Path: "/orders/{id}",
		API: "abcdef1234", Stage: "prod", Network: denylog.NetworkOf(netip.MustParseAddr("192.0.2.77")),
		RetryAfter: 5 * time.Minute, Request: "c6af9ac6-7b61-11e6-9a41-93e8deadbeef",
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
		"GET /orders/{id}", "abcdef1234/prod", "192.0.2.0/24", "5 min",
		"c6af9ac6-7b61-11e6-9a41-93e8deadbeef")
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
// route by a second. Every value links to the filter by it, and keeps the key.
func TestSummaryOfDenials(t *testing.T) {
	s := sitetest.New(t).Login()
	at := time.Now().UTC().Add(-2 * time.Hour).Truncate(15 * time.Minute)
	for i := range 12 {
		denyAt(s, "acme", at.Add(time.Duration(i/4)*time.Minute+time.Duration(i)*time.Second),
			sampleDenial("10 per 10 s"))
	}
	other := sampleDenial("3 per hour each address")
	other.Method, other.Path, other.Rule = "POST", "/carts", "carts"
	for i := range 5 {
		denyAt(s, "bolt", at.Add(-time.Duration(i)*time.Hour), other)
	}

	got := s.Get("/denials").Wants(t, http.StatusOK, "17 denied, at most 13 in 15\u00a0min.",
		`<option value="3 per hour each address">3 per hour each address</option>`, `<option value="POST /carts">`,
		`<option value="free">free</option>`)
	for link, cells := range map[string]string{
		"/denials?limit=10+per+10+s":             "10 per 10 s 12 70 %",
		"/denials?limit=3+per+hour+each+address": "3 per hour each address 5 29 %",
		"/denials?key={acme}":                    "acme 12 70 %",
		"/denials?key={bolt}":                    "bolt 5 29 %",
		"/denials?call=POST+%2Fcarts":            "POST /carts 5 29 %",
		"/denials?call=GET+%2Forders%2F%7Bid%7D": "GET /orders/{id} 12 70 %",
	} {
		if !strings.Contains(got.Body, `href="`+link+`"`) {
			t.Errorf("no value links to %s", link)
		}
		if !strings.Contains(sitetest.InWords(got.Body), cells) {
			t.Errorf("the summary lacks %q", cells)
		}
	}
	ofAcme := s.Get("/denials?key={acme}&range=today&live=5").Wants(t, http.StatusOK,
		`aria-label="Remove Key: acme"`)
	if strings.Contains(ofAcme.Body, "POST /carts") {
		t.Error("the denials of acme include those of bolt")
	}
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "/denials?key={acme}&amp;limit=10+per+10+s")
	s.Get("/denials?call=POST+/carts&plan=free").Wants(t, http.StatusOK, "5 denied",
		`aria-label="Remove Plan: free"`, `href="/denials?call=POST+%2Fcarts"`)
	s.Get("/denials?range=1h").Wants(t, http.StatusOK, "No denials")
}

// 10 calls that passed and that limits in shadow would have denied, beside 3 denials.
// Each list has only its own calls, with
// key, limit and time, and no tile counts the others as denied.
func TestDenialsOfLimitsOnTrial(t *testing.T) {
	s := sitetest.New(t).Login()
	at := time.Now().UTC().Add(-20 * time.Minute).Truncate(time.Minute)
	for i := range 10 {
		d := sampleDenial("5 per hour")
		o := usage.Outcome{Subject: s.Keys.IDs["acme"], Registered: true, Cost: 1,
			Time: at.Add(time.Duration(i) * time.Minute), Verdict: usage.ShadowDenied}
		d.Cause = cause.Shadow
		if i >= 6 {
			d.Limit, d.RetryAfter = "2 per hour", 0 // the call costs more
		}
		o.Trials = []denylog.Denial{d}
		s.Keys.Record(o)
	}
	for range 3 {
		denyAt(s, "bolt", at, sampleDenial("7 per day"))
	}
	for _, c := range []struct{ path, has, hasNot string }{
		{"/denials", "3 denied, at most 3 in", "5 per hour"},
		{"/denials?cause=would-block", "10 would be denied, at most", "7 per day"},
		{"/denials?cause=shadow&key=acme", "10 would be denied, at most", "7 per day"},
	} {
		body := sitetest.InWords(s.Get(c.path).Wants(t, http.StatusOK).Body)
		if !strings.Contains(body, c.has) || strings.Contains(body, c.hasNot) {
			t.Errorf("%s: want %q and no %q", c.path, c.has, c.hasNot)
		}
	}
	s.Get("/denials?cause=would-block").Wants(t, http.StatusOK, "acme", "5 per hour", "2 per hour",
		at.Format("15:04:05"), "These calls passed.", "Would be denied by",
		`aria-label="Remove Cause: Would block"`)
	s.Get("/denials.csv?cause=shadow").Wants(t, http.StatusOK, ",shadow,2 per hour,", ",never,")
	s.Get("/denials?cause=shadow").Wants(t, http.StatusOK, "never: the limit is below the call&#39;s cost")
	if tiles := sitetest.InWords(s.Get("/?range=1h").Body); !strings.Contains(tiles, "Blocked 3 23 %") ||
		!strings.Contains(tiles, "Would block 10 by limits in shadow") {
		t.Error("the tiles of Overview do not have 3 blocked calls and 10 that would be")
	}
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "None in the last 24 hours",
		`href="/denials?cause=would-block&amp;key={acme}"`)
	if strings.Contains(s.Get("/keys/{bolt}").Body, "would-block") {
		t.Error("the page of a key without such calls links to them")
	}
	s.Get("/denials?range=1h&cause=would-block&key=bolt").Wants(t, http.StatusOK, "No limit would block")
}

// Entries of one kind and minute are one row, which opens to the requests that are
// logged.
func TestDenialsOfAMinuteAreFolded(t *testing.T) {
	s := sitetest.New(t).Login()
	at := time.Now().UTC().Add(-2 * time.Hour).Truncate(time.Minute)
	for i := range 9 {
		d := sampleDenial("10 per 10 s")
		d.Request = fmt.Sprintf("request-%d", i)
		d.RetryAfter = time.Duration(9-i) * time.Second
		denyAt(s, "acme", at.Add(time.Duration(i)*time.Second), d)
	}
	denyAt(s, "acme", at.Add(5*time.Second), sampleDenial("7 per day"))
	got := s.Get("/denials").Wants(t, http.StatusOK, "9 calls in this minute", "request-0", "request-2",
		"and 5 more", "9.0 s")
	if rows := strings.Count(got.Body, `data-label="Denied by"`); rows != 2 {
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
		"cause=anger":    "Cause: choose one",
		"from=yesterday": "From and to: enter",
		"from=2026-01-02T10:00&to=2026-01-01T10:00": "From: must be before to",
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
		d := sampleDenial(fmt.Sprintf("=%d+1", i))
		if i >= 10 {
			d.Limit = ""
		}
		denyAt(s, "acme", now.Add(-time.Duration(i)*time.Minute), d)
	}
	first := s.Get("/denials")
	first.Wants(t, http.StatusOK, "Next page")
	if n := strings.Count(first.Body, `data-label="Denied by"`); n != perPage {
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

// Overview and the denials page count refused credentials. A key's page counts only those
// that had a secret of the key.
func TestRefusedCredentials(t *testing.T) {
	s := sitetest.New(t).Login()
	now := time.Now()
	refuse := func(subject string, c cause.Cause) {
		s.Keys.Record(usage.Outcome{Subject: subject, Registered: subject != "", Time: now,
			Denial: &denylog.Denial{Cause: c}})
	}
	for range 3 {
		refuse("", cause.Unknown)
	}
	refuse(s.Keys.IDs["acme"], cause.OldSecret)
	s.Get("/").Wants(t, http.StatusOK, "Refused", "3 unknown key, 1 previous secret",
		`href="/denials`)
	s.Get("/denials").Wants(t, http.StatusOK, "Refused credentials", "Unknown key",
		"Previous secret")
	got := s.Get("/keys/{acme}").Wants(t, http.StatusOK, "Previous secret")
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
