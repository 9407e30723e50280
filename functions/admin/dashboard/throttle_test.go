package dashboard

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Guessing is slowed down: after five wrong passwords the right one is not looked at
// either, until the time that the answer names. Others are not kept out.
func TestLoginThrottled(t *testing.T) {
	s := newSite(t)
	start := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	s.store.SetTime(start)
	for range 5 {
		s.post("/login", loginForm(testUser, "wrong")).wants(t, http.StatusUnauthorized)
	}
	s.store.SetTime(start.Add(17*time.Second + time.Millisecond))
	got := s.post("/login", loginForm(testUser, testSecret)).wants(t, http.StatusTooManyRequests, "Too many attempts", "43 seconds")
	if wait := got.Header.Get("Retry-After"); wait != "43" || s.cookie() != nil {
		t.Errorf("Retry-After %q, cookie %v", wait, s.cookie())
	}
	s.loginAs(testViewer)
	seconds, _ := strconv.Atoi(got.Header.Get("Retry-After"))
	s.store.SetTime(start.Add(time.Duration(seconds+17) * time.Second))
	s.post("/login", loginForm(testUser, testSecret)).wants(t, http.StatusSeeOther)
}

// Right passwords are never too many.
func TestLoginsAreFree(t *testing.T) {
	s := newSite(t)
	for range 30 {
		s.login()
	}
}

// A source is what the gateway says it is: no header makes another of it.
func TestThrottleIgnoresHeaders(t *testing.T) {
	s := newSite(t)
	status := 0
	for i := range 8 {
		header := http.Header{"Sec-Fetch-Site": {"same-origin"}, "X-Forwarded-For": {"192.0.2." + strconv.Itoa(i)}, "Forwarded": {"for=192.0.2.9"}}
		status = s.do(http.MethodPost, "/login", loginForm(testUser, "wrong"), header).StatusCode
	}
	if status != http.StatusTooManyRequests {
		t.Errorf("the last of many attempts: %d", status)
	}
}

// Without the store nobody gets in, with the right password or another, and both look
// alike.
func TestLoginWithoutStore(t *testing.T) {
	s := newSite(t)
	s.store.SetError("ERR out of order")
	var pages []string
	for _, secret := range []string{testSecret, "wrong"} {
		got := s.post("/login", loginForm(testUser, secret)).wants(t, http.StatusServiceUnavailable, "The store does not answer")
		if got.Header.Get("Retry-After") == "" || s.cookie() != nil {
			t.Errorf("%v", got.Header)
		}
		pages = append(pages, nonceInPage.ReplaceAllString(got.body, ""))
	}
	if pages[0] != pages[1] {
		t.Error("the answer tells which password was right")
	}
}

// A browser that drops our cookies is told so, instead of being sent to the login for
// ever; a program without cookies logs in as ever.
func TestCookiesRefused(t *testing.T) {
	s := newSite(t)
	form := loginForm(testUser, testSecret)
	form.Set(probeField, "1")
	s.post("/login", form).wants(t, http.StatusBadRequest, "did not keep our cookie", "Safari")
	if s.cookie() != nil {
		t.Error("logged in all the same")
	}
	s.client = s.newClient()
	page := s.get("/login").wants(t, http.StatusOK, `name="probe"`)
	if set := page.Header.Get("Set-Cookie"); !strings.HasPrefix(set, "__Host-tidegate-probe=1; Path=/; HttpOnly; Secure; SameSite=Lax") {
		t.Errorf("Set-Cookie %q", set)
	}
	s.post("/login", form).wants(t, http.StatusSeeOther)
}
