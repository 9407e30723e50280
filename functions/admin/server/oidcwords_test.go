package server_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"tidegate/functions/admin/auth/oidc"
	"tidegate/internal/testing/oidctest"
	"tidegate/internal/testing/sitetest"
)

// scriptedSite is a site with a scripted provider, and the log of the site.
type scriptedSite struct {
	*sitetest.Site
	provider *oidctest.Scripted
	log      bytes.Buffer
}

// withScripted returns a site with a provider that script changed. Its log-ins give
// the role editor to ops and viewer to staff.
func withScripted(t *testing.T, script func(*oidctest.Scripted)) *scriptedSite {
	t.Helper()
	s := &scriptedSite{provider: oidctest.NewScripted(t)}
	if script != nil {
		script(s.provider)
	}
	s.Site = sitetest.New(t, func(site *sitetest.Site) {
		site.Services.Log = slog.New(slog.NewTextHandler(&s.log, nil))
		site.Config.PublicURL = site.Address
		provider, err := oidc.New(oidc.Config{
			Issuer: s.provider.URL, ClientID: "dashboard", RedirectURL: site.Address + "/login/oidc/callback",
			RoleClaim: "groups", EditorValues: []string{"ops"}, ViewerValues: []string{"staff"},
		}, []byte(strings.Repeat("p", 32)))
		if err != nil {
			t.Fatal(err)
		}
		site.Config.Provider = provider
	})
	return s
}

// callback logs in at the provider and returns the path of its redirect.
func (s *scriptedSite) callback(next string) string {
	s.T.Helper()
	return oidctest.NewPerson(s.T, s.provider.URL).Login(beginLogin(s.Site, next), "").RequestURI()
}

// A log-in that fails says why on its page; the log has both sides.
func TestProviderWords(t *testing.T) {
	for name, row := range map[string]struct {
		script func(*oidctest.Scripted)
		status int
		page   []string
		log    []string
	}{
		"the provider's description": {
			func(p *oidctest.Scripted) {
				p.Answer = url.Values{"error": {"access_denied"},
					"error_description": {"User is not <assigned> to the application"}}
			}, 403, []string{"did not log you in", "User is not &lt;assigned&gt; to", "(access_denied)"},
			[]string{"access_denied: User is not <assigned>"}},
		"values without a role": {
			func(p *oidctest.Scripted) { p.Claims = map[string]any{"groups": []string{"guests", "x"}} },
			403, []string{"You have no role here", "sent “guests”, “x” in the claim “groups”"},
			[]string{"guests", "editors need one of", "ops", "staff"}},
		"nearly right": {
			func(p *oidctest.Scripted) { p.Claims = map[string]any{"groups": "OPS"} },
			403, []string{"sent “OPS”", "differs in case or spaces"}, []string{"OPS", "ops"}},
		"a number": {
			func(p *oidctest.Scripted) { p.Claims = map[string]any{"groups": 7} },
			403, []string{"sent a number as the claim “groups”"}, []string{"it is a number", "ops"}},
		"no claim": {nil, 403, []string{"sent no claim “groups”"}, []string{"it is absent", "ops"}},
		"another issuer": {
			func(p *oidctest.Scripted) { p.Answer = url.Values{"iss": {"https://other.example"}} },
			403, []string{"Invalid answer", "https://other.example"},
			[]string{"https://other.example", "127.0.0.1"}},
		"a wrong secret": {
			func(p *oidctest.Scripted) { p.TokenError = map[string]any{"error": "invalid_client"} },
			502, []string{"is not set up", "OIDC_CLIENT_SECRET"}, []string{"invalid_client"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := withScripted(t, row.script)
			s.Get(s.callback("/")).Wants(t, row.status, row.page...)
			s.WantsLogin("/keys")
			for _, text := range row.log {
				if !strings.Contains(s.log.String(), text) {
					t.Errorf("the log is\n%s\nwant %s in it", &s.log, text)
				}
			}
		})
	}
}

// The issuer that the provider calls itself is on the page before anybody logs in there.
func TestProviderIssuerDiffers(t *testing.T) {
	s := withScripted(t, func(p *oidctest.Scripted) { p.Issuer = "https://login.example/{tenantid}/v2.0" })
	s.Get("/login/oidc").Wants(t, http.StatusBadGateway, "is not set up",
		"the provider there calls itself", "https://login.example/{tenantid}/v2.0")
}

// The reload of a callback that logged a person in leads to the dashboard. Without the
// session it logs nobody in.
func TestProviderCallbackReloaded(t *testing.T) {
	s := withScripted(t, func(p *oidctest.Scripted) { p.Claims = map[string]any{"groups": "ops"} })
	callback := s.callback("/keys")
	s.Get(callback).Wants(t, http.StatusSeeOther)
	before := s.Cookie().Value
	if to := s.Get(callback).Wants(t, http.StatusSeeOther).Header.Get("Location"); to != "/" {
		t.Errorf("the reload leads to %q, want /", to)
	}
	if s.Cookie().Value != before {
		t.Error("the reload begins another session")
	}
	s.Get("/keys").Wants(t, http.StatusOK)
	s.Client = s.NewClient()
	s.Get(callback).Wants(t, http.StatusBadRequest, "Login expired")
	s.WantsLogin("/keys")
}

// Of two log-ins in two tabs, the one begun last works, whichever answer comes first. The
// other then leads to the dashboard.
func TestProviderLoginInTwoTabs(t *testing.T) {
	s := withScripted(t, func(p *oidctest.Scripted) { p.Claims = map[string]any{"groups": "ops"} })
	first, last := s.callback("/"), s.callback("/keys")
	s.Get(first).Wants(t, http.StatusBadRequest, "Login expired")
	if to := s.Get(last).Wants(t, http.StatusSeeOther).Header.Get("Location"); to != "/keys" {
		t.Errorf("got redirect to %q, want /keys", to)
	}
	s.Get(first).Wants(t, http.StatusSeeOther)
	s.Get("/keys").Wants(t, http.StatusOK)
}
