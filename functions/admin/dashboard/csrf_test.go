package dashboard

import (
	"net/http"
	"net/url"
	"testing"

	"tidegate/functions/admin/dashboard/page"
)

// A change is made only for a page of this site.
func TestCrossSite(t *testing.T) {
	s := newSite(t).login()
	own := s.server.URL
	rows := []struct {
		name    string
		headers map[string]string
		allowed bool
	}{
		{"same origin", map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": own}, true},
		{"same origin, old browser", map[string]string{"Origin": own}, true},
		{"same origin, no Origin", map[string]string{"Sec-Fetch-Site": "same-origin"}, true},
		{"typed by the user", map[string]string{"Sec-Fetch-Site": "none"}, true},
		{"cross site", map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, false},
		{"same site, other origin", map[string]string{"Sec-Fetch-Site": "same-site", "Origin": "https://sibling.example"}, false},
		{"cross site that claims our Origin", map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": own}, false},
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
			before := s.keys.written()
			key := s.keys.key("acme")
			form := limitsOf(int(key.Version), [4]string{page.Number(int64(20 + i)), "10", "second", "log"})
			got := s.do(http.MethodPost, "/keys/{acme}/limits", form, header)
			if row.allowed {
				got.wants(t, http.StatusSeeOther)
				return
			}
			got.wants(t, http.StatusForbidden, "another site")
			if s.keys.written() != before {
				t.Error("the edit was written")
			}
		})
	}
}

// The login and the logout are changes too.
func TestCrossSiteLoginAndLogout(t *testing.T) {
	s := newSite(t).login()
	evil := http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.example"}}
	s.do(http.MethodPost, "/logout", nil, evil).wants(t, http.StatusForbidden)
	s.do(http.MethodPost, "/login", nil, evil).wants(t, http.StatusForbidden)
	s.get("/keys").wants(t, http.StatusOK)
}

// No GET or HEAD writes, whatever it carries.
func TestGetNeverWrites(t *testing.T) {
	s := newSite(t).login()
	query := "?" + limitsOf(1, [4]string{"99", "1", "hour", "log"}).Encode()
	for _, r := range newServer(Config{}, Services{}, false).routes() {
		if r.pattern[:4] == "GET " {
			s.ask(r.pattern + query)
		}
	}
	s.do(http.MethodHead, "/keys/{acme}/limits"+query, nil, nil)
	s.get("/logout").wants(t, http.StatusMethodNotAllowed)
	if s.keys.written() != 0 {
		t.Error("a GET wrote")
	}
	s.get("/keys").wants(t, http.StatusOK)
}

// No route that changes anything answers a page of another site, or one that does not say
// where it comes from, whoever is logged in.
func TestCrossSiteOnEveryRoute(t *testing.T) {
	s := newSite(t).login()
	for _, r := range newServer(Config{}, Services{}, false).routes() {
		method, path := fit(r.pattern)
		if method == http.MethodGet {
			continue
		}
		for name, header := range map[string]http.Header{
			"cross site": {"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.example"}}, "neither": {},
		} {
			form := url.Values{"version": {"1"}, "reason": {"x"}, "action": {"save"}, "name": {"x"}, "plan": {"free"}, "env": {"x"}}
			if got := s.do(method, path, form, header); got.StatusCode != http.StatusForbidden {
				t.Errorf("%s, %s: %d, want 403", r.pattern, name, got.StatusCode)
			}
		}
	}
	if s.keys.written() != 0 {
		t.Error("something was written")
	}
}
