package server_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/server"
	"tidegate/internal/testing/sitetest"
	"tidegate/web/static"
)

func checkHeaders(t *testing.T, got sitetest.Reply) {
	t.Helper()
	name := got.Request.Method + " " + got.Request.URL.Path
	for header, want := range map[string]string{
		"X-Content-Type-Options":     "nosniff",
		"Referrer-Policy":            "same-origin",
		"Cross-Origin-Opener-Policy": "same-origin",
		"X-Frame-Options":            "DENY",
	} {
		if value := got.Header.Get(header); value != want {
			t.Errorf("%s: %s: got %q, want %q", name, header, value, want)
		}
	}
	if !strings.HasPrefix(got.Header.Get("Strict-Transport-Security"), "max-age=31536000") {
		t.Errorf("%s: no HSTS", name)
	}
	if got.Header.Get("Permissions-Policy") == "" {
		t.Errorf("%s: no Permissions-Policy", name)
	}
	sitetest.CheckPolicy(t, name, got)
}

// Every response carries the security headers: each route, without a session and for
// editors, and each kind of error.
func TestHeadersEverywhere(t *testing.T) {
	for _, loggedIn := range []bool{false, true} {
		s := sitetest.New(t)
		if loggedIn {
			s.Login()
		}
		for _, r := range server.Patterns() {
			if r != "POST /logout" {
				checkHeaders(t, s.Ask(r))
			}
		}
		checkHeaders(t, s.Get("/nothing"))
		checkHeaders(t, s.Get("/static/nothing"))
		checkHeaders(t, s.Post("/keys", nil))
		checkHeaders(t, s.Do(http.MethodPost, "/login", nil, nil))
		checkHeaders(t, s.Post("/login", url.Values{"user": {strings.Repeat("x", server.MaxBody)}}))
		checkHeaders(t, s.Refresh("/keys"))
		s.Keys.Fail("ERR gone")
		checkHeaders(t, s.Get("/keys"))
		checkHeaders(t, s.Ask("POST /logout"))
	}
}

func TestNonceIsFresh(t *testing.T) {
	s := sitetest.New(t)
	seen := map[string]bool{}
	for range 20 {
		nonce := sitetest.NonceIn(s.Get("/login").Header.Get("Content-Security-Policy"))
		if len(nonce) < 22 || seen[nonce] {
			t.Fatalf("nonce %q is missing, short or used before", nonce)
		}
		seen[nonce] = true
	}
}

// Browsers never store pages. They cache the bundle's files for a year, since the names
// change with the content.
func TestCaching(t *testing.T) {
	s := sitetest.New(t).Login()
	for _, path := range []string{"/keys", "/keys/{acme}", "/login", "/healthz", "/static/nothing"} {
		if got := s.Get(path).Header.Get("Cache-Control"); !strings.HasPrefix(got, "no-store") {
			t.Errorf("%s: got Cache-Control %q, want no-store", path, got)
		}
	}
	got := s.Get("/static/"+static.Load().Style).Wants(t, http.StatusOK)
	if cache := got.Header.Get("Cache-Control"); cache != "public, max-age=31536000, immutable" {
		t.Errorf("static: got Cache-Control %q, want a year", cache)
	}
	if kind := got.Header.Get("Content-Type"); kind != "text/css; charset=utf-8" {
		t.Errorf("static: got Content-Type %q, want CSS", kind)
	}
	if got.Header.Get("Set-Cookie") != "" {
		t.Error("static: sets a cookie")
	}
}

func TestStaticServesItsFilesOnly(t *testing.T) {
	s := sitetest.New(t)
	for _, path := range []string{"/static/static.go", "/static/app.js", "/static/..%2fstatic.go",
		"/static/%2e%2e", "/static/x"} {
		if got := s.Get(path); got.StatusCode != http.StatusNotFound {
			t.Errorf("%s is served: %q", path, got.Body)
		}
	}
}

// Bodies are compressed for clients that accept gzip: pages, files and errors. Others get
// the same bodies plain.
func TestCompressed(t *testing.T) {
	s := sitetest.New(t).Login()
	script := "/static/" + static.Load().Script
	for _, path := range []string{"/keys", script, "/static/nothing", "/api/v1/keys",
		"/api/v1/openapi.json"} {
		plain := s.Do(http.MethodGet, path, nil, http.Header{"Accept-Encoding": {"gzip;q=0, br"}})
		if plain.Header.Get("Content-Encoding") != "" || plain.Header.Get("Vary") == "" {
			t.Errorf("%s, plain: got headers %v", path, plain.Header)
		}
		got := s.Do(http.MethodGet, path, nil, http.Header{"Accept-Encoding": {"br, gzip"}})
		if got.StatusCode != plain.StatusCode || got.Header.Get("Content-Encoding") != "gzip" ||
			!strings.Contains(got.Header.Get("Vary"), "Accept-Encoding") ||
			got.Header.Get("Content-Type") != plain.Header.Get("Content-Type") {
			t.Errorf("%s: got %d, headers %v, want a gzip response", path, got.StatusCode, got.Header)
			continue
		}
		reader, err := gzip.NewReader(strings.NewReader(got.Body))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		body, err := io.ReadAll(reader)
		if want := plain.Body; err != nil || len(body) < len(got.Body) ||
			strings.HasPrefix(path, "/static/a") && string(body) != want {
			t.Errorf("%s: decompressed: got %v %.80q, want %.80q", path, err, body, want)
		}
	}
	if kind := s.Get(script).Header.Get("Content-Type"); kind != "text/javascript; charset=utf-8" {
		t.Errorf("got Content-Type %q, want JavaScript", kind)
	}
}

// A response without a body, such as a redirect of a form, has no encoding.
func TestEmptyIsNotCompressed(t *testing.T) {
	s := sitetest.New(t).Login()
	got := sitetest.SendAs(s, http.MethodPost, "/logout", http.Header{"Accept-Encoding": {"gzip"}})
	if got.StatusCode != http.StatusSeeOther || got.Header.Get("Content-Encoding") != "" || got.Body != "" {
		t.Errorf("got %d %q, headers %v", got.StatusCode, got.Body, got.Header)
	}
}

// A change is accepted only from a page of this site.
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
			form := sitetest.LimitsForm("{acme#}",
				page.Number(int64(20+i))+" per 10 seconds")
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

// Log-in and log-out are refused from another site.
func TestCrossSiteLoginAndLogout(t *testing.T) {
	s := sitetest.New(t).Login()
	evil := http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.example"}}
	s.Do(http.MethodPost, "/logout", nil, evil).Wants(t, http.StatusForbidden)
	s.Do(http.MethodPost, "/login", nil, evil).Wants(t, http.StatusForbidden)
	s.Get("/keys").Wants(t, http.StatusOK)
}

// No GET or HEAD request makes a change, even with the fields of a form.
func TestGetNeverWrites(t *testing.T) {
	s := sitetest.New(t).Login()
	query := "?" + sitetest.LimitsForm("{acme#}", "99 per hour").Encode()
	for _, r := range server.Patterns() {
		if r[:4] == "GET " {
			s.Ask(r + query)
		}
	}
	s.Do(http.MethodHead, "/keys/{acme}/limits"+query, nil, nil)
	s.Get("/logout").Wants(t, http.StatusMethodNotAllowed)
	if s.Keys.Written() != 0 {
		t.Error("a GET or HEAD made a change")
	}
	s.Get("/keys").Wants(t, http.StatusOK)
}

// Every route that makes changes refuses requests from another site, and those without
// Origin and Sec-Fetch-Site, with a session too.
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
			form := url.Values{"version": {"{acme#}"}, "reason": {"x"}, "action": {"save"}, "name": {"x"},
				"plan": {"free"}, "env": {"x"}}
			if got := s.Do(method, path, form, header); got.StatusCode != http.StatusForbidden {
				t.Errorf("%s, %s: got %d, want 403", r, name, got.StatusCode)
			}
		}
	}
	if s.Keys.Written() != 0 {
		t.Error("a refused request made a change")
	}
}
