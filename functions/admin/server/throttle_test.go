package server_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/server"
	"tidegate/functions/admin/server/sitetest"
)

// Guessing is slowed down: after five wrong passwords the right one is not looked at
// either, until the time that the answer names. Others are not kept out.
func TestLoginThrottled(t *testing.T) {
	s := sitetest.New(t)
	start := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	s.Store.SetTime(start)
	for range 5 {
		s.Post("/login", loginForm(sitetest.User, "wrong")).Wants(t, http.StatusUnauthorized)
	}
	s.Store.SetTime(start.Add(17*time.Second + time.Millisecond))
	got := s.Post("/login", loginForm(sitetest.User, sitetest.Password)).Wants(
		t, http.StatusTooManyRequests, "Too many attempts", "43 seconds",
	)
	if wait := got.Header.Get("Retry-After"); wait != "43" || s.Cookie() != nil {
		t.Errorf("Retry-After %q, cookie %v", wait, s.Cookie())
	}
	s.LoginAs(sitetest.Viewer)
	seconds, _ := strconv.Atoi(got.Header.Get("Retry-After"))
	s.Store.SetTime(start.Add(time.Duration(seconds+17) * time.Second))
	s.Post("/login", loginForm(sitetest.User, sitetest.Password)).Wants(t, http.StatusSeeOther)
}

// Right passwords are never too many.
func TestLoginsAreFree(t *testing.T) {
	s := sitetest.New(t)
	for range 30 {
		s.Login()
	}
}

// A source is what the gateway says it is: no header makes another of it.
func TestThrottleIgnoresHeaders(t *testing.T) {
	s := sitetest.New(t)
	status := 0
	for i := range 8 {
		header := http.Header{"Sec-Fetch-Site": {"same-origin"},
			"X-Forwarded-For": {"192.0.2." + strconv.Itoa(i)}, "Forwarded": {"for=192.0.2.9"}}
		status = s.Do(http.MethodPost, "/login", loginForm(sitetest.User, "wrong"), header).StatusCode
	}
	if status != http.StatusTooManyRequests {
		t.Errorf("the last of many attempts: %d", status)
	}
}

// Without the store nobody gets in, with the right password or another, and both look
// alike.
func TestLoginWithoutStore(t *testing.T) {
	s := sitetest.New(t)
	s.Store.SetError("ERR out of order")
	var pages []string
	for _, secret := range []string{sitetest.Password, "wrong"} {
		got := s.Post("/login", loginForm(sitetest.User, secret)).Wants(
			t, http.StatusServiceUnavailable, "Valkey is not responding",
		)
		if got.Header.Get("Retry-After") == "" || s.Cookie() != nil {
			t.Errorf("%v", got.Header)
		}
		pages = append(pages, sitetest.NonceInPage.ReplaceAllString(got.Body, ""))
	}
	if pages[0] != pages[1] {
		t.Error("the answer tells which password was right")
	}
}

// A browser that drops our cookies is told so, instead of being sent to the login for
// ever; a program without cookies logs in as ever.
func TestCookiesRefused(t *testing.T) {
	s := sitetest.New(t)
	form := loginForm(sitetest.User, sitetest.Password)
	form.Set(server.ProbeField, "1")
	s.Post("/login", form).Wants(t, http.StatusBadRequest, "did not keep the session cookie", "localhost")
	if s.Cookie() != nil {
		t.Error("logged in all the same")
	}
	s.Client = s.NewClient()
	page := s.Get("/login").Wants(t, http.StatusOK, `name="probe"`)
	if set := page.Header.Get("Set-Cookie"); !strings.HasPrefix(set,
		"__Host-tidegate-probe=1; Path=/; HttpOnly; Secure; SameSite=Lax") {
		t.Errorf("Set-Cookie %q", set)
	}
	s.Post("/login", form).Wants(t, http.StatusSeeOther)
}
