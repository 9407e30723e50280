package dashboard_test

import (
	"net/http"
	"net/url"
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
	created := s.PostThrough("/settings/tokens", sitetest.TokenFields("deploy <b>", "write", "7")).Wants(
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
	s.Post("/settings/tokens/"+id+"/revoke", nil).Wants(t, http.StatusSeeOther)
	s.Get("/settings").Wants(t, http.StatusOK, "Token already revoked")
	s.Post("/settings/tokens/%7Bx%7D/revoke", nil).Wants(t, http.StatusSeeOther)
}

// The form offers every scope, and a token gets the chosen one.
func TestTokenScopes(t *testing.T) {
	s := sitetest.New(t).Login()
	for scope, text := range map[token.Scope]string{token.Read: "read", token.Write: "read and write",
		token.Settle: "settle costs only"} {
		s.PostThrough("/settings/tokens", sitetest.TokenFields("t", string(scope), "7")).Wants(
			t, http.StatusOK, `<option value="`+string(scope)+`"`,
		)
		s.Get("/settings").Wants(t, http.StatusOK, `data-label="Scope"><bdi>`+text+`</bdi></td>`)
	}
}

// An invalid field of the form gets an error, and no token is created.
func TestTokenFormErrors(t *testing.T) {
	s := sitetest.New(t).Login()
	for want, form := range map[string]url.Values{
		"1 to 64 characters":            sitetest.TokenFields("  ", "read", "7"),
		"longer than 64 characters":     sitetest.TokenFields(strings.Repeat("n", 65), "read", "7"),
		"cannot be printed":             sitetest.TokenFields("a\u202eb", "read", "7"),
		"Must be read, write or settle": sitetest.TokenFields("n", "root", "7"),
		"within the next 366 days":      sitetest.TokenFields("n", "read", "9999"),
		"Must be within the next 366":   sitetest.TokenFields("n", "read", "soon"),
		"Must be within the next 366 d": sitetest.TokenFields("n", "read", "-1"),
	} {
		got := s.Post("/settings/tokens", form).Wants(
			t, http.StatusUnprocessableEntity, want, `aria-invalid="true"`,
		)
		if sitetest.TokenInPage.MatchString(got.Body) {
			t.Errorf("%v: a token was created", form)
		}
	}
	if all, err := s.Tokens.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("got tokens %v, %v, want none", all, err)
	}
}

// At most token.MaxCount tokens can be created. The page states what to do.
func TestTooManyTokens(t *testing.T) {
	s := sitetest.New(t).Login()
	s.NewToken(token.Read)
	s.Keys.CopyToken(token.MaxCount - 1)
	s.Post("/settings/tokens", sitetest.TokenFields("n", "read", "7")).Wants(
		t, http.StatusUnprocessableEntity, "revoke one first",
	)
}

func TestSettingsShowVersions(t *testing.T) {
	s := sitetest.New(t, func(s *sitetest.Site) {
		s.Config.Stage, s.Config.Release = "prod<", "v1.2-abc"
	}).LoginAs(sitetest.Viewer)
	s.Get("/settings").Wants(
		t, http.StatusOK, "prod&lt;", "v1.2-abc", "teststore 1.2.3", "go1.", "<bdi>vic</bdi></dd>",
		"viewer: can read",
	)
	s.Get("/keys").Wants(t, http.StatusOK, "prod&lt;")
}

// The session store does not contain the secret of a token.
func TestTokenSecretNotStored(t *testing.T) {
	s := sitetest.New(t).Login()
	secret := sitetest.TokenInPage.FindString(
		s.PostThrough("/settings/tokens", sitetest.TokenFields("n", "read", "7")).Body,
	)
	if dump := s.Store.Dump(); secret == "" || strings.Contains(dump, secret) ||
		strings.Contains(dump, secret[20:]) {
		t.Errorf("the page lacks the secret, or the session store has it: %q", secret)
	}
}
