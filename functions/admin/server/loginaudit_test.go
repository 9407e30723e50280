package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/server/sitetest"
	"tidegate/internal/audit"
)

// The audit records logins, refused ones too, with the names of those who exist and
// nothing else that was typed.
func TestLoginsAreAudited(t *testing.T) {
	s := sitetest.New(t)
	s.Post("/login", loginForm(sitetest.User, "hunter2")).Wants(t, http.StatusUnauthorized)
	s.Post("/login", loginForm("my secret passphrase", "hunter2")).Wants(t, http.StatusUnauthorized)
	s.Login()
	page, err := s.Keys.Audit().List(t.Context(), audit.Query{Subject: audit.LoginSubject})
	if err != nil {
		t.Fatal(err)
	}
	var recorded []string
	for _, e := range page.Entries {
		recorded = append(recorded, e.Action+" by "+e.By.Name+" of "+e.Name)
	}
	want := "login by ada of ada; login.refused by login of ; login.refused by login of ada"
	if got := strings.Join(recorded, "; "); got != want {
		t.Errorf("recorded %q, want %q", got, want)
	}
	body := s.Get("/audit?what=login").Wants(t, http.StatusOK, "login.refused", `href="/settings"`).Body
	for _, secret := range []string{"hunter2", "passphrase", sitetest.Password, "/revert"} {
		if strings.Contains(body, secret) {
			t.Errorf("the page has %q", secret)
		}
	}
}

// A flood of refused logins fills no audit: it records a hundred an hour.
func TestRefusedLoginsAreBounded(t *testing.T) {
	s := sitetest.New(t)
	s.Store.SetTime(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC))
	recorded := 0
	for range 130 {
		allowed, err := s.Services.Logins.AllowAudit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if allowed {
			recorded++
		}
	}
	if recorded != 100 {
		t.Errorf("%d are recorded", recorded)
	}
	s.Post("/login", loginForm(sitetest.User, "wrong")).Wants(t, http.StatusUnauthorized)
	if page, err := s.Keys.Audit().List(t.Context(), audit.Query{
		Subject: audit.LoginSubject,
	}); err != nil || len(page.Entries) != 0 {
		t.Errorf("%v, %v", page.Entries, err)
	}
}

// No log-in succeeds without its audit entry.
func TestLoginWithoutAudit(t *testing.T) {
	s := sitetest.New(t)
	s.Keys.Fail("ERR read only")
	s.Post("/login", loginForm(sitetest.User, sitetest.Password)).Wants(t, http.StatusServiceUnavailable)
	if s.Cookie() != nil {
		t.Error("a log-in succeeded without its audit entry")
	}
	s.Keys.Fail("")
	s.Login()
}
