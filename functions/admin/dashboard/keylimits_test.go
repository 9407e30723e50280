package dashboard_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/route"
	"tidegate/internal/testing/sitetest"
)

// denied records n denied calls of a key by a limit, a second apart.
func denied(s *sitetest.Site, name, limit, route string, from time.Time, n int) {
	for i := range n {
		denyAt(s, name, from.Add(time.Duration(i)*time.Second), records.Call{
			Cause: cause.Limit, Plan: "free", Limit: limit, Routes: []string{route}, Method: "GET",
			Path: "/orders", RetryAfter: 40 * time.Minute, Network: netip.MustParsePrefix("192.0.2.0/24"),
		})
	}
}

// everyLimit gives the site a limit for each of whom and a route.
func everyLimit(s *sitetest.Site) {
	s.Keys.Save(func(set *policy.Set) {
		set.Plans[0].Limits = append(set.Plans[0].Limits, sitetest.Limit("600 per hour, each group"))
		set.Routes = []limits.Route{sitetest.Route("orders", "", "/orders")}
		for _, text := range []string{"100 per hour, each address", "900 per hour, together",
			"300 per hour, on orders, each caller", "200 per hour, on orders, each address",
			"700 per hour, on orders, together"} {
			set.Limits = append(set.Limits, sitetest.Limit(text))
		}
	})
	s.Keys.UpdateKey("acme", func(k *policy.Key) { k.Group = "ships" })
	s.Keys.Server.SetTime(time.Now())
}

// A key whose own limits have room, but whose calls an address limit denies, says so: the
// page lists every limit that applies, marks the one that denied last, and a sentence says
// how many calls it blocked, since when and until when.
func TestKeyNamesTheLimitThatBlocks(t *testing.T) {
	s := sitetest.New(t).LoginAs(sitetest.Viewer)
	everyLimit(s)
	checker := enforce.NewChecker(s.Keys.Client, sitetest.Pepper)
	for range 3 {
		c, err := checker.Check(t.Context(), enforce.Call{Kind: policy.APIKey, Subject: s.Keys.IDs["acme"],
			Secret: s.Keys.Secrets["acme"], Address: netip.MustParseAddr("192.0.2.77"),
			Route: route.Call{Method: "GET", Path: "/orders"}})
		if err != nil || !c.Allowed {
			t.Fatalf("got %+v, %v, want an allowed call", c, err)
		}
	}
	last := time.Now().UTC().Add(-10*time.Minute - 20*time.Second)
	for last.Second() > 50 { // the seven calls are of one minute
		last = last.Add(-10 * time.Second)
	}
	denied(s, "acme", "100 per hour each address", "orders", last, 7)
	denied(s, "acme", "10 per 10 seconds", "", last.Add(-5*time.Hour), 2)
	page := s.Get("/keys/{acme}").Wants(t, http.StatusOK).Body
	text := sitetest.InWords(page)
	at := last.Format("15:04") + " UTC"
	for _, want := range []string{
		"7 calls denied since " + at + " , all by 100 per hour each address (policy); last " + at +
			" ; 2 earlier in the last 24 hours. Calls from that address pass again in ",
		"10 per 10 seconds each caller plan free 3 of 10 ", "600 per hour each group plan free 3 of 600 ",
		"900 per hour together policy 3 of 900 ", "300 per hour on orders each caller policy 3 of 300 ",
		"700 per hour on orders together policy 3 of 700 ",
		"100 per hour each address policy denied last " + at +
			" Counted apart for each address. Last full: an address in 192.0.2.0/24. – in 29 min",
		"Limits on routes without calls (1)",
		"200 per hour on orders each address policy Counted apart for each address. – –",
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
		"no call": {func(*sitetest.Site) {}, "Waiting for the first call."},
		"used up": {func(s *sitetest.Site) { s.Keys.Use("acme", 10) },
			"10 per 10 seconds is used up. The next call passes in 10 s"},
		"override": {func(s *sitetest.Site) {
			s.Keys.OverrideKey("acme", sitetest.Per(4, time.Hour))
			s.Keys.Use("acme", 4)
			denied(s, "acme", "4 per hour", "", now.Add(-time.Minute), 1)
		}, ", all by 4 per hour (override); last"},
		"two limits": {func(s *sitetest.Site) {
			everyLimit(s)
			denied(s, "acme", "300 per hour on orders", "orders", now.Add(-30*time.Second), 1)
			denied(s, "acme", "600 per hour each group", "orders", now.Add(-20*time.Second), 3)
		}, "4 calls denied since"},
		"edited since": {func(s *sitetest.Site) {
			denied(s, "acme", "5 per hour", "", now.Add(-time.Minute), 2)
		}, "all by 5 per hour (no longer in force); last"},
		"a ban": {func(s *sitetest.Site) {
			s.Keys.UpdateKey("acme", func(k *policy.Key) { k.Banned = now.Add(2 * time.Hour) })
			denyAt(s, "acme", now.Add(-time.Minute), records.Call{Cause: cause.Ban, Plan: "free"})
		}, ", all by a ban; last"},
		"without Valkey": {func(s *sitetest.Site) {
			denyAt(s, "acme", now.Add(-time.Minute), records.Call{Cause: cause.Unavailable, Plan: "free"})
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

// A key that sends more than its limit allows is told how much would be enough; one that
// sends less, or in bursts alone, is not.
func TestDemand(t *testing.T) {
	for name, c := range map[string]struct {
		limit         string
		calls, denied int
		want          string
	}{
		"a minute": {"60 per minute", 60, 45,
			"It sends up to 105 a minute, the limit allows 60; allow at least 110 to stop the denials."},
		"ten seconds": {"10 per 10 seconds", 60, 59,
			"It sends up to 119 a minute, the limit allows 60; 20 in 10 s are enough for even calls."},
		"a burst": {"10 per 10 seconds", 30, 20, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.New(t).Login()
			limit := sitetest.Limit(c.limit)
			s.Keys.Save(func(set *policy.Set) { set.Plans[0].Limits = []limits.Limit{limit} })
			at := time.Now().UTC().Truncate(time.Minute).Add(-2*time.Minute + time.Second)
			for range c.calls {
				s.Keys.Record(
					records.Call{
						Caller:     s.Keys.IDs["acme"],
						Registered: true,
						Cost:       1,
						Plan:       "free",
						Time:       at,
					},
				)
			}
			for range c.denied {
				denyAt(s, "acme", at, sampleDenial(c.limit))
			}
			text := strings.ReplaceAll(sitetest.InWords(s.Get("/keys/{acme}").Wants(t, http.StatusOK).Body),
				"\u00a0", " ")
			if c.want == "" && strings.Contains(text, "It sends up to") || !strings.Contains(text, c.want) {
				t.Errorf("want the demand %q:\n%s", c.want, text)
			}
		})
	}
}
