package dashboard_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"tidegate/functions/admin/server/sitetest"
	"tidegate/internal/policy"
)

// The response on a key's page has no client address, so an allow list does not refuse
// it.
func TestKeyResponseIgnoresAllowList(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Save(func(set *policy.Set) { set.Allow = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} })
	_, text, _ := strings.Cut(
		sitetest.InWords(s.Get("/keys/{acme}").Wants(t, http.StatusOK).Body), "What a client gets now",
	)
	text = text[:min(len(text), 400)]
	if !strings.Contains(text, "Response headers a client receives") || strings.Contains(text, "429") ||
		strings.Contains(text, "401:") {
		t.Errorf("got the response %s, want the headers of an allowed call", text)
	}
	s.Keys.Use("acme", 10)
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "429 Too Many Requests")
}
