package server_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/server/sitetest"
)

// expired sends a form after its session ended, and returns the answer.
func expired(s *sitetest.Site, path string, form url.Values) sitetest.Reply {
	s.T.Helper()
	s.Store.FastForward(sitetest.Idle + time.Second)
	return s.Post(path, form)
}

// loginWith logs a user in with what the answer to a form kept.
func loginWith(s *sitetest.Site, user string, page sitetest.Reply) sitetest.Reply {
	s.T.Helper()
	form := sitetest.With(sitetest.HiddenIn(page.Body), "user", user, "password", sitetest.Password)
	return s.Post("/login", form).Wants(s.T, http.StatusSeeOther)
}

var typedForms = map[string]url.Values{
	"/keys/{acme}/limits": sitetest.With(sitetest.LimitsForm(1, [4]string{"77", "3", "hour", "log"}),
		"reason", "typed-canary"),
	"/keys/{acme}/edit": {"version": {"1"}, "name": {"typed-canary"}, "plan": {"free"}},
	"/keys/{acme}/ban":  {"version": {"1"}, "reason": {"typed-canary"}, "lasts": {"4h"}},
	"/keys":             {"name": {"typed-canary"}, "plan": {"free"}, "env": {"live"}},
	"/keys/bulk":        {"do": {"revoke"}, "of": {"all"}, "reason": {"typed-canary"}, "confirm": {"2"}},
	"/callers/new":      {"kind": {"address"}, "address": {"192.0.2.1"}, "name": {"typed-canary"}},
	"/policies/plans/1": {"version": {"1"}, "name": {"typed-canary"}, "limits[0].requests": {"5"}},
	"/policies/rules":   {"version": {"1"}, "name": {"typed-canary"}, "path": {"/x"}},
	"/policies/shared":  {"version": {"1"}, "reason": {"typed-canary"}},
	"/policies/import":  {"version": {"0"}, "yaml": {"plans: [] # typed-canary"}},
	"/settings/tokens":  {"name": {"typed-canary"}, "scope": {"read"}, "days": {"7"}},
}

// What was typed when a session ends comes back after the log-in, and nothing is saved by
// that, whichever form it is.
func TestFormSurvivesTheSession(t *testing.T) {
	for path, form := range typedForms {
		t.Run(path, func(t *testing.T) {
			s := sitetest.New(t).Login()
			ended := expired(s, path, form).Wants(t, http.StatusUnauthorized, "Your session ended.")
			if strings.Contains(ended.Body, "typed-canary") {
				t.Error("the page shows what was typed to whoever sits there")
			}
			at := loginWith(s, sitetest.User, ended).Header.Get("Location")
			page := s.Get(at).Wants(t, http.StatusOK, "Nothing was saved yet.", "typed-canary")
			s.Get(at).Wants(t, http.StatusGone)
			back := s.Post(path, sitetest.HiddenIn(page.Body))
			if back.StatusCode >= 400 && path != "/policies/import" ||
				!strings.Contains(back.Body, "typed-canary") {
				t.Errorf("back to the form: %d\n%s", back.StatusCode, back.Body)
			}
			if tokens, err := s.Tokens.List(t.Context()); s.Keys.Written() != 0 || err != nil ||
				len(tokens) != 0 {
				t.Error("something was saved")
			}
		})
	}
}

// Another user, a forged or a foreign text, and a form of nobody get nothing back; no
// kept form leads out of the dashboard or holds a secret.
func TestKeptFormIsBound(t *testing.T) {
	s := sitetest.New(t).Login()
	form := typedForms["/keys/{acme}/limits"]
	ended := expired(s, "/keys/{acme}/limits", form)
	if at := loginWith(s, sitetest.Viewer, ended).Header.Get("Location"); at != "/" {
		t.Errorf("another user is led to %s", at)
	}
	kept := sitetest.HiddenIn(ended.Body).Get("kept")
	for _, text := range []string{"", "AAAA", kept, kept[:len(kept)-2] + "AA", strings.Repeat("A", 50_000)} {
		body := s.Post("/resume", url.Values{"kept": {text}}).Wants(t, http.StatusGone).Body
		if strings.Contains(body, "typed-canary") {
			t.Error("another user sees what was typed")
		}
	}
	s.Post("/logout", nil)
	s.Login()
	s.Post("/resume", url.Values{"kept": {kept}}).Wants(t, http.StatusOK, "typed-canary")
	other := *s
	other.Client = s.NewClient()
	got := other.Post("/keys/{acme}/limits", form).Wants(t, http.StatusSeeOther)
	if !strings.HasPrefix(got.Header.Get("Location"), "/login?next=") {
		t.Errorf("nobody's form leads to %s", got.Header.Get("Location"))
	}
	secret := sitetest.With(url.Values{}, "name", s.Keys.Secrets["acme"].Reveal(), "password", "pass-canary",
		"version", "1", "reason", " "+s.Keys.Secrets["acme"].Reveal()+" ")
	again := expired(s, "/keys/{acme}/edit", secret)
	at := loginWith(s, sitetest.User, again).Header.Get("Location")
	if body := s.Get(at).Wants(t, http.StatusOK).Body; strings.Contains(body,
		s.Keys.Secrets["acme"].Reveal()) ||
		strings.Contains(body, "pass-canary") {
		t.Error("a secret was kept")
	}
	for _, path := range []string{"//evil.example/keys", "/jobs/x", "/audit/x/undo"} {
		s.Login()
		if body := expired(s, path, form).Body; strings.Contains(body, `name="kept"`) {
			t.Errorf("%s is kept", path)
		}
	}
	s.Login()
	long := sitetest.With(url.Values{}, "deny", strings.Repeat("192.0.2.1 ", 6000))
	if body := expired(s, "/policies/shared", long).Body; strings.Contains(body, `name="kept"`) {
		t.Error("a form without bound is kept")
	}
}

// While the store is away, the page that says so leads back to the filled form.
func TestFormSurvivesTheStore(t *testing.T) {
	s := sitetest.New(t).Login()
	const path = "/keys/{acme}/limits"
	s.Keys.Fail("ERR away")
	page := s.Post(path, typedForms[path]).Wants(t, http.StatusServiceUnavailable,
		"Nothing you typed is lost.")
	s.Keys.Fail("")
	back := s.Post("/resume", sitetest.HiddenIn(page.Body)).Wants(t, http.StatusOK, "typed-canary")
	s.Post(path, sitetest.HiddenIn(back.Body)).Wants(t, http.StatusOK, `name="limits[0].requests" value="77"`,
		"typed-canary")
	s.Store.SetError("ERR away")
	page = s.Post(path, typedForms[path]).Wants(t, http.StatusServiceUnavailable, `name="kept"`)
	s.Store.SetError("")
	s.Post("/resume", sitetest.HiddenIn(page.Body)).Wants(t, http.StatusOK, "typed-canary")
}
