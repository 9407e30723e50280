package dashboard_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/testing/sitetest"
)

// adoptFields returns a filled-in form that creates a record, with the given fields,
// which alternate names and texts.
func adoptFields(fields ...string) url.Values {
	return sitetest.With(
		url.Values{"kind": {"token"}, "next": {"limits"}, "name": {"Ada at the bank"},
			"reason": {"asked for"}},
		fields...,
	)
}

// The list has the callers of today without a record, the busiest first, and no others. It
// says which of them a limit denies.
func TestCallersWithoutRecord(t *testing.T) {
	s := sitetest.New(t).Login()
	ada := s.Keys.TokenCaller("https://issuer.example/", "ada")
	address := s.Keys.AddressCaller(netip.MustParsePrefix("192.0.2.7/32"))
	s.Get("/callers").Wants(t, http.StatusOK, "No callers without a record", "$TOKEN")
	s.Keys.Called("acme", time.Now(), 3, 0)
	s.Keys.UnregisteredCalls(ada, time.Now(), 12, 5)
	s.Keys.UnregisteredCalls(address, time.Now(), 1, 0)
	s.Keys.Record(records.Call{Caller: address, Time: time.Now(), Cause: cause.Limit, Limit: "7 per hour",
		RetryAfter: time.Hour})
	body := s.Get("/callers").Wants(t, http.StatusOK, ada, address, `href="/callers/`+ada, ">17<").Body
	if strings.Contains(body, "{acme}") || strings.Index(body, ada) > strings.Index(body, address) {
		t.Errorf("a key is listed, or the callers are not sorted by their calls:\n%s", body)
	}
	if words := sitetest.InWords(body); !strings.Contains(words, "active just now 12 allowed, 5 denied, 0 "+
		"refused 17 5 ") || !strings.Contains(words, "denied now 7 per hour, next call in 1 h just now") {
		t.Errorf("the list lacks states and calls: %s", words)
	}
	s.Get("/callers/"+address).Wants(t, http.StatusOK, "denied now", "7 per hour")
	s.Refresh("/callers").Wants(t, http.StatusOK, ada)
	s.Get("/callers/"+ada).Wants(t, http.StatusOK, "12 allowed, 5 denied and 0 refused",
		"/callers/new?id="+ada)
	s.Get("/").Wants(t, http.StatusOK, `href="/callers/`+ada, "no key")
	if to := s.Get("/callers/{acme}").Wants(t, http.StatusSeeOther).Header.Get("Location"); to !=
		"/keys/{acme}" {
		t.Errorf("a caller with a record redirects to %s, want /keys/{acme}", to)
	}
	s.Get("/callers/%7Btag%7D").Wants(t, http.StatusNotFound)
	s.Get("/callers?after=nonsense!").Wants(t, http.StatusBadRequest)
	if body := s.LoginAs(sitetest.Viewer).Get("/callers/"+ada).Wants(t,
		http.StatusOK).Body; strings.Contains(body, "Override or ban") {
		t.Error("the page offers a viewer a change")
	}
}

var nextInPage = regexp.MustCompile(`href="([^"]*)" rel="next"`)

const manyCallers = 300

// Following the pages lists every caller without a record, even if there are more than
// one read returns.
func TestCallersOnManyPages(t *testing.T) {
	s := sitetest.New(t).Login()
	for i := range manyCallers {
		s.Keys.UnregisteredCalls(fmt.Sprintf("caller-without-rec%04d", i),
			time.Now().Add(-time.Duration(i)*time.Second), 1, 0)
	}
	seen, path := map[string]bool{}, "/callers"
	for path != "" {
		body := s.Get(path).Wants(t, http.StatusOK).Body
		for _, link := range sitetest.AddressesIn(body) {
			if id, ok := strings.CutPrefix(link, "/callers/"); ok && id != "new" {
				seen[id] = true
			}
		}
		path = ""
		if next := nextInPage.FindStringSubmatch(body); next != nil {
			path = next[1]
		}
	}
	if len(seen) != manyCallers {
		t.Errorf("the pages have %d callers, want %d", len(seen), manyCallers)
	}
}

// A caller found by its token's issuer and subject gets an override, then a ban. Each
// applies to the next check.
func TestAdoptToken(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Save(func(set *policy.Set) { set.TokenPlan = "free" })
	id := s.Keys.TokenCaller("https://issuer.example/", "ada")
	checker := enforce.NewChecker(s.Keys.Client, sitetest.Pepper)
	check := func() enforce.Result {
		t.Helper()
		c, err := checker.Check(t.Context(), enforce.Call{Kind: policy.Token, Subject: id})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := check(); !c.Allowed || !c.Limits[0].Equal(sitetest.Per(10, 10*time.Second)) {
		t.Fatalf("before the override: %+v, want allowed by the plan free", c)
	}
	form := adoptFields("issuer", "https://issuer.example/", "holder", "ada")
	if to := s.Post("/callers/new", form).Wants(t, http.StatusSeeOther).Header.Get("Location"); to !=
		"/keys/"+id+"/limits" {
		t.Fatalf("redirects to %s, want the form of the override", to)
	}
	s.Keys.IDs["ada"] = id
	s.Get("/keys/"+id+"/limits").Wants(t, http.StatusOK, "Ada at the bank", "For this caller only.",
		">10 per 10 seconds</textarea>")
	s.Get("/keys/"+id).Wants(t, http.StatusOK, "Plan: named by the token, otherwise free.",
		"token, no API key")
	s.Post("/keys/"+id+"/limits", sitetest.LimitsForm("{ada#}", "1 per hour")).Wants(t, http.StatusSeeOther)
	if c := check(); c.Allowed || c.Name != "Ada at the bank" || c.Source != "override" {
		t.Errorf("after the override: %+v, want denied by the override", c)
	}
	s.Post("/keys/"+id+"/ban", url.Values{
		"version": {"{ada#}"}, "lasts": {"365d"}, "reason": {"abuse"},
	}).Wants(t, http.StatusSeeOther)
	if c := check(); c.Allowed || c.BannedUntil.IsZero() {
		t.Errorf("after the ban: %+v, want denied by the ban", c)
	}
	s.Post("/keys/"+id+"/edit", url.Values{
		"version": {"{ada#}"}, "name": {"Ada"}, "plan": {""},
	}).Wants(t, http.StatusSeeOther)
	s.Get("/keys?q=ada").Wants(t, http.StatusOK, ">Ada</bdi>", "banned")
	s.Get("/audit?action=key.adopt").Wants(t, http.StatusOK, "Ada at the bank", "asked for")
}

// An address gives a record of the network that the check function counts it with. A
// second attempt finds that record.
func TestAdoptAddress(t *testing.T) {
	s := sitetest.New(t).Login()
	for text, network := range map[string]string{
		"203.0.113.7": "203.0.113.7/32", "2001:db8:1:2:3::4": "2001:db8:1:2::/64",
		"::ffff:192.0.2.9": "192.0.2.9/32", "198.51.100.77/24": "198.51.100.0/24",
	} {
		id := s.Keys.AddressCaller(netip.MustParsePrefix(network))
		form := adoptFields("kind", "address", "network", text, "next", "ban")
		for range 2 {
			if to := s.Post("/callers/new", form).Wants(t, http.StatusSeeOther).Header.Get("Location"); to !=
				"/keys/"+id+"/ban" {
				t.Errorf("%s redirects to %s, want the form of the ban", text, to)
			}
		}
		k, err := s.Keys.Get(t.Context(), id)
		if err != nil || k.Kind != policy.Address {
			t.Errorf("%s: got %+v, %v, want an address", text, k, err)
		}
	}
	if n := s.Keys.Written(); n != 4 {
		t.Errorf("got %d changes, want one for each of the 4 addresses", n)
	}
	if n := strings.Count(s.Get("/keys").Body, "Ada at the bank</bdi>"); n != 4 {
		t.Errorf("the list has %d records, want 4", n)
	}
}

// A link from the list fills in the caller's id. An invalid field gets an error, and
// nothing is written.
func TestAdoptErrors(t *testing.T) {
	s := sitetest.New(t).Login()
	id := s.Keys.TokenCaller("i", "s")
	s.Get("/callers/new?id="+id).Wants(t, http.StatusOK, `value="`+id+`"`)
	for field, form := range map[string]url.Values{
		"id":      adoptFields("id", "acme"),
		"issuer":  adoptFields("holder", "ada"),
		"holder":  adoptFields("issuer", "https://issuer.example/"),
		"network": adoptFields("kind", "address", "network", "203.0.113.0.7"),
		"kind":    adoptFields("id", id, "kind", "key"),
		"next":    adoptFields("id", id, "next", "../../settings"),
		"name":    adoptFields("id", id, "name", " "),
		"reason":  adoptFields("id", id, "reason", ""),
	} {
		s.Post("/callers/new", form).Wants(t, http.StatusUnprocessableEntity, `id="`+field+`-error"`)
	}
	s.Post("/callers/new", adoptFields("kind", "address", "network", "fe80::1%eth0")).Wants(t,
		http.StatusUnprocessableEntity, `id="network-error"`)
	if s.Keys.Written() != 0 {
		t.Error("an invalid form was written")
	}
	s.Post("/callers/new", adoptFields("id", id)).Wants(t, http.StatusSeeOther)
	if s.Keys.Written() != 1 {
		t.Errorf("%d audit entries, want 1", s.Keys.Written())
	}
}
