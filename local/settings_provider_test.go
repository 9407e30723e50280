//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	neturl "net/url"
	"strings"
	"testing"

	"tidegate/internal/testing/oidctest"
)

const publicURL = "https://admin.example.com"

// provider starts an OpenID provider, and returns the variables with which the dashboard
// uses it, with changes.
func provider(t *testing.T) (issuer string, with func(changes ...string) map[string]string) {
	t.Helper()
	issuer = oidctest.Start(t, oidctest.Options{Clients: []oidctest.Client{
		{ID: "dashboard", Secret: "dashboard-secret",
			RedirectURIs: []string{publicURL + "/login/oidc/callback"}},
	}})
	return issuer, func(changes ...string) map[string]string {
		all := map[string]string{
			"OIDC_ISSUER": issuer, "OIDC_CLIENT_ID": "dashboard", "OIDC_CLIENT_SECRET": "dashboard-secret",
			"OIDC_SCOPES":        "openid profile groups",
			"OIDC_EDITOR_VALUES": "ops", "ADMIN_URL": publicURL,
		}
		for i := 0; i+1 < len(changes); i += 2 {
			all[changes[i]] = changes[i+1]
		}
		return all
	}
}

// atTheProvider returns a parameter of the address to which the dashboard sends users for
// the log-in.
func atTheProvider(parameter string) func(*testing.T, administered) string {
	return func(t *testing.T, a administered) string {
		t.Helper()
		r := a.send(t, http.MethodGet, "/login/oidc", "")
		to, err := neturl.Parse(r.location)
		if err != nil || r.status != http.StatusSeeOther {
			return fmt.Sprint(r.status)
		}
		return to.Query().Get(parameter)
	}
}

// role returns the role of a user in the group ops who logs in at the provider.
func role(t *testing.T, a administered) string {
	t.Helper()
	begun := a.send(t, http.MethodGet, "/login/oidc", "")
	issuer, _, _ := strings.Cut(begun.location, "/auth?")
	back := oidctest.NewPerson(t, issuer).Login(begun.location, "olga:ops")
	in := a.send(t, http.MethodGet, back.RequestURI(), "", "Cookie", cookieOf(begun))
	if in.status != http.StatusSeeOther {
		return "not in"
	}
	me := a.send(t, http.MethodGet, "/api/v1/me", "", "Cookie", cookieOf(in))
	var who struct{ Role string }
	if err := json.Unmarshal([]byte(me.body), &who); err != nil {
		t.Fatalf("%v: %s", err, me.body)
	}
	return who.Role
}

// Every documented variable of the OpenID provider changes what the built function does.
func TestAdminProviderVariables(t *testing.T) {
	issuer, oidc := provider(t)
	obeyedByAdmin(t, true, map[string]setting[administered]{
		"ADMIN_URL": {oidc(), map[string]string{
			publicURL:           publicURL + "/login/oidc/callback",
			"https://x.example": "https://x.example/login/oidc/callback",
		}, atTheProvider("redirect_uri")},
		"OIDC_ISSUER": {oidc(), map[string]string{issuer: "303", "http://127.0.0.1:1": "502"},
			status("/login/oidc")},
		"OIDC_CLIENT_ID": {oidc(), map[string]string{"dashboard": "dashboard", "other": "other"},
			atTheProvider("client_id")},
		"OIDC_CLIENT_SECRET": {oidc(),
			map[string]string{"dashboard-secret": "editor", "another-secret": "not in"}, role},
		"OIDC_SCOPES": {oidc(), map[string]string{"openid profile": "openid profile",
			"openid": "openid"}, atTheProvider("scope")},
		"OIDC_ROLE_CLAIM":    {oidc(), map[string]string{"groups": "editor", "teams": "not in"}, role},
		"OIDC_EDITOR_VALUES": {oidc(), map[string]string{"ops": "editor", "leads": "not in"}, role},
		"OIDC_VIEWER_VALUES": {oidc("OIDC_EDITOR_VALUES", "leads"),
			map[string]string{"ops": "viewer", "staff": "not in"}, role},
	})
}
