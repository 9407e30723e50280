package oidc

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/auth"
	"tidegate/internal/testing/oidctest"
)

// finishAt logs in at a scripted provider under an issuer, and finishes with its answer.
func finishAt(t *testing.T, p *oidctest.Scripted, issuer string, change func(*Config)) (Identity, error) {
	t.Helper()
	provider := newProvider(t, Config{Issuer: issuer, ClientID: "dashboard", ClientSecret: "hidden"})
	if change != nil {
		change(&provider.config)
	}
	address, sealed, err := provider.Start(t.Context(), "/")
	if err != nil {
		return Identity{}, err
	}
	return provider.Finish(t.Context(), sealed, oidctest.NewPerson(t, p.URL).Login(address, "").Query())
}

// What providers do differently gives the same log-in.
func TestProvidersDiffer(t *testing.T) {
	for name, row := range map[string]struct {
		script func(*oidctest.Scripted)
		slash  string // at the end of OIDC_ISSUER
		change func(*Config)
	}{
		"Auth0: the issuer ends in a slash, OIDC_ISSUER does not": {
			script: func(p *oidctest.Scripted) { p.Issuer += "/" }},
		"OIDC_ISSUER ends in a slash, the issuer does not": {slash: "/"},
		"the answer's issuer differs in the slash": {
			script: func(p *oidctest.Scripted) { p.Answer = url.Values{"iss": {p.URL + "/"}} }},
		"Zitadel: roles are names in an object, at the userinfo endpoint": {
			script: func(p *oidctest.Scripted) {
				p.Claims = map[string]any{"aud": []string{"dashboard", "312"}, "azp": "dashboard"}
				p.UserInfo = map[string]any{"urn:zitadel:iam:org:project:roles": map[string]any{
					"ops": map[string]any{"312": "shop.example"}}}
			},
			change: func(c *Config) { c.RoleClaim = "urn:zitadel:iam:org:project:roles" }},
		"Keycloak: roles are in an object": {
			script: func(p *oidctest.Scripted) {
				p.Claims = map[string]any{"realm_access": map[string]any{"roles": []string{"a", "ops"}}}
			},
			change: func(c *Config) { c.RoleClaim = "realm_access.roles" }},
		"Cognito: no userinfo endpoint, email_verified is a text": {
			script: func(p *oidctest.Scripted) {
				p.Discovery = map[string]any{"userinfo_endpoint": ""}
				p.Claims = map[string]any{"email": "ada@example.com", "email_verified": "true"}
			},
			change: func(c *Config) { c.RoleClaim, c.EditorValues = "email", []string{"ada@example.com"} }},
		"the provider's clock is behind": {
			script: func(p *oidctest.Scripted) { p.Skew = -time.Hour - leeway/2 }},
		"the provider's clock is ahead": {
			script: func(p *oidctest.Scripted) {
				p.Claims["nbf"] = time.Now().Add(leeway).Unix()
				p.Skew = leeway
			}},
	} {
		t.Run(name, func(t *testing.T) {
			p := oidctest.NewScripted(t)
			p.Claims = map[string]any{"groups": []string{"ops"}}
			if row.script != nil {
				row.script(p)
			}
			got, err := finishAt(t, p, p.URL+row.slash, row.change)
			if err != nil || got.Actor.ID != "oidc:u1" || got.Actor.Role != auth.Editor {
				t.Errorf("got %+v, %v, want the editor u1", got, err)
			}
		})
	}
}

// What does not fit is refused, with both sides in the error.
func TestMisfitsAreNamed(t *testing.T) {
	for name, row := range map[string]struct {
		script func(*oidctest.Scripted)
		kind   error // ErrUsed, or a value of the error's type
		texts  []string
	}{
		"Entra ID: the issuer of common": {
			func(p *oidctest.Scripted) { p.Issuer = "https://login.example/{tenantid}/v2.0" },
			&SetupError{}, []string{"https://login.example/{tenantid}/v2.0", "OIDC_ISSUER"}},
		"no token endpoint": {
			func(p *oidctest.Scripted) { p.Discovery = map[string]any{"token_endpoint": ""} },
			&SetupError{}, []string{"token_endpoint"}},
		"another issuer answers": {
			func(p *oidctest.Scripted) { p.Answer = url.Values{"iss": {"https://other.example"}} },
			invalid, []string{`"https://other.example"`, "127.0.0.1"}},
		"another issuer of the id token": {
			func(p *oidctest.Scripted) { p.Claims["iss"] = "https://other.example" },
			invalid, []string{`"https://other.example"`, "127.0.0.1"}},
		"another client": {
			func(p *oidctest.Scripted) { p.Claims["aud"] = "other" },
			invalid, []string{"other", "dashboard"}},
		"another party": {
			func(p *oidctest.Scripted) {
				p.Claims["aud"], p.Claims["azp"] = []string{"dashboard", "x"}, "x"
			}, invalid, []string{`"x"`, `"dashboard"`}},
		"expired": {
			func(p *oidctest.Scripted) { p.Skew = -time.Hour - 2*leeway },
			invalid, []string{"expired at", "clock"}},
		"an unknown scope": {
			func(p *oidctest.Scripted) {
				p.TokenError = map[string]any{"error": "invalid_scope",
					"error_description": "groups is no scope"}
			},
			invalid, []string{"invalid_scope: groups is no scope"}},
		"the secret": {
			func(p *oidctest.Scripted) {
				p.TokenError = map[string]any{"error": "invalid_client",
					"error_description": "AADSTS7000215: Invalid client secret provided"}
			},
			&SetupError{}, []string{"OIDC_CLIENT_SECRET", "AADSTS7000215"}},
		"the secret, quoted": {
			func(p *oidctest.Scripted) {
				p.TokenError = map[string]any{"error": "invalid_client",
					"error_description": "hidden is wrong"}
			},
			&SetupError{}, []string{"(invalid_client)"}},
		"a used code": {
			func(p *oidctest.Scripted) { p.TokenError = map[string]any{"error": "invalid_grant"} },
			ErrUsed, []string{"invalid_grant"}},
		"userinfo refuses": {
			func(p *oidctest.Scripted) { p.Claims["groups"], p.UserInfoStatus = nil, http.StatusForbidden },
			invalid, []string{"userinfo", "403"}},
		"another subject of userinfo": {
			func(p *oidctest.Scripted) { p.Claims["groups"] = nil; p.UserInfo = map[string]any{"sub": "u2"} },
			invalid, []string{`"u2"`, `"u1"`}},
		"the provider's words": {
			func(p *oidctest.Scripted) {
				p.Answer = url.Values{"error": {"access_denied"},
					"error_description": {"User is not assigned"}}
			}, &RefusedError{}, []string{"access_denied: User is not assigned"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := oidctest.NewScripted(t)
			p.Claims = map[string]any{"groups": []string{"ops"}}
			row.script(p)
			got, err := finishAt(t, p, p.URL, nil)
			if err == nil || got.Actor.Known() || !sameKind(err, row.kind) {
				t.Fatalf("got %+v, %v, want the kind %T", got, err, row.kind)
			}
			for _, text := range row.texts {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("got %v, want %s in it", err, text)
				}
			}
			if strings.Contains(err.Error(), "hidden") {
				t.Errorf("got %v, which has the client's secret", err)
			}
		})
	}
}

func sameKind(err, want error) bool {
	if _, ok := errors.AsType[*SetupError](want); ok {
		_, ok = errors.AsType[*SetupError](err)
		return ok
	}
	if _, ok := errors.AsType[*RefusedError](want); ok {
		_, ok = errors.AsType[*RefusedError](err)
		return ok
	}
	return isKind(err, want)
}

// An answer that is not the discovery document is named, and no outage.
func TestDiscoveryElsewhere(t *testing.T) {
	p := oidctest.NewScripted(t)
	_, err := finishAt(t, p, p.URL+"/realms/none", nil)
	setup, ok := errors.AsType[*SetupError](err)
	if !ok || !strings.Contains(setup.Why, "/realms/none/.well-known/openid-configuration answered 404") {
		t.Errorf("got %v, want a SetupError with the address and 404", err)
	}
}

// A provider whose keys are away is away: its answer is not called invalid.
func TestKeysAway(t *testing.T) {
	p := oidctest.NewScripted(t)
	p.Discovery = map[string]any{"jwks_uri": p.URL + "/none"}
	_, err := finishAt(t, p, p.URL, nil)
	if err == nil || isKind(err, invalid) || !strings.Contains(err.Error(), "the provider's keys") {
		t.Errorf("got %v, want an error about keys", err)
	}
}

// The address to log out has what the standard and Amazon Cognito want. There is none for
// Okta.
func TestLogoutElsewhere(t *testing.T) {
	p := oidctest.NewScripted(t)
	p.Discovery = map[string]any{"end_session_endpoint": p.URL + "/logout?x=1"}
	provider := newProvider(t, Config{Issuer: p.URL, ClientID: "dashboard"})
	u, err := url.Parse(provider.LogoutURL(t.Context(), "https://x.example/login"))
	if err != nil {
		t.Fatal(err)
	}
	want := url.Values{"x": {"1"}, "client_id": {"dashboard"}, "logout_uri": {"https://x.example/login"},
		"post_logout_redirect_uri": {"https://x.example/login"}}
	if u.Path != "/logout" || u.RawQuery != want.Encode() {
		t.Errorf("got %s, want /logout?%s", u, want.Encode())
	}
	for _, path := range []string{"/oauth2/v1/logout", "/oauth2/default/v1/logout"} {
		okta := oidctest.NewScripted(t)
		okta.Discovery = map[string]any{"end_session_endpoint": okta.URL + path}
		provider := newProvider(t, Config{Issuer: okta.URL, ClientID: "dashboard"})
		if got := provider.LogoutURL(t.Context(), "https://x.example/login"); got != "" {
			t.Errorf("got %s, want none", got)
		}
	}
}
