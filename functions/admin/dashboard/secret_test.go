package dashboard_test

import (
	"net/http"
	"strings"
	"testing"

	"tidegate/internal/testing/sitetest"
)

// The session store holds a new secret encrypted, for one page of the session that
// created it. No reload, second tab, other session or other user sees it. This holds for
// machine tokens too.
func TestSecretPageOnce(t *testing.T) {
	s := sitetest.New(t).Login()
	other := newSession(s)
	viewer := newSession(s).LoginAs(sitetest.Viewer)
	created := s.Post("/keys", fields("name", "new", "plan", "free", "env", "live", "lasts", "never")).Wants(
		t, http.StatusSeeOther)
	at := created.Header.Get("Location")
	if !strings.HasPrefix(at, "/secrets/") || strings.Contains(at+created.Body, "tg_live_") {
		t.Fatalf("the form redirects to %s, want /secrets/ without the secret", at)
	}
	stored := s.Store.Dump()
	other.Get(at).Wants(t, http.StatusGone, "This secret was shown once")
	viewer.Get(at).Wants(t, http.StatusForbidden)
	s.Get(strings.Replace(at, "/secrets", "/keys", 1)).Wants(t, http.StatusOK)
	secret := secretInPage.FindStringSubmatch(s.Get(at).Wants(t, http.StatusOK, "Key created: “new”").Body)
	if secret == nil || strings.Contains(stored, secret[1]) || strings.Contains(stored, secret[1][20:]) {
		t.Errorf("the page lacks the secret, or the session store has it unencrypted: %q", secret)
	}
	for range 2 { // a reload, the back button or a second tab
		body := s.Get(at).Wants(t, http.StatusGone, "Rotate the key for a new one.").Body
		if strings.Contains(body, "tg_live_") {
			t.Error("the secret is shown again")
		}
	}
	if n := strings.Count(s.Get("/keys").Wants(t, http.StatusOK).Body, "<bdi>new</bdi></a>"); n != 1 {
		t.Errorf("%d keys were created, want 1", n)
	}
	s.Post("/settings/tokens/new", sitetest.TokenFields("n", "read", "7d")).Wants(t, http.StatusSeeOther)
	tokens, err := s.Tokens.List(t.Context())
	if err != nil || len(tokens) != 1 {
		t.Fatalf("got tokens %v, %v, want 1", tokens, err)
	}
	tokenPage := "/settings?made=" + tokens[0].ID
	if sitetest.TokenInPage.MatchString(other.Get(tokenPage).Body + s.Get("/settings?made=x").Body) {
		t.Error("another session or address shows the token")
	}
	first := s.Get(tokenPage).Body
	second := s.Get(tokenPage).Body
	if !sitetest.TokenInPage.MatchString(first) || sitetest.TokenInPage.MatchString(second) {
		t.Error("the token is not shown exactly once")
	}
}
