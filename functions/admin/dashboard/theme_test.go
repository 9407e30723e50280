package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// The chosen colours are on every page from then on, the login's too, until the system's
// are chosen again.
func TestTheme(t *testing.T) {
	s := newSite(t)
	for _, row := range []struct{ theme, want string }{
		{"dark", `<html lang="en" data-theme="dark">`}, {"light", `<html lang="en" data-theme="light">`}, {"", `<html lang="en">`},
	} {
		got := s.post("/theme", url.Values{"theme": {row.theme}, "next": {"/login"}}).wants(t, http.StatusSeeOther)
		if to := got.Header.Get("Location"); to != "/login" {
			t.Errorf("after the choice: %q", to)
		}
		c := got.Cookies()[0]
		if !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" {
			t.Errorf("cookie %+v", c)
		}
		s.get("/login").wants(t, http.StatusOK, row.want, `value="`+row.theme+`" aria-pressed="true"`)
	}
}

// A choice comes back to the page it was made on, and to no other site.
func TestThemeComesBack(t *testing.T) {
	s := newSite(t).login()
	s.get("/simulate?shape=poisson&seed=2").wants(t, http.StatusOK, `name="next" value="/simulate?shape=poisson&amp;seed=2"`)
	for next, want := range map[string]string{
		"/simulate?seed=2": "/simulate?seed=2", "https://evil.example/": "/", "//evil.example": "/", "": "/",
	} {
		if to := s.post("/theme", url.Values{"theme": {"dark"}, "next": {next}}).Header.Get("Location"); to != want {
			t.Errorf("%q: %q, want %q", next, to, want)
		}
	}
}

func TestThemeRefused(t *testing.T) {
	s := newSite(t)
	s.post("/theme", url.Values{"theme": {"sepia"}}).wants(t, http.StatusBadRequest)
	s.post("/theme", url.Values{}).wants(t, http.StatusBadRequest)
	s.do(http.MethodPost, "/theme", url.Values{"theme": {"dark"}}, nil).wants(t, http.StatusForbidden)
}

// A cookie that somebody else wrote is no class, no attribute and no script.
func TestThemeCookieIsChecked(t *testing.T) {
	s := newSite(t)
	got := s.do(http.MethodGet, "/login", nil, http.Header{"Cookie": {`tidegate-theme="><script>`}}).wants(t, http.StatusOK, `<html lang="en">`)
	if strings.Contains(got.body, "<script>") {
		t.Error("the cookie is on the page")
	}
}
