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
	before := i.newestChange(t)
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
		"markup as name, tag and reason of a key, name of a token and of a plan, and in "+
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
