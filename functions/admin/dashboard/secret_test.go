package dashboard_test

import (
	"net/http"
	"strings"
	"testing"

	"tidegate/functions/admin/server/sitetest"
)

// A new secret waits sealed for one page of who asked for it: no reload, second tab,
// other session or other user sees it, no second key is made, and no log or store has
// it.
func TestSecretIsTakenOnce(t *testing.T) {
	s := sitetest.New(t).Login()
	other := anotherSession(s)
	viewer := anotherSession(s).LoginAs(sitetest.Viewer)
	made := s.Post("/keys", fields("name", "new", "plan", "free", "env", "live", "lasts", "never")).Wants(
		t, http.StatusSeeOther)
	at := made.Header.Get("Location")
	if !strings.HasPrefix(at, "/secrets/") || strings.Contains(at+made.Body, "tg_live_") {
		t.Fatalf("leads to %s", at)
	}
	waiting := s.Store.Dump()
	other.Get(at).Wants(t, http.StatusGone, "This secret was shown once")
	viewer.Get(at).Wants(t, http.StatusForbidden)
	s.Get(strings.Replace(at, "/secrets", "/keys", 1)).Wants(t, http.StatusOK)
	secret := secretInPage.FindStringSubmatch(s.Get(at).Wants(t, http.StatusOK, "Key created: “new”").Body)
	if secret == nil || strings.Contains(waiting, secret[1]) || strings.Contains(waiting, secret[1][20:]) {
		t.Errorf("%q waits in the store unsealed", secret)
	}
	for range 2 { // a reload, the back button or a second tab
		body := s.Get(at).Wants(t, http.StatusGone, "Rotate the key for a new one.").Body
		if strings.Contains(body, "tg_live_") {
			t.Error("shown again")
		}
	}
	if n := strings.Count(s.Get("/keys").Wants(t, http.StatusOK).Body, "<bdi>new</bdi></a>"); n != 1 {
		t.Errorf("%d keys were made", n)
	}
	s.Post("/settings/tokens", sitetest.TokenFields("n", "read", "7")).Wants(t, http.StatusSeeOther)
	tokens, err := s.Tokens.List(t.Context())
	if err != nil || len(tokens) != 1 {
		t.Fatal(tokens, err)
	}
	shown := "/settings?made=" + tokens[0].ID
	if sitetest.TokenInPage.MatchString(other.Get(shown).Body + s.Get("/settings?made=x").Body) {
		t.Error("another session or address shows the token")
	}
	first, second := s.Get(shown).Body, s.Get(shown).Body
	if !sitetest.TokenInPage.MatchString(first) || sitetest.TokenInPage.MatchString(second) {
		t.Error("the token is not shown once")
	}
}
