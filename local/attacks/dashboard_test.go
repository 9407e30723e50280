//go:build unix

package attacks

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
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
	i.wantUnchanged(t, before)
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

// tryLogin tries a password from an address and returns the status.
func (i *installation) tryLogin(t *testing.T, address, user, password string, header ...string) int {
	t.Helper()
	form := url.Values{"user": {user}, "password": {password}}
	header = append(header, "Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site",
		"same-origin")
	return i.site.from(t, address, http.MethodPost, "/login", form.Encode(), header...).status
}

// Guessing is limited for each network, whatever its addresses, headers and accounts.
// Users of other networks can still log in.
func TestAttackPasswordGuessing(t *testing.T) {
	a, i := attack(t, "password guessing",
		"wrong passwords from changing addresses of one IPv6 network, under forged forwarding "+
			"headers, for one account and for many")
	guess := func(n int, user string, header ...string) int {
		a.probe()
		return i.tryLogin(t, fmt.Sprintf("2001:db8:77:1::%x", n+1), user, "wrong", header...)
	}
	for n := range 9 {
		claim := fmt.Sprintf("192.0.2.%d", n)
		want := http.StatusUnauthorized
		if n >= 5 {
			want = http.StatusTooManyRequests
		}
		if got := guess(n, editorName, "X-Forwarded-For", claim, "Forwarded", "for="+claim, "X-Real-IP",
			claim); got != want {
			t.Errorf("guess %d at one account: %d, want %d", n+1, got, want)
		}
	}
	a.probe()
	if got := i.tryLogin(t, "2001:db8:77:1::aaaa", editorName,
		i.secrets[editorName]); got != http.StatusTooManyRequests {
		t.Errorf("the right password from there: %d", got)
	}
	for n := range 20 {
		want := http.StatusUnauthorized
		if n >= 15 {
			want = http.StatusTooManyRequests
		}
		if got := guess(n, fmt.Sprintf("somebody %d", n)); got != want {
			t.Errorf("guess %d at another account: %d, want %d", n+1, got, want)
		}
	}
	for _, elsewhere := range []string{"2001:db8:77:2::1", "198.51.100.7"} {
		a.probe()
		if got := i.tryLogin(t, elsewhere, editorName, i.secrets[editorName]); got != http.StatusSeeOther {
			t.Errorf("the right password from elsewhere: %d", got)
		}
	}
}

// A key opens its own view and no other page, and no other credential opens that view.
func TestAttackOwnView(t *testing.T) {
	a, i := attack(t, "the view of a key's owner",
		"keys that may not call, cookies and machine tokens at `/api/v1/self`; a good key, in "+
			"every place, at each other route; a key's text in the query; 40 unknown keys of one network")
	const address = "203.0.113.77"
	k, secret := i.key(t, wide)
	_, other := i.key(t, wide)
	self := func(header ...string) reply {
		a.probe()
		return i.site.from(t, address, http.MethodGet, "/api/v1/self", "", header...)
	}
	if got := self("X-API-Key", secret); got.status != http.StatusOK ||
		!strings.Contains(got.body, k.ID) || strings.Contains(got.body, other[8:20]) {
		t.Fatalf("a good key: %d %s", got.status, got.body)
	}
	created, _ := i.store.Get(t.Context(), k.ID)
	for name, header := range map[string][]string{
		"none": nil, "revoked": {"X-API-Key", i.revoked(t)}, "expired": {"X-API-Key", i.expired(t)},
		"banned": {"X-API-Key", i.banned(t)}, "unknown": {"X-API-Key", unknown(t)},
		"two": {"X-API-Key", secret, "X-API-Key", other}, "joined": {"X-API-Key", secret + "," + other},
		"an editor's session": {"Cookie", i.session(t, editorName)},
		"a write token":       {"Authorization", "Bearer " + i.machineToken(t, "write")},
	} {
		if got := self(header...); got.status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	routes := append(pages(t, k.ID), i.operations(t, k.ID)...)
	before := i.newestAuditID(t) // after the log-ins
	for _, e := range routes {
		for _, header := range [][]string{{"X-API-Key", secret}, {"Authorization", "Bearer " + secret},
			{"Cookie", "__Host-tidegate=" + secret}} {
			if public(e) {
				continue
			}
			a.probe()
			header = append(header, "Sec-Fetch-Site", "same-origin")
			got := i.site.from(t, address, e.method, e.path, "", header...)
			login := got.status == http.StatusSeeOther &&
				strings.HasPrefix(got.header.Get("Location"), "/login")
			if !login && got.status != http.StatusUnauthorized && got.status != http.StatusForbidden {
				t.Errorf("%s with %s: %d", e.pattern, header[0], got.status)
			}
		}
	}
	for _, name := range []string{"key", "x-api-key", "access_token"} {
		a.probe()
		query := "?" + url.Values{name: {secret}}.Encode()
		got := i.site.from(t, address, http.MethodGet, "/api/v1/self"+query, "")
		if got.status < http.StatusBadRequest || strings.Contains(got.body, k.ID) {
			t.Errorf("%s in the query: %d", name, got.status)
		}
	}
	statuses := map[int]int{}
	for range 40 {
		statuses[self("X-API-Key", unknown(t)).status]++
	}
	if statuses[http.StatusUnauthorized] > 20 || statuses[http.StatusTooManyRequests] < 20 {
		t.Errorf("statuses of 40 unknown keys: %v, want 20 or more 429", statuses)
	}
	i.wantUnchanged(t, before)
	if now, err := i.store.Get(t.Context(), k.ID); err != nil || now.Version != created.Version {
		t.Errorf("an attack changed the key: %+v, %v", now, err)
	}
}

// public reports whether a route needs no log-in.
func public(e endpoint) bool {
	switch _, path, _ := strings.Cut(e.pattern, " "); path {
	case "/healthz", "/healthz/live", "/static/{file}", "/theme", "/login", "/login/oidc",
		"/login/oidc/callback", "/api/v1/self":
		return true
	}
	return false
}

// script is markup for every context in a page. A page that escapes it contains none of
// rawScripts.
const script = `"><img src=x onerror=alert(1)><script>alert(2)</script>" onfocus=alert(3) '`

// rawScripts are parts of script that no page may contain.
var rawScripts = []string{"<img src=x", "<script>alert(2)", `" onfocus=alert(3)`, "onerror=alert(1)>"}

// storeText stores a text in every text field of a key and a token, and returns the key's
// id.
func (i *installation) storeText(t *testing.T, header []string, text string) string {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	tag, _ := json.Marshal(text[:min(len(text), 40)]) // a text always encodes
	post := func(method, path, body string, want int) reply {
		t.Helper()
		got := i.site.send(t, method, path, body, header...)
		if got.status != want {
			t.Fatalf("%s %s: %d %.500s", method, path, got.status, got.body)
		}
		return got
	}
	var made struct{ Key struct{ ID string } }
	got := post(http.MethodPost, "/api/v1/keys",
		fmt.Sprintf(`{"name":%s,"plan":"wide","env":"test","tags":[%s]}`, quoted, tag), http.StatusCreated)
	if err := json.Unmarshal([]byte(got.body), &made); err != nil || made.Key.ID == "" {
		t.Fatalf("%v %s", err, got.body)
	}
	key := i.site.get(t, "/api/v1/keys/"+made.Key.ID, header...)
	override := fmt.Sprintf(`{"limits":[{"requests":20000000,"window":"1h"}],"reason":%s}`, quoted)
	withMatch := append([]string{"If-Match", key.header.Get("ETag")}, header...)
	if got := i.site.send(t, http.MethodPut, "/api/v1/keys/"+made.Key.ID+"/override", override,
		withMatch...); got.status != http.StatusOK {
		t.Fatalf("override: %d %.500s", got.status, got.body)
	}
	expires := time.Now().Add(time.Hour).Format(time.RFC3339)
	post(http.MethodPost, "/api/v1/tokens",
		fmt.Sprintf(`{"name":%s,"scope":"read","expires":%q}`, tag, expires), http.StatusCreated)
	return made.Key.ID
}

// Stored texts of one user run no script in another user's browser.
func TestAttackStoredScripts(t *testing.T) {
	a, i := attack(t, "scripts in stored texts",
		"markup as name, tag and reason of a key, name of a token, of a plan and of a rule, and in "+
			"queries, on every page that a GET shows")
	header := i.page(t)
	id := i.storeText(t, header, script)
	quoted, _ := json.Marshal(script) // a text always encodes
	policy := i.site.get(t, "/api/v1/policy", header...)
	var set map[string]any
	if err := json.Unmarshal([]byte(policy.body), &set); err != nil {
		t.Fatal(err)
	}
	delete(set, "version")
	plans, _ := set["plans"].([]any)
	set["plans"] = append(plans, map[string]any{"name": script,
		"limits": []any{map[string]any{"requests": 10_000_000, "window": "1h"}}})
	rules, _ := set["routes"].([]any)
	set["routes"] = append(rules, map[string]any{"name": script,
		"pattern": map[string]any{"path": "/scripts"}})
	body, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	withMatch := append([]string{"If-Match", policy.header.Get("ETag")}, header...)
	got := i.site.send(t, http.MethodPut, "/api/v1/policy?reason=%3Cscript%3Ealert(2)",
		string(body), withMatch...)
	if got.status != http.StatusOK {
		t.Fatalf("save the policy with %s: %d %.500s", quoted, got.status, got.body)
	}
	seen := 0
	for _, e := range pages(t, id) {
		if e.method != http.MethodGet || strings.HasPrefix(e.path, "/static") {
			continue
		}
		for _, query := range []string{"",
			"?q=%22%3E%3Cimg+src%3Dx+onerror%3Dalert(1)%3E&name=%3Cscript%3Ealert(2)&next=%22%3E%3Cimg&key=" +
				id} {
			a.probe()
			page := i.site.get(t, e.path+query, header...)
			if !strings.HasPrefix(page.header.Get("Content-Type"), "text/html") {
				continue
			}
			if strings.Contains(page.body, "onerror=alert(1)") {
				seen++
			}
			for _, raw := range rawScripts {
				if strings.Contains(page.body, raw) {
					t.Errorf("%s%s has %q", e.pattern, query, raw)
				}
			}
		}
	}
	if seen < 5 {
		t.Errorf("only %d pages show the stored texts", seen)
	}
}
