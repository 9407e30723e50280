package dashboard

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"tidegate/functions/admin/auth/token"
)

func tokenFields(name, scope, days string) url.Values {
	return url.Values{"name": {name}, "scope": {scope}, "days": {days}}
}

var tokenInPage = regexp.MustCompile(`tga_[0-9A-Za-z]{49}`)

// A token is shown once, works on the API, is listed without its secret, and ends when it
// is revoked.
func TestTokenOnThePage(t *testing.T) {
	s := newSite(t).login()
	s.get("/settings").wants(t, http.StatusOK, "Make the token")
	made := s.post("/settings/tokens", tokenFields("deploy <b>", "write", "7")).wants(t, http.StatusCreated, "only time", "deploy &lt;b&gt;")
	secret := tokenInPage.FindString(made.body)
	s.do(http.MethodGet, "/api/v1/me", nil, bearer(secret)).wants(t, http.StatusOK, `"role":"editor"`)
	listed := s.get("/settings").wants(t, http.StatusOK, "read and write", "<bdi>ada</bdi></td>", "UTC")
	if tokenInPage.MatchString(listed.body) || strings.Contains(listed.body, "never") {
		t.Errorf("listed with its secret, or as unused:\n%s", listed.body)
	}
	id := secret[len("tga_"):][:12]
	s.post("/settings/tokens/"+id+"/revoke", nil).wants(t, http.StatusSeeOther)
	s.get("/settings").wants(t, http.StatusOK, "Revoked: no call")
	s.do(http.MethodGet, "/api/v1/me", nil, bearer(secret)).wants(t, http.StatusUnauthorized)
	s.post("/settings/tokens/"+id+"/revoke", nil).wants(t, http.StatusSeeOther)
	s.get("/settings").wants(t, http.StatusOK, "gone already")
	s.post("/settings/tokens/%7Bx%7D/revoke", nil).wants(t, http.StatusSeeOther)
}

// The form offers every scope, and a token has the one that was chosen.
func TestScopesOnThePage(t *testing.T) {
	s := newSite(t).login()
	for scope, words := range map[token.Scope]string{token.Read: "read", token.Write: "read and write", token.Settle: "settle costs only"} {
		s.post("/settings/tokens", tokenFields("t", string(scope), "7")).wants(t, http.StatusCreated, `<option value="`+string(scope)+`"`)
		s.get("/settings").wants(t, http.StatusOK, `<td data-label="May">`+words+`</td>`)
	}
}

// What is wrong with a form stands beside its field, with what was typed, and nothing is
// made.
func TestTokenFormErrors(t *testing.T) {
	s := newSite(t).login()
	for want, form := range map[string]url.Values{
		"It is missing.":                tokenFields("  ", "read", "7"),
		"Has more than 64 characters.":  tokenFields(strings.Repeat("n", 65), "read", "7"),
		"cannot be printed":             tokenFields("a\u202eb", "read", "7"),
		"Must be read, write or settle": tokenFields("n", "root", "7"),
		"within the next 366 days":      tokenFields("n", "read", "9999"),
		"Must be within the next 366":   tokenFields("n", "read", "soon"),
		"Must be within the next 366 d": tokenFields("n", "read", "-1"),
	} {
		got := s.post("/settings/tokens", form).wants(t, http.StatusUnprocessableEntity, want, `aria-invalid="true"`)
		if tokenInPage.MatchString(got.body) {
			t.Errorf("%v: a token was made", form)
		}
	}
	if all, err := s.tokens.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}

// There is an end to the tokens, and it is told.
func TestTooManyTokens(t *testing.T) {
	s := newSite(t).login()
	for range token.MaxCount {
		s.newToken(token.Read)
	}
	s.post("/settings/tokens", tokenFields("n", "read", "7")).wants(t, http.StatusUnprocessableEntity, "revoke one first")
}

func TestSettingsTellWhatRuns(t *testing.T) {
	s := newSite(t, func(s *site) { s.config.Stage, s.config.Release = "prod<", "v1.2-abc" }).loginAs(testViewer)
	s.get("/settings").wants(t, http.StatusOK, "prod&lt;", "v1.2-abc", "teststore 1.2.3", "go1.", "<bdi>vic</bdi></dd>", "viewer: may look")
	s.get("/keys").wants(t, http.StatusOK, "prod&lt;")
}

// The secret of a token is in no log and no session.
func TestTokenSecretStaysInTheAnswer(t *testing.T) {
	s := newSite(t).login()
	secret := tokenInPage.FindString(s.post("/settings/tokens", tokenFields("n", "read", "7")).body)
	if dump := s.store.Dump(); secret == "" || strings.Contains(dump, secret) || strings.Contains(dump, secret[20:]) {
		t.Errorf("%q is in the store", secret)
	}
}
