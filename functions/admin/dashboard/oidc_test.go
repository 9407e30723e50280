package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"tidegate/functions/admin/auth/oidc"
	"tidegate/internal/testing/oidctest"
)

// withProvider lets people log in at a real provider, where "NAME:GROUP" has the group:
// ops edit, staff look.
func withProvider(s *site) {
	s.t.Helper()
	s.config.PublicURL = s.address + s.config.BasePath
	callback := s.config.PublicURL + "/login/oidc/callback"
	issuer := oidctest.Start(s.t, oidctest.Options{Clients: []oidctest.Client{{
		ID: "dashboard", Secret: "dashboard-secret", RedirectURIs: []string{callback}, PostLogoutRedirectURIs: []string{s.config.PublicURL + "/login"},
	}}})
	provider, err := oidc.New(oidc.Config{
		Issuer: issuer, ClientID: "dashboard", ClientSecret: "dashboard-secret", RedirectURL: callback, Scopes: []string{"profile", "groups"},
		RoleClaim: "groups", EditorValues: []string{"ops"}, ViewerValues: []string{"staff"},
	}, []byte(strings.Repeat("p", 32)))
	if err != nil {
		s.t.Fatal(err)
	}
	s.config.Provider = provider
}

// begin starts a login at the provider and returns the provider's address.
func (s *site) begin(next string) string {
	s.t.Helper()
	got := s.get("/login/oidc?next="+url.QueryEscape(next)).wants(s.t, http.StatusSeeOther)
	return got.Header.Get("Location")
}

// goes lets somebody log in there, and returns the path and query of the way back.
func (s *site) goes(address, name string) string {
	s.t.Helper()
	issuer, _, _ := strings.Cut(address, "/auth?")
	back := oidctest.NewPerson(s.t, issuer).Login(address, name)
	if !strings.HasPrefix(back.String(), s.config.PublicURL+"/login/oidc/callback?") {
		s.t.Fatalf("the provider sends people to %s", back)
	}
	return strings.TrimPrefix(back.RequestURI(), s.config.BasePath)
}

// Somebody whom the provider knows gets the role of their group, a new session id, and to
// where they wanted to go; below a base path too.
func TestProviderLogin(t *testing.T) {
	for _, base := range []string{"", "/prod"} {
		s := newSite(t, withBase(base), withProvider)
		s.get("/login").wants(t, http.StatusOK, "Log in with localhost:", `name="password"`)
		s.loginAs(testViewer)
		before := s.cookie().Value
		got := s.get(s.goes(s.begin(base+"/keys?q=a"), "olga:ops")).wants(t, http.StatusSeeOther)
		if to := got.Header.Get("Location"); to != base+"/keys?q=a" {
			t.Errorf("%q: to %q", base, to)
		}
		if s.cookie().Value == before {
			t.Errorf("%q: the session id is that of before", base)
		}
		s.get("/api/v1/me").wants(t, http.StatusOK, `{"id":"oidc:olga:ops","name":"olga","kind":"user","role":"editor"}`)
		s.get("/settings").wants(t, http.StatusOK, "Logged in with", "localhost:", "Make the token")
		got = s.post("/logout", nil).wants(t, http.StatusSeeOther)
		out := s.get(strings.TrimPrefix(got.Header.Get("Location"), base)).wants(t, http.StatusOK, "You are logged out here", "Log out there too")
		if !strings.Contains(out.body, "/session/end?client_id=dashboard&amp;post_logout_redirect_uri=") {
			t.Errorf("%q: no way to log out at the provider:\n%s", base, out.body)
		}
		s.wantsLogin("/keys")
	}
}

// Who has no role is told which claim is missing, and is not logged in.
func TestProviderWithoutRole(t *testing.T) {
	s := newSite(t, withProvider)
	s.get(s.goes(s.begin("/"), "nora")).wants(t, http.StatusForbidden, "You have no role here", "sent no claim “groups”")
	s.get(s.goes(s.begin("/"), "otto:guests")).wants(t, http.StatusForbidden, "nothing in it means viewer or editor")
	s.wantsLogin("/keys")
	s.get(s.goes(s.begin("/"), "vera:staff")).wants(t, http.StatusSeeOther)
	s.get("/keys/{acme}/limits").wants(t, http.StatusForbidden)
}

// The cookie of a login under way goes to this host alone, to no script, and comes back
// with the provider's link.
func TestProviderFlowCookie(t *testing.T) {
	s := newSite(t, withProvider)
	got := s.get("/login/oidc").wants(t, http.StatusSeeOther)
	set := got.Header.Values("Set-Cookie")
	if len(set) != 1 || !strings.HasPrefix(set[0], "__Host-tidegate-login=") ||
		!strings.HasSuffix(set[0], "; Path=/; Max-Age=600; HttpOnly; Secure; SameSite=Lax") {
		t.Errorf("cookies %q", set)
	}
	q, _ := url.Parse(got.Header.Get("Location"))
	for name, want := range map[string]string{
		"response_type": "code", "code_challenge_method": "S256", "client_id": "dashboard", "redirect_uri": s.config.PublicURL + "/login/oidc/callback",
	} {
		if value := q.Query().Get(name); value != want {
			t.Errorf("%s is %q, want %q", name, value, want)
		}
	}
	for _, name := range []string{"state", "nonce", "code_challenge"} {
		if len(q.Query().Get(name)) < 22 || strings.Contains(set[0], q.Query().Get(name)) {
			t.Errorf("%s is short, or readable in the cookie", name)
		}
	}
}

// Nobody is logged in by a link: not as the attacker whose answer it is, not twice, not
// with another state; and next leads nowhere else.
func TestProviderAttacks(t *testing.T) {
	s := newSite(t, withProvider)
	attacker := s.goes(s.begin("/"), "eve:ops")
	s.client = s.newClient()
	s.get(attacker).wants(t, http.StatusBadRequest, "not begun here")
	s.begin("/")
	s.get(attacker).wants(t, http.StatusBadRequest, "not begun here")
	own := s.goes(s.begin("/"), "ada:ops")
	s.get(strings.Replace(own, "state=", "state=x", 1)).wants(t, http.StatusBadRequest, "not begun here")
	s.get(own).wants(t, http.StatusBadRequest, "not begun here") // the attempt before has ended the login
	s.wantsLogin("/keys")
	address := s.begin("//evil.example")
	own = s.goes(address, "ada:ops")
	flow := s.cookieNamed("__Host-tidegate-login")
	if got := s.get(own).wants(t, http.StatusSeeOther); got.Header.Get("Location") != "/" {
		t.Errorf("to %q", got.Header.Get("Location"))
	}
	s.client = s.newClient()
	s.setCookie(flow.Name, flow.Value)
	// with cookie and code stolen: the code was used
	s.get(own).wants(t, http.StatusForbidden, "does not hold")
	s.wantsLogin("/keys")
	refused := s.goes(s.begin("/")+"&prompt=none", "ada:ops")
	s.get(refused).wants(t, http.StatusForbidden, "did not log you in", "login_required")
	s.get("/login/oidc/callback?error=<script>&state=x").wants(t, http.StatusBadRequest, "not begun here")
}

// A session from the provider ends when the provider or the meaning of its groups
// changes.
func TestProviderSessionEnds(t *testing.T) {
	s := newSite(t, withProvider)
	s.get(s.goes(s.begin("/"), "olga:ops")).wants(t, http.StatusSeeOther)
	s.get("/keys").wants(t, http.StatusOK)
	s.reconfigure(func(c *Config) { c.Provider = nil })
	s.wantsLogin("/keys")
	other, err := oidc.New(oidc.Config{
		Issuer: "https://other.example", ClientID: "dashboard", RedirectURL: "https://x.example/cb", RoleClaim: "groups", EditorValues: []string{"ops"},
	}, []byte(strings.Repeat("p", 32)))
	if err != nil {
		t.Fatal(err)
	}
	s.reconfigure(func(c *Config) { c.Provider = other })
	s.wantsLogin("/keys")
}

// Without passwords the login offers the provider alone.
func TestProviderAlone(t *testing.T) {
	s := newSite(t, withProvider, func(s *site) { s.config.Users = nil })
	if got := s.get("/login").wants(t, http.StatusOK, "Log in with localhost:"); strings.Contains(got.body, `name="password"`) {
		t.Error("the login asks for a password that nobody has")
	}
	s.post("/login", loginForm("", "")).wants(t, http.StatusUnauthorized)
}

// A provider that does not answer is named as what fails; the rest works.
func TestProviderAway(t *testing.T) {
	s := newSite(t, withProvider)
	gone, err := oidc.New(oidc.Config{
		Issuer: "http://127.0.0.1:1", ClientID: "dashboard", RedirectURL: "https://x.example/cb", RoleClaim: "groups", EditorValues: []string{"ops"},
	}, []byte(strings.Repeat("p", 32)))
	if err != nil {
		t.Fatal(err)
	}
	s.reconfigure(func(c *Config) { c.Provider = gone })
	s.get("/login/oidc").wants(t, http.StatusBadGateway, "127.0.0.1:1 does not answer")
	s.get("/login?ended=oidc").wants(t, http.StatusOK, "You are logged out here")
	s.login().get("/keys").wants(t, http.StatusOK)
}

// The pages around a login at a provider, as every other page.
func TestBrowserProviderPages(t *testing.T) {
	axe := axeScript(t)
	v := newVisit(t, withProvider)
	for _, p := range []shown{
		{"login", "/login", "", nil},
		{"logged out", "/login?ended=oidc", "", nil},
		{"not begun here", "/login/oidc/callback?state=x", "400", nil},
		{"no role", "/login/oidc", "403", func(v *visit) {
			v.act(
				chromedp.SendKeys(chromedp.CSS("[name=login]"), "nora"),
				chromedp.SendKeys(chromedp.CSS("[name=password]"), "x\n"),
				chromedp.WaitVisible(chromedp.CSS(".panel h1")),
			)
		}},
	} {
		t.Run(p.name, func(t *testing.T) {
			v.t = t
			v.open(p.path)
			if p.prepare != nil {
				p.prepare(v)
			}
			v.look(t, axe, p.status)
		})
	}
}

// In a browser: to the provider and back to the page that was asked for, then out at
// both.
func TestBrowserProviderLogin(t *testing.T) {
	v := newVisit(t, withKeys(sampleKeys(t)), withProvider)
	v.open("/keys?q=ac")
	v.act(
		chromedp.Click(chromedp.CSS("main a.button")),
		chromedp.WaitVisible(chromedp.CSS("[name=login]")),
		chromedp.SendKeys(chromedp.CSS("[name=login]"), "vera:staff"),
		chromedp.SendKeys(chromedp.CSS("[name=password]"), "x\n"),
		chromedp.WaitReady(chromedp.CSS("#live")),
	)
	if at := eval[string](v, `location.pathname + location.search`); at != "/keys?q=ac" {
		t.Errorf("after the login: %s", at)
	}
	if who := eval[string](v, `document.querySelector(".who").innerText`); !strings.Contains(who, "vera") || !strings.Contains(who, "viewer") {
		t.Errorf("logged in as %q", who)
	}
	v.act(
		chromedp.Click(chromedp.CSS(".who button")),
		chromedp.WaitVisible(chromedp.CSS(".notice.good")),
		chromedp.Click(chromedp.CSS("main p a")),
		chromedp.WaitVisible(chromedp.CSS("button[value=yes]")),
		chromedp.Click(chromedp.CSS("button[value=yes]")),
		chromedp.WaitVisible(chromedp.CSS("main a.button")),
	)
	if at := eval[string](v, `location.pathname`); at != "/login" {
		t.Errorf("after both logouts: %s", at)
	}
	v.noComplaints("")
}
