//go:build unix

package attacks

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// A key opens its own view and no other page, and no other credential opens that view.
func TestAttackOwnView(t *testing.T) {
	a, i := attack(t, "the view of a key's owner",
		"keys that may not call, cookies and machine tokens at `/api/v1/self` and `/self`; a good key, in "+
			"every place, at each other route; a key's text in the query; 40 unknown keys of one network")
	const address = "203.0.113.77"
	k, secret := i.key(t, wide)
	_, other := i.key(t, wide)
	look := func(header ...string) reply {
		a.probe()
		return i.site.from(t, address, http.MethodGet, "/api/v1/self", "", header...)
	}
	if got := look("X-API-Key", secret); got.status != http.StatusOK ||
		!strings.Contains(got.body, k.ID) || strings.Contains(got.body, other[8:20]) {
		t.Fatalf("a good key: %d %s", got.status, got.body)
	}
	made, _ := i.store.Get(t.Context(), k.ID)
	for name, header := range map[string][]string{
		"none": nil, "revoked": {"X-API-Key", i.revoked(t)}, "expired": {"X-API-Key", i.expired(t)},
		"banned": {"X-API-Key", i.banned(t)}, "unknown": {"X-API-Key", unknown(t)},
		"two": {"X-API-Key", secret, "X-API-Key", other}, "joined": {"X-API-Key", secret + "," + other},
		"an editor's session": {"Cookie", i.session(t, editorName)},
		"a write token":       {"Authorization", "Bearer " + i.machine(t, "write")},
	} {
		if got := look(header...); got.status != http.StatusUnauthorized {
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
		got := i.site.from(t, address, http.MethodGet, "/self"+query, "")
		if got.status != http.StatusOK || strings.Contains(got.body, k.ID) {
			t.Errorf("%s in the page's query: %d", name, got.status)
		}
	}
	statuses := map[int]int{}
	for range 40 {
		statuses[look("X-API-Key", unknown(t)).status]++
	}
	if statuses[http.StatusUnauthorized] > 20 || statuses[http.StatusTooManyRequests] < 20 {
		t.Errorf("unknown keys: %v", statuses)
	}
	i.unchanged(t, before)
	if now, err := i.store.Get(t.Context(), k.ID); err != nil || now.Version != made.Version {
		t.Errorf("the key: %+v, %v", now, err)
	}
}

// public reports whether a route needs no log-in.
func public(e endpoint) bool {
	switch _, path, _ := strings.Cut(e.pattern, " "); path {
	case "/healthz", "/healthz/live", "/static/{file}", "/theme", "/login", "/login/oidc",
		"/login/oidc/callback", "/self", "/api/v1/self":
		return true
	}
	return false
}
