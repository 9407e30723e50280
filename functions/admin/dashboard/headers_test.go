package dashboard

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

var nonceInPolicy = regexp.MustCompile(`'nonce-([^']+)'`)

// nonceIn returns the nonce that a policy names; empty if it names none.
func nonceIn(policy string) string {
	if m := nonceInPolicy.FindStringSubmatch(policy); len(m) == 2 {
		return m[1]
	}
	return ""
}

func checkHeaders(t *testing.T, got reply) {
	t.Helper()
	name := got.Request.Method + " " + got.Request.URL.Path
	for header, want := range map[string]string{
		"X-Content-Type-Options":     "nosniff",
		"Referrer-Policy":            "same-origin",
		"Cross-Origin-Opener-Policy": "same-origin",
		"X-Frame-Options":            "DENY",
	} {
		if value := got.Header.Get(header); value != want {
			t.Errorf("%s: %s is %q, want %q", name, header, value, want)
		}
	}
	if !strings.HasPrefix(got.Header.Get("Strict-Transport-Security"), "max-age=31536000") {
		t.Errorf("%s: no HSTS", name)
	}
	if got.Header.Get("Permissions-Policy") == "" {
		t.Errorf("%s: no Permissions-Policy", name)
	}
	checkPolicy(t, name, got)
}

func checkPolicy(t *testing.T, name string, got reply) {
	t.Helper()
	csp := got.Header.Get("Content-Security-Policy")
	for _, directive := range []string{
		"default-src 'none'", "script-src 'self' 'nonce-", "style-src 'self';", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'",
		"connect-src 'self'", "require-trusted-types-for 'script'", "trusted-types htmx",
	} {
		if !strings.Contains(csp, directive) {
			t.Errorf("%s: no %q in the policy %q", name, directive, csp)
		}
	}
	if strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") {
		t.Errorf("%s: the policy is lax: %q", name, csp)
	}
	if strings.Contains(got.body, "<script") && !strings.Contains(got.body, `nonce="`+nonceIn(csp)+`"`) {
		t.Errorf("%s: the page's nonce is not the policy's", name)
	}
	if regexp.MustCompile(`(?i)\sstyle=|\son[a-z]+=|<style|hx-on|javascript:`).MatchString(got.body) {
		t.Errorf("%s: inline style or script", name)
	}
}

// Every response carries the security headers: each route, for strangers and for editors,
// and each kind of error.
func TestHeadersEverywhere(t *testing.T) {
	for _, loggedIn := range []bool{false, true} {
		s := newSite(t)
		if loggedIn {
			s.login()
		}
		for _, r := range newServer(Config{}, Services{}, false).routes() {
			if r.pattern != "POST /logout" {
				checkHeaders(t, s.ask(r.pattern))
			}
		}
		checkHeaders(t, s.get("/nothing"))
		checkHeaders(t, s.get("/static/nothing"))
		checkHeaders(t, s.post("/keys", nil))
		checkHeaders(t, s.do(http.MethodPost, "/login", nil, nil))
		checkHeaders(t, s.post("/login", url.Values{"user": {strings.Repeat("x", maxBody)}}))
		checkHeaders(t, s.refresh("/keys"))
		s.keys.fail("ERR gone")
		checkHeaders(t, s.get("/keys"))
		checkHeaders(t, s.ask("POST /logout"))
	}
}

func TestNonceIsFresh(t *testing.T) {
	s := newSite(t)
	seen := map[string]bool{}
	for range 20 {
		nonce := nonceIn(s.get("/login").Header.Get("Content-Security-Policy"))
		if len(nonce) < 22 || seen[nonce] {
			t.Fatalf("nonce %q is missing, short or used before", nonce)
		}
		seen[nonce] = true
	}
}

// Pages are never stored; files of the bundle, whose names change with their content, are
// kept for a year.
func TestCaching(t *testing.T) {
	s := newSite(t).login()
	for _, path := range []string{"/keys", "/keys/{acme}", "/login", "/healthz", "/static/nothing"} {
		if got := s.get(path).Header.Get("Cache-Control"); !strings.HasPrefix(got, "no-store") {
			t.Errorf("%s: Cache-Control %q", path, got)
		}
	}
	got := s.get("/static/app-1.css").wants(t, http.StatusOK)
	if cache := got.Header.Get("Cache-Control"); cache != "public, max-age=31536000, immutable" {
		t.Errorf("static: Cache-Control %q", cache)
	}
	if kind := got.Header.Get("Content-Type"); kind != "text/css; charset=utf-8" {
		t.Errorf("static: Content-Type %q", kind)
	}
	if got.Header.Get("Set-Cookie") != "" {
		t.Error("static: sets a cookie")
	}
}

func TestStaticServesTheBundleOnly(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{"/static/manifest.json", "/static/.placeholder", "/static/..%2fstatic.go", "/static/%2e%2e", "/static/x"} {
		if got := s.get(path); got.StatusCode == http.StatusOK {
			t.Errorf("%s is served: %q", path, got.body)
		}
	}
}

func TestCompressed(t *testing.T) {
	s := newSite(t).login()
	got := s.do(http.MethodGet, "/keys", nil, http.Header{"Accept-Encoding": {"gzip"}})
	if got.Header.Get("Content-Encoding") != "gzip" || !strings.Contains(got.Header.Get("Vary"), "Accept-Encoding") {
		t.Fatalf("not compressed: %v", got.Header)
	}
	plain, err := gzip.NewReader(strings.NewReader(got.body))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(plain)
	if err != nil || !strings.Contains(string(body), "acme") {
		t.Errorf("decompressed: %v %q", err, body)
	}
}

// A file of the bundle comes as it was compressed with the bundle, to whoever takes that,
// and else as it is.
func TestStaticCompressed(t *testing.T) {
	bundle := testBundle()
	bundle.Files.(fstest.MapFS)["app-1.js.gz"] = &fstest.MapFile{Data: []byte("compressed")}
	s := newSite(t, withServices(func(services *Services) { services.Bundle = bundle }))
	for accepted, want := range map[string]string{"gzip, br": "compressed", "br": "//", "gzip;q=0": "//", "": "//"} {
		got := s.do(http.MethodGet, "/static/app-1.js", nil, http.Header{"Accept-Encoding": {accepted}})
		if got.body != want || (got.Header.Get("Content-Encoding") == "gzip") != (want == "compressed") {
			t.Errorf("%q: %q, %v", accepted, got.body, got.Header)
		}
		if kind := got.Header.Get("Content-Type"); kind != "text/javascript; charset=utf-8" {
			t.Errorf("%q: Content-Type %q", accepted, kind)
		}
	}
	s.login().get("/static/app-1.js.gz").wants(t, http.StatusNotFound)
}
