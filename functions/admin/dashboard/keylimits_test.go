package dashboard_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/testing/sitetest"
	"tidegate/internal/usage/denylog"
)

// denied records n denied calls of a key by a limit, a second apart.
func denied(s *sitetest.Site, name, limit, rule string, from time.Time, n int) {
	for i := range n {
		denyAt(s, name, from.Add(time.Duration(i)*time.Second), denylog.Denial{
			Cause: cause.Limit, Plan: "free", Limit: limit, Rule: rule, Method: "GET", Path: "/orders",
			RetryAfter: 40 * time.Minute, Network: denylog.NetworkOf(netip.MustParseAddr("192.0.2.77")),
		})
	}
}

// everyScope gives the site a limit of each scope.
func everyScope(s *sitetest.Site) {
	per := func(n int64) []limiter.Limit { return []limiter.Limit{sitetest.Per(n, time.Hour)} }
	s.Keys.Save(func(set *policy.Set) {
		set.Plans[0].PerGroup = per(600)
		set.Routes = []policy.Route{{Name: "orders", Cost: 1, Pattern: route.Pattern{Path: "/orders"},
			PerKey: per(300), PerIP: per(200), Shared: per(700)}}
		set.PerIP, set.Global = policy.Scope{Limits: per(100)}, policy.Scope{Limits: per(900)}
	})
	s.Keys.UpdateKey("acme", func(k *policy.Key) { k.Group = "ships" })
	s.Keys.Server.SetTime(time.Now())
}

// A key whose own limits have room, but whose calls an address limit denies, says so: the
// page lists every limit that applies, marks the one that denied last, and a sentence says
// how many calls it blocked, since when and until when.
func TestKeyNamesTheLimitThatBlocks(t *testing.T) {
	s := sitetest.New(t).LoginAs(sitetest.Viewer)
	everyScope(s)
	checker := enforce.NewChecker(s.Keys.Client, sitetest.Pepper)
	for range 3 {
		c, err := checker.Check(t.Context(), enforce.Call{Kind: policy.APIKey, Subject: s.Keys.IDs["acme"],
			Secret: s.Keys.Secrets["acme"], Address: netip.MustParseAddr("192.0.2.77"),
			Route: route.Call{Method: "GET", Path: "/orders"}}, nil)
		if err != nil || !c.Allowed {
			t.Fatalf("got %+v, %v, want an allowed call", c, err)
		}
	}
	last := time.Now().UTC().Add(-10*time.Minute - 20*time.Second)
	for last.Second() > 50 { // the seven calls are of one minute
		last = last.Add(-10 * time.Second)
	}
	denied(s, "acme", "ip 100 per 1 hour", "orders", last, 7)
	denied(s, "acme", "10 per 10 seconds", "", last.Add(-5*time.Hour), 2)
	page := s.Get("/keys/{acme}").Wants(t, http.StatusOK).Body
	text := sitetest.InWords(page)
	at := last.Format("15:04") + " UTC"
	for _, want := range []string{
		"7 calls blocked since " + at + " , all by 100 per hour (each address); last " + at +
			" ; 2 earlier in the last 24 hours. Calls from that address unblock in ",
		"10 per 10 seconds exact key, plan free 3 of 10 7 ", "600 per hour exact group ships 3 of 600 597 ",
		"900 per hour exact all callers 3 of 900 897 ",
		"300 per hour exact this key, rule orders 3 of 300 297 ",
		"700 per hour exact all callers, rule orders 3 of 700 697 ",
		"100 per hour exact each address denied last " + at +
			" Each address has its own count. Last full: an address in 192.0.2.0/24. – – 29 min",
		"Limits of route rules without calls (1)",
		"200 per hour exact each address, rule orders Each address has its own count. – – –",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if strings.Count(page, "denied last") != 1 || strings.Contains(text, "192.0.2.77") {
		t.Errorf("%d limits are marked, want one, and no whole address", strings.Count(page, "denied last"))
	}
}

// Each state of a key has its own sentence.
func TestDiagnosis(t *testing.T) {
	now := time.Now().UTC()
	for name, c := range map[string]struct {
		set  func(*sitetest.Site)
		want string
	}{
		"no call": {func(*sitetest.Site) {}, "No call blocked in the last 24 hours."},
		"used up": {func(s *sitetest.Site) { s.Keys.Use("acme", 10) },
			"10 per 10 seconds is used up. Unblocks in 10.0 s"},
		"override": {func(s *sitetest.Site) {
			s.Keys.OverrideKey("acme", sitetest.Per(4, time.Hour))
			s.Keys.Use("acme", 4)
			denied(s, "acme", "4 per 1 hour", "", now.Add(-time.Minute), 1)
		}, ", all by 4 per hour (override); last"},
		"two limits": {func(s *sitetest.Site) {
			everyScope(s)
			denied(s, "acme", "route 300 per 1 hour", "orders", now.Add(-30*time.Second), 1)
			denied(s, "acme", "group 600 per 1 hour", "orders", now.Add(-20*time.Second), 3)
		}, "4 calls blocked since"},
		"edited since": {func(s *sitetest.Site) {
			denied(s, "acme", "5 per 1 hour", "", now.Add(-time.Minute), 2)
		}, "all by 5 per hour (plan free, no longer in force); last"},
		"a ban": {func(s *sitetest.Site) {
			s.Keys.UpdateKey("acme", func(k *policy.Key) { k.Banned = now.Add(2 * time.Hour) })
			denyAt(s, "acme", now.Add(-time.Minute), denylog.Denial{Cause: cause.Ban, Plan: "free"})
		}, ", all by a ban; last"},
		"without Valkey": {func(s *sitetest.Site) {
			denyAt(s, "acme", now.Add(-time.Minute), denylog.Denial{Cause: cause.Unavailable, Plan: "free"})
		}, ", all by an outage of Valkey; last"},
		"revoked": {func(s *sitetest.Site) {
			s.Keys.UpdateKey("acme", func(k *policy.Key) { k.Status = policy.Revoked })
		}, "Every call is refused: the key is revoked."},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.New(t).Login()
			s.Keys.Server.SetTime(now)
			c.set(s)
			text := sitetest.InWords(s.Get("/keys/{acme}").Wants(t, http.StatusOK).Body)
			if !strings.Contains(text, c.want) {
				t.Errorf("the page lacks %q:\n%s", c.want, text)
			}
		})
	}
}

// The pages of a key and its plan say when a calendar quota is full at the present rate. On
// 21 November at 10:30 UTC, 800 of 1,000 a month in Berlin, taken in 491.5 hours, leave
// 122.9 hours, and 50 of 100 a day are full at 21:00. 500 a month last: no forecast.
func TestForecastOfAKey(t *testing.T) {
	s := sitetest.New(t).Login()
	month := limiter.Limit{Requests: 1000, Calendar: limiter.Month, Zone: "Europe/Berlin",
		Algorithm: limiter.FixedWindow}
	day := limiter.Limit{Requests: 100, Calendar: limiter.Day, Algorithm: limiter.FixedWindow}
	for _, c := range []struct {
		name  string
		limit limiter.Limit
		used  int64
		want  string
	}{
		{"wren", month, 800, "800 of 1,000 80 % At this rate full on 26 November (Europe/Berlin)"},
		{"ibis", day, 50, "50 of 100 At this rate full at 21:00 (UTC)"},
		{"crow", month, 500, ""},
	} {
		s.Keys.Add(c.name, c.limit)
		s.Keys.Use(c.name, c.used)
		set, err := s.Keys.Set(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		plan, _ := set.Plan(c.name)
		for _, path := range []string{"/keys/{" + c.name + "}", fmt.Sprint("/policies/plans/", plan.Number)} {
			words := sitetest.InWords(s.Get(path).Wants(t, http.StatusOK).Body)
			if !strings.Contains(words, c.want) || c.want == "" && strings.Contains(words, "At this rate") {
				t.Errorf("%s: want %q in\n%s", path, c.want, words)
			}
		}
	}
}
