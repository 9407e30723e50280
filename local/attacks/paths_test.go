//go:build unix

package attacks

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// A path that resembles a public one opens no page, and no file outside of the bundle.
func TestAttackPathConfusion(t *testing.T) {
	a, i := attack(t, "path confusion",
		"pages, the API and files of the dashboard behind dots, double slashes, escapes and other cases")
	before := i.newestAuditID(t)
	for _, path := range []string{
		"/static/../keys", "/static/..%2fkeys", "/static/%2e%2e/keys", "/static//../keys", "/healthz/../keys",
		"/healthz/%2e%2e/keys",
		"/login/../keys", "//keys", "/./keys", "/KEYS", "/keys/", "/keys%00", "/keys;x=1",
		"/api/v1/../../keys", "/api//v1/keys",
		"/API/v1/keys", "/api/v1/keys/../me", "/static/manifest.json", "/static/.placeholder",
		"/static/..%2fstatic.go",
		"/static/%2fetc%2fpasswd", "/static/....//x", "/.git/config", "/bootstrap", "/static/",
		"/healthz/live/keys",
	} {
		a.probe()
		got := i.site.raw(t, "GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if got.status == http.StatusOK || strings.Contains(got.body, "customer") {
			t.Errorf("%s: %d %.200s", path, got.status, got.body)
		}
		a.probe()
		got = i.site.raw(t, "POST "+path+
			" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\nSec-Fetch-Site: "+
			"same-origin\r\n\r\n")
		if got.status < 300 {
			t.Errorf("POST %s: %d %.200s", path, got.status, got.body)
		}
	}
	i.unchanged(t, before)
}

// elsewhere are texts that browsers may read as another site's address.
var elsewhere = []string{
	"https://evil.example", "//evil.example", "///evil.example", "/\\evil.example", "\\\\evil.example",
	"/\t/evil.example", "/\n/evil.example",
	"/%09/evil.example", "https:evil.example", "javascript:alert(1)", "data:text/html,x", " //evil.example",
	"/ /evil.example",
	"//evil.example/%2f..", "/\x00//evil.example", "http://evil.example/keys", "/.//evil.example",
	"@evil.example", "/\u2028/evil.example",
	"///\\evil.example",
}

// No link to the dashboard redirects to another site.
func TestAttackOpenRedirects(t *testing.T) {
	a, i := attack(t, "open redirects",
		"20 spellings of another site's address in `next`, after the log-in and after the choice of "+
			"colours")
	for _, next := range elsewhere {
		form := url.Values{"user": {editorName}, "password": {i.secrets[editorName]}, "theme": {"dark"},
			"next": {next}}
		for _, path := range []string{"/login", "/theme"} {
			a.probe()
			got := i.site.send(t, http.MethodPost, path, form.Encode(),
				"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin")
			if got.status != http.StatusSeeOther || !onThisSite(got.header.Get("Location")) {
				t.Errorf("%s, next %q: %d to %q", path, next, got.status, got.header.Get("Location"))
			}
		}
	}
}

// onThisSite reports whether an address stays on this site. Browsers drop tabs and line
// breaks and read a backslash as a slash.
func onThisSite(location string) bool {
	read := strings.NewReplacer("\t", "", "\r", "", "\n", "", "\\", "/").Replace(location)
	u, err := url.Parse(read)
	return err == nil && strings.HasPrefix(read, "/") && !strings.HasPrefix(read, "//") &&
		u.Scheme == "" && u.Host == ""
}

// The dashboard trusts neither the host name in a request nor a session id that an
// attacker chose.
func TestAttackHostsAndSessions(t *testing.T) {
	a, i := attack(t, "host headers, planted and old sessions",
		"links and redirects under a false host name; a session id of the attacker's choice; a "+
			"session after log-out")
	for _, header := range []string{"X-Forwarded-Host: evil.example", "Forwarded: host=evil.example",
		"X-Original-URL: /keys"} {
		a.probe()
		got := i.site.raw(t, "GET /keys HTTP/1.1\r\nHost: evil.example\r\n"+header+
			"\r\nConnection: close\r\n\r\n")
		if got.status != http.StatusSeeOther ||
			strings.Contains(got.header.Get("Location")+got.body, "evil.example") {
			t.Errorf("%s: %d to %q", header, got.status, got.header.Get("Location"))
		}
	}
	planted := "__Host-tidegate=" + strings.Repeat("A", 43)
	form := url.Values{"user": {editorName}, "password": {i.secrets[editorName]}}
	a.probe()
	got := i.site.send(t, http.MethodPost, "/login", form.Encode(), "Cookie", planted,
		"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin")
	if got.status != http.StatusSeeOther ||
		strings.Contains(strings.Join(got.header.Values("Set-Cookie"), " "), planted) {
		t.Errorf("the log-in keeps the planted session: %d %q", got.status, got.header.Values("Set-Cookie"))
	}
	a.probe()
	if got := i.site.get(t, "/keys", "Cookie", planted); got.status != http.StatusSeeOther {
		t.Errorf("a planted session after the log-in: %d", got.status)
	}
	before := i.session(t, editorName)
	a.probe()
	got = i.site.send(t, http.MethodPost, "/login", form.Encode(), "Cookie", before,
		"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin")
	if again := i.site.get(t, "/keys", "Cookie", before); got.status != http.StatusSeeOther ||
		again.status != http.StatusSeeOther {
		t.Errorf("the session before a second log-in: %d", again.status)
	}
	last := i.session(t, editorName)
	a.probe()
	i.site.send(t, http.MethodPost, "/logout", "", "Cookie", last, "Sec-Fetch-Site", "same-origin")
	if got := i.site.get(t, "/keys", "Cookie", last); got.status != http.StatusSeeOther {
		t.Errorf("after the log-out: %d", got.status)
	}
}

// Every answer has the security headers and is not cached.
func TestAttackHeaders(t *testing.T) {
	a, i := attack(t, "headers and caches",
		"every GET route of the dashboard, as nobody and as an editor, for its security headers and "+
			"`no-store`")
	k, _ := i.key(t, wide)
	cookie := i.session(t, editorName)
	for _, e := range append(pages(t, k.ID), i.operations(t, k.ID)...) {
		for _, who := range []string{"", cookie} {
			if e.method != http.MethodGet {
				continue
			}
			a.probe()
			got := i.site.get(t, e.path, "Cookie", who)
			policy := got.header.Get("Content-Security-Policy")
			for name, ok := range map[string]bool{
				"nosniff": got.header.Get("X-Content-Type-Options") == "nosniff",
				"frames": strings.Contains(policy, "frame-ancestors 'none'") &&
					got.header.Get("X-Frame-Options") == "DENY",
				"scripts": strings.Contains(policy, "default-src 'none'") &&
					!strings.Contains(policy, "unsafe"),
				"HSTS": strings.HasPrefix(got.header.Get("Strict-Transport-Security"),
					"max-age=31536000"),
				"cache":           strings.HasPrefix(got.header.Get("Cache-Control"), "no-store"),
				"referrer":        got.header.Get("Referrer-Policy") == "same-origin",
				"opener":          got.header.Get("Cross-Origin-Opener-Policy") == "same-origin",
				"no CORS":         got.header.Get("Access-Control-Allow-Origin") == "",
				"no inline style": !strings.Contains(got.body, " style="),
			} {
				if !ok {
					t.Errorf("%s: %s: %v", e.pattern, name, got.header)
				}
			}
		}
	}
}

// oddTexts are texts that are no valid id, name, number or cursor.
var oddTexts = []string{
	"%00", "%0a", "%7B%7D", "%ff", "-1", "9e99", "..%2f..", "tg%3A%7Ba%7D%3Ab", "%F0%9F%98%80", "%2500",
	strings.Repeat("A", 3000),
}

// No text in a path or a query causes a 5xx of the dashboard.
func TestAttackOddParameters(t *testing.T) {
	a, i := attack(t, "odd texts in paths and queries",
		"NUL, line breaks, braces, broken UTF-8, numbers out of bounds, 3 kB, for each id in a path "+
			"of the dashboard and each parameter of the JSON API")
	k, _ := i.key(t, wide)
	header := i.page(t)
	const mark = "ODDODDODDODD"
	for _, e := range append(pages(t, mark), i.operations(t, mark)...) {
		if !strings.Contains(e.path, mark) || e.method != http.MethodGet {
			continue
		}
		for _, odd := range oddTexts {
			a.probe()
			got := i.site.raw(t, request(e.method, strings.Replace(e.path, mark, odd, 1), header))
			if got.status >= 500 {
				t.Errorf("%s, %.40q: %d %.300s", e.pattern, odd, got.status, got.body)
			}
		}
	}
	for _, e := range i.operations(t, k.ID) {
		for _, name := range i.parameters(t, header, e) {
			for _, odd := range oddTexts {
				a.probe()
				got := i.site.raw(t, request(e.method, e.path+"?"+name+"="+odd, header))
				if got.status >= 500 {
					t.Errorf("%s, %s=%.40q: %d %.300s", e.pattern, name, odd, got.status, got.body)
				}
			}
		}
	}
}

func request(method, path string, header []string) string {
	text := method + " " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n"
	for n := 0; n < len(header); n += 2 {
		text += header[n] + ": " + header[n+1] + "\r\n"
	}
	return text + "\r\n"
}
