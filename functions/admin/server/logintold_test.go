package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/server/sitetest"
	"tidegate/internal/audit"
)

// Logins are told in the audit, refused ones too, with the names of those who exist and
// nothing else that was typed.
func TestLoginsAreTold(t *testing.T) {
	s := sitetest.New(t)
	s.Post("/login", loginForm(sitetest.User, "hunter2")).Wants(t, http.StatusUnauthorized)
	s.Post("/login", loginForm("my secret passphrase", "hunter2")).Wants(t, http.StatusUnauthorized)
	s.Login()
	page, err := s.Keys.Audit().List(t.Context(), audit.Query{Subject: audit.LoginSubject})
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, e := range page.Entries {
		told = append(told, e.Action+" by "+e.By.Name+" of "+e.Name)
	}
	want := "login by ada of ada; login.refused by login of ; login.refused by login of ada"
	if got := strings.Join(told, "; "); got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	body := s.Get("/audit?what=login").Wants(t, http.StatusOK, "login.refused", `href="/settings"`).Body
	for _, secret := range []string{"hunter2", "passphrase", sitetest.Password, "/revert"} {
		if strings.Contains(body, secret) {
			t.Errorf("the page has %q", secret)
		}
	}
}

// A flood of refused logins fills no audit: a hundred an hour are told.
func TestRefusedLoginsAreBounded(t *testing.T) {
	s := sitetest.New(t)
	s.Store.SetTime(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC))
	told := 0
	for range 130 {
		tell, err := s.Services.Logins.Tell(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if tell {
			told++
		}
	}
	if told != 100 {
		t.Errorf("%d are told", told)
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
