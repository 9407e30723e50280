package dashboard_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/server/sitetest"
)

// A token is shown once, works on the API, is listed without its secret, and ends when it
// is revoked.
func TestTokenOnThePage(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Get("/settings").Wants(t, http.StatusOK, "Create token")
	made := s.PostThrough("/settings/tokens", sitetest.TokenFields("deploy <b>", "write", "7")).Wants(
		t, http.StatusOK, "It is not shown again.", "deploy &lt;b&gt;",
	)
	secret := sitetest.TokenInPage.FindString(made.Body)
	s.Do(http.MethodGet, "/api/v1/me", nil, sitetest.Bearer(secret)).Wants(t, http.StatusOK,
		`"role":"editor"`)
	listed := s.Get("/settings").Wants(t, http.StatusOK, "read and write", "<bdi>ada</bdi></td>", "UTC")
	if sitetest.TokenInPage.MatchString(listed.Body) || strings.Contains(listed.Body, "never") {
		t.Errorf("listed with its secret, or as unused:\n%s", listed.Body)
	}
	id := secret[len("tga_"):][:12]
	s.Post("/settings/tokens/"+id+"/revoke", nil).Wants(t, http.StatusSeeOther)
	s.Get("/settings").Wants(t, http.StatusOK, "Token revoked")
	s.Do(http.MethodGet, "/api/v1/me", nil, sitetest.Bearer(secret)).Wants(t, http.StatusUnauthorized)
	s.Post("/settings/tokens/"+id+"/revoke", nil).Wants(t, http.StatusSeeOther)
	s.Get("/settings").Wants(t, http.StatusOK, "Token already revoked")
	s.Post("/settings/tokens/%7Bx%7D/revoke", nil).Wants(t, http.StatusSeeOther)
}

// The form offers every scope, and a token has the one that was chosen.
func TestScopesOnThePage(t *testing.T) {
	s := sitetest.New(t).Login()
	for scope, words := range map[token.Scope]string{token.Read: "read", token.Write: "read and write",
		token.Settle: "settle costs only"} {
		s.PostThrough("/settings/tokens", sitetest.TokenFields("t", string(scope), "7")).Wants(
			t, http.StatusOK, `<option value="`+string(scope)+`"`,
		)
		s.Get("/settings").Wants(t, http.StatusOK, `<td data-label="Scope">`+words+`</td>`)
	}
}

// A form with errors shows each next to its field, keeps what was typed and creates
// nothing.
func TestTokenFormErrors(t *testing.T) {
	s := sitetest.New(t).Login()
	for want, form := range map[string]url.Values{
		"It is missing.":                sitetest.TokenFields("  ", "read", "7"),
		"Has more than 64 characters.":  sitetest.TokenFields(strings.Repeat("n", 65), "read", "7"),
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
			t.Errorf("%v: a token was made", form)
		}
	}
	if all, err := s.Tokens.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}

// The number of tokens has a bound, and the page says it.
func TestTooManyTokens(t *testing.T) {
	s := sitetest.New(t).Login()
	for range token.MaxCount {
		s.NewToken(token.Read)
	}
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
		"viewer: may read",
	)
	s.Get("/keys").Wants(t, http.StatusOK, "prod&lt;")
}

// The secret of a token is in no log and no session.
func TestTokenSecretStaysInTheAnswer(t *testing.T) {
	s := sitetest.New(t).Login()
	secret := sitetest.TokenInPage.FindString(
		s.PostThrough("/settings/tokens", sitetest.TokenFields("n", "read", "7")).Body,
	)
	if dump := s.Store.Dump(); secret == "" || strings.Contains(dump, secret) ||
		strings.Contains(dump, secret[20:]) {
		t.Errorf("%q is in the store", secret)
	}
}
