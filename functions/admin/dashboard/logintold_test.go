package dashboard

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"tidegate/internal/audit"
)

// Logins are told in the audit, refused ones too, with the names of those who exist and
// nothing else that was typed.
func TestLoginsAreTold(t *testing.T) {
	s := newSite(t)
	s.post("/login", loginForm(testUser, "hunter2")).wants(t, http.StatusUnauthorized)
	s.post("/login", loginForm("my secret passphrase", "hunter2")).wants(t, http.StatusUnauthorized)
	s.login()
	page, err := s.keys.Audit().List(t.Context(), audit.Query{Subject: loginSubject})
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
	body := s.get("/audit?what=login").wants(t, http.StatusOK, "login.refused", `href="/settings"`).body
	for _, secret := range []string{"hunter2", "passphrase", testSecret, "/revert"} {
		if strings.Contains(body, secret) {
			t.Errorf("the page has %q", secret)
		}
	}
}

// A flood of refused logins fills no audit: a hundred an hour are told.
func TestRefusedLoginsAreBounded(t *testing.T) {
	s := newSite(t)
	s.store.SetTime(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC))
	told := 0
	for range 130 {
		tell, err := s.service.Logins.Tell(t.Context())
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
	s.post("/login", loginForm(testUser, "wrong")).wants(t, http.StatusUnauthorized)
	if page, err := s.keys.Audit().List(t.Context(), audit.Query{Subject: loginSubject}); err != nil || len(page.Entries) != 0 {
		t.Errorf("%v, %v", page.Entries, err)
	}
}

// Nobody logs in untold.
func TestLoginWithoutAudit(t *testing.T) {
	s := newSite(t)
	s.keys.fail("ERR read only")
	s.post("/login", loginForm(testUser, testSecret)).wants(t, http.StatusServiceUnavailable)
	if s.cookie() != nil {
		t.Error("somebody got in untold")
	}
	s.keys.fail("")
	s.login()
}
