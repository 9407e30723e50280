//go:build unix

package attacks

import (
	"net/http"
	"strings"
	"testing"
)

// ownView accepts only API keys; TestAttackOwnView covers it.
const ownView = "GET /api/v1/self"

// readers are POST operations that change nothing, so a read token may use them.
var readers = map[string]bool{"POST /api/v1/simulate": true, "POST /api/v1/simulate/lab": true}

// scopeAllows reports whether a token of this scope may use an operation. It does not
// read the dashboard's route table, which the test checks.
func scopeAllows(scope string, e endpoint) bool {
	switch {
	case scope == "write":
		return true
	case scope == "settle":
		return e.pattern == "POST /api/v1/reservations/settle"
	case e.pattern == "GET /api/v1/tokens":
		return false
	}
	return scope == "read" && (e.method == http.MethodGet || readers[e.pattern])
}

// Every operation of the JSON API is called with every kind of credential, and only a
// token of a sufficient scope may use it.
func TestAttackAPICredentials(t *testing.T) {
	a, i := attack(t, "the JSON API with every credential",
		"each operation with none, garbage, an API key, a revoked token, and tokens of scope read, "+
			"write and settle")
	k, secret := i.key(t, wide)
	revoked := i.machineToken(t, "write")
	id := revoked[len("tga_"):][:12]
	if got := i.site.send(t, http.MethodDelete, "/api/v1/tokens/"+id, "",
		i.page(t)...); got.status != http.StatusNoContent {
		t.Fatalf("revoke a token: %d %s", got.status, got.body)
	}
	credentials := map[string]string{
		"none": "", "garbage": "Bearer tga_" + strings.Repeat("A", 49), "API key": "Bearer " + secret,
		"revoked": "Bearer " + revoked,
	}
	for _, scope := range []string{"read", "write", "settle"} {
		credentials[scope] = "Bearer " + i.machineToken(t, scope)
	}
	operations := i.operations(t, k.ID)
	before := i.newestAuditID(t) // after the log-ins
	for _, e := range operations {
		if e.pattern == ownView {
			continue
		}
		for name, credential := range credentials {
			a.probe()
			header := []string{"Content-Type", "application/json"}
			if credential != "" {
				header = append(header, "Authorization", credential)
			}
			// The unknown parameter fails every operation, so that permitted calls change
			// nothing.
			got := i.site.send(t, e.method, e.path+"?unknown=1", "{}", header...)
			known := name == "read" || name == "write" || name == "settle"
			refused := got.status == http.StatusUnauthorized || got.status == http.StatusForbidden
			switch {
			case name == "none" && !refused, !known && name != "none" &&
				got.status != http.StatusUnauthorized:
				t.Errorf("%s, %s: %d", e.pattern, name, got.status)
			case known && scopeAllows(name, e) == refused:
				t.Errorf("%s, %s: %d", e.pattern, name, got.status)
			case known && refused && got.status != http.StatusForbidden:
				t.Errorf("%s, %s: %d, want 403", e.pattern, name, got.status)
			}
		}
	}
	i.wantUnchanged(t, before)
}

// foreign holds the headers of requests that another site's page can make a browser send.
var foreign = map[string][]string{
	"cross site":                        {"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"},
	"same site":                         {"Sec-Fetch-Site", "same-site", "Origin", "https://sibling.example"},
	"cross site that claims our name":   {"Sec-Fetch-Site", "cross-site", "Origin", "OWN"},
	"another origin, old browser":       {"Origin", "https://evil.example"},
	"null origin, old browser":          {"Origin", "null"},
	"our name as a prefix":              {"Origin", "OWN.evil.example"},
	"neither origin nor Sec-Fetch-Site": nil,
}

// No page of another site changes anything with the session of a logged-in user.
func TestAttackCrossSite(t *testing.T) {
	a, i := attack(t, "cross-site requests",
		"each route of pages and of the JSON API that changes something, with an editor's cookie, "+
			"from 7 origins")
	k, _ := i.key(t, wide)
	cookie := i.session(t, editorName)
	routes := changing(append(pages(t, k.ID), i.operations(t, k.ID)...))
	before := i.newestAuditID(t) // after the log-ins
	for _, e := range routes {
		for name, origin := range foreign {
			a.probe()
			header := []string{"Cookie", cookie, "Content-Type", "application/x-www-form-urlencoded"}
			for _, text := range origin {
				header = append(header, strings.Replace(text, "OWN", i.site.url, 1))
			}
			form := "version=1&reason=x&action=save&name=x&plan=wide&env=x&confirm=1"
			if got := i.site.send(t, e.method, e.path, form, header...); got.status != http.StatusForbidden {
				t.Errorf("%s, %s: %d, want 403", e.pattern, name, got.status)
			}
		}
	}
	i.wantUnchanged(t, before)
	if got := i.site.get(t, "/keys", "Cookie", cookie); got.status != http.StatusOK {
		t.Errorf("the session afterwards: %d", got.status)
	}
}

// A request that browsers send without a preflight reaches no operation of the API.
func TestAttackSimpleRequests(t *testing.T) {
	a, i := attack(t, "requests without preflight",
		"JSON as text/plain and as a form, a junk Authorization beside a good cookie, preflights, "+
			"unusual methods")
	cookie := i.session(t, editorName)
	before := i.newestAuditID(t)
	body := `{"name":"made by another site","plan":"wide"}`
	for _, kind := range []string{
		"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "",
		"text/plain; application/json",
	} {
		a.probe()
		got := i.site.send(t, http.MethodPost, "/api/v1/keys", body, "Cookie", cookie, "Content-Type", kind)
		if got.status != http.StatusForbidden {
			t.Errorf("%q without an origin: %d", kind, got.status)
		}
	}
	for _, junk := range []string{"", "x", "Bearer", "Bearer x", "Basic YTpi", "Bearer " + unknown(t)} {
		a.probe()
		got := i.site.send(t, http.MethodPost, "/api/v1/keys", body, "Cookie", cookie, "Content-Type",
			"application/json", "Authorization", junk)
		if got.status != http.StatusUnauthorized && got.status != http.StatusForbidden {
			t.Errorf("Authorization %q with a cookie: %d", junk, got.status)
		}
	}
	for _, path := range []string{"/api/v1/keys", "/keys", "/login"} {
		a.probe()
		got := i.site.send(t, http.MethodOptions, path, "", "Origin", "https://evil.example",
			"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization")
		for name := range got.header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: a preflight is answered %d with %s", path, got.status, name)
			}
		}
	}
	for _, method := range []string{"TRACE", "PROPFIND", "CONNECTED", "get"} {
		a.probe()
		got := i.site.raw(t, method+" /api/v1/keys HTTP/1.1\r\nHost: x\r\nConnection: close\r\nCookie: "+
			cookie+"\r\n\r\n")
		if got.status < 400 || got.status >= 500 {
			t.Errorf("%s: %d", method, got.status)
		}
	}
	i.wantUnchanged(t, before)
}
