package dashboard_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/server"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/proxies"
	"tidegate/internal/testing/sitetest"
)

// The response on a key's page has no client address, so an allow list does not refuse
// it.
func TestKeyResponseIgnoresAllowList(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Save(func(set *policy.Set) { set.Allow = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} })
	_, text, _ := strings.Cut(sitetest.InWords(s.Get("/keys/{acme}").Wants(t, http.StatusOK).Body),
		"What a client gets now")
	text = text[:min(len(text), 400)]
	if !strings.Contains(text, "Response headers a client receives") || strings.Contains(text, "429") ||
		strings.Contains(text, "401:") {
		t.Errorf("got the response %s, want the headers of an allowed call", text)
	}
	s.Keys.Use("acme", 10)
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "429 Too Many Requests")
}

// Explain asks for an address only if one matters to the call.
func TestExplainAsksForAnAddress(t *testing.T) {
	s := sitetest.New(t).Login()
	const asked, call = "Client address unknown: limits of each address and address lists are left out.",
		"/explain?key=bolt&path=/orders"
	if strings.Contains(s.Get(call).Wants(t, http.StatusOK).Body, "Client address") {
		t.Error("without limits of each address the page asks for one")
	}
	s.Keys.Save(func(set *policy.Set) {
		set.Limits = []limits.Limit{sitetest.Limit("5 per minute, each address")}
	})
	s.Get(call).Wants(t, http.StatusOK, asked)
	s.Get(call+"&address=192.0.2.1").Wants(t, http.StatusOK, "Client address 192.0.2.1", "5 per minute")
}

// A call that costs more than an override can ever admit gets what the check function
// answers: no Retry-After, and no limit to wait for.
func TestExplainWhatNeverPasses(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.OverrideKey("bolt", sitetest.Per(5, time.Minute))
	s.Keys.Save(func(set *policy.Set) {
		set.Routes = []limits.Route{sitetest.Route("dear", "8", "/dear")}
		set.Limits = []limits.Limit{sitetest.Limit("900 per minute, together")}
	})
	got := s.Get("/explain?key=bolt&path=/dear").Wants(t, http.StatusOK, "the call costs 8, more than",
		"quota-exceeded", "never")
	if strings.Contains(got.Body, "Retry-After: ") || strings.Contains(got.Body, "RateLimit: ") {
		t.Error("got fields that say when to retry")
	}
}

// Explain shows which address counts and why: behind trusted proxies it has a field for
// the header that they write.
func TestExplainShowsTheAddressThatCounts(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Save(func(set *policy.Set) { set.Deny = []netip.Prefix{netip.MustParsePrefix("198.51.100.7/32")} })
	call := "/explain?key=bolt&address=203.0.113.10&forwarded=198.51.100.7"
	unset := s.Get(call).Wants(t, http.StatusOK, "Client address 203.0.113.10: the address that API Gateway "+
		"saw: TRUSTED_PROXIES is not set.")
	if strings.Contains(unset.Body, `name="forwarded"`) {
		t.Error("without proxies there is a field for a header that is not read")
	}
	trusted, err := proxies.Parse("203.0.113.0/24")
	if err != nil {
		t.Fatal(err)
	}
	s.Reconfigure(func(c *server.Config) { c.Proxies = trusted })
	s.Login()
	s.Get(call).Wants(t, http.StatusOK, `name="forwarded"`, "X-Forwarded-For", "Refused",
		"Client address 198.51.100.7: the client&#39;s address in X-Forwarded-For.")
	s.Get("/explain?key=bolt&address=192.0.2.1&forwarded=198.51.100.7").Wants(t, http.StatusOK,
		"Client address 192.0.2.1: the address that API Gateway saw: it is not in TRUSTED_PROXIES.")
}
