package server_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"tidegate/internal/testing/sitetest"
)

// A chosen theme applies to every page, including the log-in, until the system's theme is
// chosen again.
func TestTheme(t *testing.T) {
	s := sitetest.New(t)
	for _, row := range []struct{ theme, want string }{
		{"dark", `<html lang="en" data-theme="dark">`}, {"light", `<html lang="en" data-theme="light">`},
		{"", `<html lang="en">`},
	} {
		got := s.Post("/theme", url.Values{"theme": {row.theme}, "next": {"/login"}}).Wants(t,
			http.StatusSeeOther)
		if to := got.Header.Get("Location"); to != "/login" {
			t.Errorf("got redirect to %q, want /login", to)
		}
		c := got.Cookies()[0]
		if !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" {
			t.Errorf("got cookie %+v, want Secure, HttpOnly, Lax, for /", c)
		}
		s.Get("/login").Wants(t, http.StatusOK, row.want, `value="`+row.theme+`" aria-pressed="true"`)
	}
}

// Choosing a theme redirects to the page where it was chosen, and to no other site.
func TestThemeRedirects(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Get("/explain?path=%2Forders&method=GET").Wants(t, http.StatusOK,
		`name="next" value="/explain?path=%2Forders&amp;method=GET"`)
	for next, want := range map[string]string{
		"/explain?method=GET": "/explain?method=GET", "https://evil.example/": "/",
		"//evil.example": "/", "": "/",
	} {
		if to := s.Post("/theme", url.Values{
			"theme": {"dark"}, "next": {next},
		}).Header.Get("Location"); to != want {
			t.Errorf("next %q: got %q, want %q", next, to, want)
		}
	}
}

func TestThemeRefused(t *testing.T) {
	s := sitetest.New(t)
	s.Post("/theme", url.Values{"theme": {"sepia"}}).Wants(t, http.StatusBadRequest)
	s.Post("/theme", url.Values{}).Wants(t, http.StatusBadRequest)
	s.Do(http.MethodPost, "/theme", url.Values{"theme": {"dark"}}, nil).Wants(t, http.StatusForbidden)
}

// A theme cookie with an unknown value is ignored.
func TestThemeCookieIsChecked(t *testing.T) {
	s := sitetest.New(t)
	got := s.Do(http.MethodGet, "/login", nil, http.Header{"Cookie": {`tidegate-theme="><script>`}}).Wants(t,
		http.StatusOK, `<html lang="en">`)
	if strings.Contains(got.Body, "<script>") {
		t.Error("the page contains the cookie's value")
	}
}
