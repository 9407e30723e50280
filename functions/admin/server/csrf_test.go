package server_test

import (
	"net/http"
	"net/url"
	"testing"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/server"
	"tidegate/functions/admin/server/sitetest"
)

// A change is made only for a page of this site.
func TestCrossSite(t *testing.T) {
	s := sitetest.New(t).Login()
	own := s.Server.URL
	rows := []struct {
		name    string
		headers map[string]string
		allowed bool
	}{
		{"same origin", map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": own}, true},
		{"same origin, old browser", map[string]string{"Origin": own}, true},
		{"same origin, no Origin", map[string]string{"Sec-Fetch-Site": "same-origin"}, true},
		{"typed by the user", map[string]string{"Sec-Fetch-Site": "none"}, true},
		{"cross site", map[string]string{"Sec-Fetch-Site": "cross-site",
			"Origin": "https://evil.example"}, false},
		{"same site, other origin", map[string]string{"Sec-Fetch-Site": "same-site",
			"Origin": "https://sibling.example"}, false},
		{"cross site that claims our Origin",
			map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": own}, false},
		{"other Origin, old browser", map[string]string{"Origin": "https://evil.example"}, false},
		{"null Origin, old browser", map[string]string{"Origin": "null"}, false},
		{"neither Origin nor Sec-Fetch-Site", nil, false},
		{"empty headers", map[string]string{"Sec-Fetch-Site": "", "Origin": ""}, false},
	}
	for i, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			header := http.Header{}
			for name, value := range row.headers {
				header.Set(name, value)
			}
			before := s.Keys.Written()
			key := s.Keys.Key("acme")
			form := sitetest.LimitsForm(int(key.Version),
				[4]string{page.Number(int64(20 + i)), "10", "second", "log"})
			got := s.Do(http.MethodPost, "/keys/{acme}/limits", form, header)
			if row.allowed {
				got.Wants(t, http.StatusSeeOther)
				return
			}
			got.Wants(t, http.StatusForbidden, "another site")
			if s.Keys.Written() != before {
				t.Error("the edit was written")
			}
		})
	}
}

// The login and the logout are changes too.
func TestCrossSiteLoginAndLogout(t *testing.T) {
	s := sitetest.New(t).Login()
	evil := http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.example"}}
	s.Do(http.MethodPost, "/logout", nil, evil).Wants(t, http.StatusForbidden)
	s.Do(http.MethodPost, "/login", nil, evil).Wants(t, http.StatusForbidden)
	s.Get("/keys").Wants(t, http.StatusOK)
}

// No GET or HEAD writes, whatever it carries.
func TestGetNeverWrites(t *testing.T) {
	s := sitetest.New(t).Login()
	query := "?" + sitetest.LimitsForm(1, [4]string{"99", "1", "hour", "log"}).Encode()
	for _, r := range server.Patterns() {
		if r[:4] == "GET " {
			s.Ask(r + query)
		}
	}
	s.Do(http.MethodHead, "/keys/{acme}/limits"+query, nil, nil)
	s.Get("/logout").Wants(t, http.StatusMethodNotAllowed)
	if s.Keys.Written() != 0 {
		t.Error("a GET wrote")
	}
	s.Get("/keys").Wants(t, http.StatusOK)
}

// No route that changes anything answers a page of another site, or one that does not say
// where it comes from, whoever is logged in.
func TestCrossSiteOnEveryRoute(t *testing.T) {
	s := sitetest.New(t).Login()
	for _, r := range server.Patterns() {
		method, path := sitetest.Fit(r)
		if method == http.MethodGet {
			continue
		}
		for name, header := range map[string]http.Header{
			"cross site": {"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.example"}},
			"neither":    {},
		} {
			form := url.Values{"version": {"1"}, "reason": {"x"}, "action": {"save"}, "name": {"x"},
				"plan": {"free"}, "env": {"x"}}
			if got := s.Do(method, path, form, header); got.StatusCode != http.StatusForbidden {
				t.Errorf("%s, %s: %d, want 403", r, name, got.StatusCode)
			}
		}
	}
	if s.Keys.Written() != 0 {
		t.Error("something was written")
	}
}
