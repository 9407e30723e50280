package dashboard_test

import (
	"net/http"
	"strings"
	"testing"

	"tidegate/functions/admin/auth/token"
	"tidegate/internal/testing/sitetest"
)

// A token is shown once, works on the API until it is revoked, and is listed without its
// secret.
func TestCreateAndRevokeToken(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Get("/settings").Wants(t, http.StatusOK, "Create token")
	created := s.PostThrough("/settings/tokens/new", sitetest.TokenFields("deploy <b>", "write", "7d")).Wants(
		t, http.StatusOK, "It is not shown again.", "deploy &lt;b&gt;",
	)
	secret := sitetest.TokenInPage.FindString(created.Body)
	s.Do(http.MethodGet, "/api/v1/me", nil, sitetest.Bearer(secret)).Wants(t, http.StatusOK,
		`"role":"editor"`)
	listed := s.Get("/settings").Wants(t, http.StatusOK, "read and write", "<bdi>ada</bdi></td>", "UTC")
	if sitetest.TokenInPage.MatchString(listed.Body) || strings.Contains(listed.Body, "never") {
		t.Errorf("the list has the secret, or shows the token as unused:\n%s", listed.Body)
	}
	id := secret[len("tga_"):][:12]
	s.Post("/settings/tokens/"+id+"/revoke", nil).Wants(t, http.StatusSeeOther)
	s.Get("/settings").Wants(t, http.StatusOK, "Token revoked")
	s.Do(http.MethodGet, "/api/v1/me", nil, sitetest.Bearer(secret)).Wants(t, http.StatusUnauthorized)
	s.Post("/settings/tokens/"+id+"/revoke", nil).Wants(t, http.StatusNotFound, "No such token")
	s.Post("/settings/tokens/%7Bx%7D/revoke", nil).Wants(t, http.StatusNotFound)
}

// The form offers every scope, and a token gets the chosen one.
func TestTokenScopes(t *testing.T) {
	s := sitetest.New(t).Login()
	for scope, text := range map[token.Scope]string{token.Read: "read", token.Write: "read and write",
		token.Settle: "settle costs only"} {
		s.Get("/settings/tokens/new").Wants(t, http.StatusOK, `<option value="`+string(scope)+`"`)
		s.PostThrough("/settings/tokens/new", sitetest.TokenFields("t", string(scope), "7d")).Wants(
			t, http.StatusOK)
		s.Get("/settings").Wants(t, http.StatusOK, `data-label="Scope"><bdi>`+text+`</bdi></td>`)
	}
}

// At most token.MaxCount tokens can be created. The page states what to do.
func TestTooManyTokens(t *testing.T) {
	s := sitetest.New(t).Login()
	s.NewToken(token.Read)
	s.Keys.CopyToken(token.MaxCount - 1)
	s.Post("/settings/tokens/new", sitetest.TokenFields("n", "read", "7d")).Wants(t, http.StatusConflict,
		"Revoke one first")
}

func TestSettingsShowVersions(t *testing.T) {
	s := sitetest.New(t, func(s *sitetest.Site) {
		s.Config.Stage, s.Config.Release = "prod<", "v1.2-abc"
	}).LoginAs(sitetest.Viewer)
	s.Get("/settings").Wants(t, http.StatusOK, "prod&lt;", "v1.2-abc", "teststore 1.2.3", "go1.",
		"<bdi>vic</bdi></dd>", "viewer: can read")
	s.Get("/keys").Wants(t, http.StatusOK, "prod&lt;")
}

// The session store does not contain the secret of a token.
func TestTokenSecretNotStored(t *testing.T) {
	s := sitetest.New(t).Login()
	secret := sitetest.TokenInPage.FindString(
		s.PostThrough("/settings/tokens/new", sitetest.TokenFields("n", "read", "7d")).Body,
	)
	if dump := s.Store.Dump(); secret == "" || strings.Contains(dump, secret) ||
		strings.Contains(dump, secret[20:]) {
		t.Errorf("the page lacks the secret, or the session store has it: %q", secret)
	}
}

// The file of tokens has what the API answers, without secrets. The API lists the sessions
// of the user, and marks the one of the request.
func TestAccessLists(t *testing.T) {
	s := sitetest.New(t).Login()
	secret := s.NewToken(token.Write)
	file := s.Get("/settings/tokens.csv").Wants(t, http.StatusOK, "id,name,scope,createdBy,created,expires",
		secret[len("tga_"):][:12], ",write,").Body
	if strings.Contains(file, secret[20:]) {
		t.Error("the file has the secret of a token")
	}
	s.Get("/api/v1/sessions").Wants(t, http.StatusOK, `"items":[{"browser":`, `"current":true`)
	s.Do(http.MethodGet, "/api/v1/sessions", nil, sitetest.Bearer(secret)).Wants(t, http.StatusOK, `"items":[]`)
}
