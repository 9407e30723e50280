package server_test

import (
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"tidegate/functions/admin/auth/oidc"
	"tidegate/functions/admin/server"
	"tidegate/internal/testing/browsertest"
	"tidegate/internal/testing/oidctest"
	"tidegate/internal/testing/sitetest"
)

func TestMain(m *testing.M) { os.Exit(browsertest.Run(m)) }

// withProvider adds a real provider, where user "NAME:GROUP" has the group: ops are
// editors, staff are viewers.
func withProvider(s *sitetest.Site) {
	s.T.Helper()
	s.Config.PublicURL = s.Address + s.Config.BasePath
	callback := s.Config.PublicURL + "/login/oidc/callback"
	issuer := oidctest.Start(s.T, oidctest.Options{Clients: []oidctest.Client{{
		ID: "dashboard", Secret: "dashboard-secret", RedirectURIs: []string{callback},
		PostLogoutRedirectURIs: []string{s.Config.PublicURL + "/login"},
	}}})
	provider, err := oidc.New(oidc.Config{
		Issuer: issuer, ClientID: "dashboard", ClientSecret: "dashboard-secret", RedirectURL: callback,
		Scopes:    []string{"profile", "groups"},
		RoleClaim: "groups", EditorValues: []string{"ops"}, ViewerValues: []string{"staff"},
	}, []byte(strings.Repeat("p", 32)))
	if err != nil {
		s.T.Fatal(err)
	}
	s.Config.Provider = provider
}

// beginLogin starts a login at the provider and returns the provider's address.
func beginLogin(s *sitetest.Site, next string) string {
	s.T.Helper()
	got := s.Get("/login/oidc?next="+url.QueryEscape(next)).Wants(s.T, http.StatusSeeOther)
	return got.Header.Get("Location")
}

// loginAt logs a person in at the provider, and returns the path and query of the
// redirect back.
func loginAt(s *sitetest.Site, address, name string) string {
	s.T.Helper()
	issuer, _, _ := strings.Cut(address, "/auth?")
	back := oidctest.NewPerson(s.T, issuer).Login(address, name)
	if !strings.HasPrefix(back.String(), s.Config.PublicURL+"/login/oidc/callback?") {
		s.T.Fatalf("the provider redirects to %s, want the callback", back)
	}
	return strings.TrimPrefix(back.RequestURI(), s.Config.BasePath)
}

// A log-in at the provider gives the role of the user's group and a new session id, and
// redirects to the requested page, also below a base path.
func TestProviderLogin(t *testing.T) {
	for _, base := range []string{"", "/prod"} {
		s := sitetest.New(t, sitetest.WithBase(base), withProvider)
		s.Get("/login").Wants(t, http.StatusOK, "Log in with localhost:", `name="password"`)
		s.LoginAs(sitetest.Viewer)
		before := s.Cookie().Value
		got := s.Get(loginAt(s, beginLogin(s, base+"/keys?q=a"), "olga:ops")).Wants(t, http.StatusSeeOther)
		if to := got.Header.Get("Location"); to != base+"/keys?q=a" {
			t.Errorf("%q: got redirect to %q, want the requested page", base, to)
		}
		if s.Cookie().Value == before {
			t.Errorf("%q: the session id is the same as before the log-in", base)
		}
		s.Get("/api/v1/me").Wants(t, http.StatusOK,
			`{"id":"oidc:olga:ops","name":"olga","kind":"user","role":"editor"}`)
		s.Get("/settings").Wants(t, http.StatusOK, "Logged in with", "localhost:", "Create token")
		got = s.Post("/logout", nil).Wants(t, http.StatusSeeOther)
		out := s.Get(strings.TrimPrefix(got.Header.Get("Location"), base)).Wants(t, http.StatusOK,
			"You are logged out", "Log out there too")
		if !strings.Contains(out.Body, "/session/end?client_id=dashboard&amp;logout_uri=") {
			t.Errorf("%q: got\n%s\nwant a link to log out at the provider", base, out.Body)
		}
		s.WantsLogin("/keys")
	}
}

// A user without a role is not logged in, and sees which claim is missing.
func TestProviderWithoutRole(t *testing.T) {
	s := sitetest.New(t, withProvider)
	s.Get(loginAt(s, beginLogin(s, "/"), "nora")).Wants(t, http.StatusForbidden, "You have no role here",
		"sent no claim “groups”")
	s.Get(loginAt(s, beginLogin(s, "/"), "otto:guests")).Wants(t, http.StatusForbidden,
		"sent “guests” in the claim “groups”, and none of it gives a role")
	s.WantsLogin("/keys")
	s.Get(loginAt(s, beginLogin(s, "/"), "vera:staff")).Wants(t, http.StatusSeeOther)
	s.Get("/keys/{acme}/limits").Wants(t, http.StatusForbidden)
}

// The cookie of a login in progress is sent to this host only, to no script, and when the
// provider redirects here. The redirect to the provider has fresh random values.
func TestProviderFlowCookie(t *testing.T) {
	s := sitetest.New(t, withProvider)
	got := s.Get("/login/oidc").Wants(t, http.StatusSeeOther)
	set := got.Header.Values("Set-Cookie")
	if len(set) != 1 || !strings.HasPrefix(set[0], "__Host-tidegate-login=") ||
		!strings.HasSuffix(set[0], "; Path=/; Max-Age=600; HttpOnly; Secure; SameSite=Lax") {
		t.Errorf("got cookies %q, want one for this host, Lax, for 600 s", set)
	}
	q, _ := url.Parse(got.Header.Get("Location"))
	for name, want := range map[string]string{
		"response_type": "code", "code_challenge_method": "S256", "client_id": "dashboard",
		"redirect_uri": s.Config.PublicURL + "/login/oidc/callback",
	} {
		if value := q.Query().Get(name); value != want {
			t.Errorf("%s: got %q, want %q", name, value, want)
		}
	}
	for _, name := range []string{"state", "nonce", "code_challenge"} {
		if len(q.Query().Get(name)) < 22 || strings.Contains(set[0], q.Query().Get(name)) {
			t.Errorf("%s is short, or readable in the cookie", name)
		}
	}
}

// A callback from another browser, a second one, and one with another state log nobody
// in. next accepts only paths of this dashboard.
func TestProviderAttacks(t *testing.T) {
	s := sitetest.New(t, withProvider)
	attacker := loginAt(s, beginLogin(s, "/"), "eve:ops")
	s.Client = s.NewClient()
	s.Get(attacker).Wants(t, http.StatusBadRequest, "Login expired")
	beginLogin(s, "/")
	s.Get(attacker).Wants(t, http.StatusBadRequest, "Login expired")
	own := loginAt(s, beginLogin(s, "/"), "ada:ops")
	s.Get(strings.Replace(own, "state=", "state=x", 1)).Wants(t, http.StatusBadRequest, "Login expired")
	s.WantsLogin("/keys")
	s.Get(own).Wants(t, http.StatusSeeOther) // a forged callback does not end the login
	s.Client = s.NewClient()
	address := beginLogin(s, "//evil.example")
	own = loginAt(s, address, "ada:ops")
	flow := s.CookieNamed("__Host-tidegate-login")
	if got := s.Get(own).Wants(t, http.StatusSeeOther); got.Header.Get("Location") != "/" {
		t.Errorf("got redirect to %q, want /", got.Header.Get("Location"))
	}
	s.Client = s.NewClient()
	s.SetCookie(flow.Name, flow.Value)
	// A stolen cookie and code are refused, since the code was used.
	s.Get(own).Wants(t, http.StatusBadRequest, "Login already used")
	s.WantsLogin("/keys")
	refused := loginAt(s, beginLogin(s, "/")+"&prompt=none", "ada:ops")
	s.Get(refused).Wants(t, http.StatusForbidden, "did not log you in", "login_required")
	s.Get("/login/oidc/callback?error=<script>&state=x").Wants(t, http.StatusBadRequest, "Login expired")
}

// A session from the provider ends when the provider or the values of roles change in the
// configuration.
func TestProviderSessionEnds(t *testing.T) {
	s := sitetest.New(t, withProvider)
	s.Get(loginAt(s, beginLogin(s, "/"), "olga:ops")).Wants(t, http.StatusSeeOther)
	s.Get("/keys").Wants(t, http.StatusOK)
	s.Reconfigure(func(c *server.Config) { c.Provider = nil })
	s.WantsLogin("/keys")
	other, err := oidc.New(oidc.Config{
		Issuer: "https://other.example", ClientID: "dashboard", RedirectURL: "https://x.example/cb",
		RoleClaim: "groups", EditorValues: []string{"ops"},
	}, []byte(strings.Repeat("p", 32)))
	if err != nil {
		t.Fatal(err)
	}
	s.Reconfigure(func(c *server.Config) { c.Provider = other })
	s.WantsLogin("/keys")
}

// Without users with a password, the log-in page offers only the provider.
func TestProviderAlone(t *testing.T) {
	s := sitetest.New(t, withProvider, func(s *sitetest.Site) { s.Config.Users = nil })
	if got := s.Get("/login").Wants(t, http.StatusOK,
		"Log in with localhost:"); strings.Contains(got.Body, `name="password"`) {
		t.Error("the log-in page has a password field")
	}
	s.Post("/login", loginForm("", "")).Wants(t, http.StatusUnauthorized)
}

// If the provider is unavailable, the error page names it. Log-ins with a password work.
func TestProviderUnavailable(t *testing.T) {
	s := withUnavailableProvider(t)
	s.Get("/login/oidc").Wants(t, http.StatusBadGateway, "127.0.0.1:1 is not responding")
	s.Get("/login?ended=oidc").Wants(t, http.StatusOK, "You are logged out")
	s.Login().Get("/keys").Wants(t, http.StatusOK)
}

// Log-ins at a provider that is unavailable are throttled by address. Log-ins with a
// password work.
func TestProviderThrottled(t *testing.T) {
	s := withUnavailableProvider(t)
	seen := map[int]int{}
	for range 25 {
		seen[s.Get("/login/oidc").StatusCode]++
	}
	if seen[http.StatusBadGateway] != 20 || seen[http.StatusTooManyRequests] != 5 {
		t.Errorf("got %v, want 20 times 502 and 5 times 429", seen)
	}
	s.Login().Get("/keys").Wants(t, http.StatusOK)
}

// withUnavailableProvider returns a site whose provider does not answer.
func withUnavailableProvider(t *testing.T) *sitetest.Site {
	t.Helper()
	s := sitetest.New(t, withProvider)
	unavailable, err := oidc.New(oidc.Config{
		Issuer: "http://127.0.0.1:1", ClientID: "dashboard", RedirectURL: "https://x.example/cb",
		RoleClaim: "groups", EditorValues: []string{"ops"},
	}, []byte(strings.Repeat("p", 32)))
	if err != nil {
		t.Fatal(err)
	}
	s.Reconfigure(func(c *server.Config) { c.Provider = unavailable })
	return s
}

// The pages of a log-in at a provider fit every width and are accessible.

func TestBrowserProviderPages(t *testing.T) {
	axe := sitetest.AxeScript(t)
	v := sitetest.NewVisit(t, withProvider)
	for _, p := range []struct {
		name, path, status string
		prepare            func(*sitetest.Visit)
	}{
		{"login", "/login", "", nil},
		{"logged out", "/login?ended=oidc", "", nil},
		{"Login expired", "/login/oidc/callback?state=x", "400", nil},
		{"no role", "/login/oidc", "403", func(v *sitetest.Visit) {
			v.Act(chromedp.SendKeys(chromedp.CSS("[name=login]"), "nora"),
				chromedp.SendKeys(chromedp.CSS("[name=password]"), "x\n"),
				chromedp.WaitVisible(chromedp.CSS(".panel h1")))
		}},
	} {
		t.Run(p.name, func(t *testing.T) {
			v.T = t
			v.Open(p.path)
			if p.prepare != nil {
				p.prepare(v)
			}
			v.Look(t, axe, p.status)
		})
	}
}

// In a browser, a log-in at the provider returns to the requested page, and the user can
// log out at both.
func TestBrowserProviderLogin(t *testing.T) {
	v := sitetest.NewVisit(t, sitetest.WithKeys(sitetest.SampleKeys(t)), withProvider)
	v.Open("/keys?q=ac")
	v.Act(chromedp.Click(chromedp.CSS("main a.button")), chromedp.WaitVisible(chromedp.CSS("[name=login]")),
		chromedp.SendKeys(chromedp.CSS("[name=login]"), "vera:staff"),
		chromedp.SendKeys(chromedp.CSS("[name=password]"), "x\n"), chromedp.WaitReady(chromedp.CSS("#live")))
	if at := sitetest.Eval[string](v, `location.pathname + location.search`); at != "/keys?q=ac" {
		t.Errorf("after the login: got %s, want /keys?q=ac", at)
	}
	if who := sitetest.Eval[string](
		v, `document.querySelector(".who").innerText`,
	); !strings.Contains(who, "vera") || !strings.Contains(who, "viewer") {
		t.Errorf("logged in as %q, want vera, viewer", who)
	}
	v.Act(chromedp.Click(chromedp.CSS(".who button")), chromedp.WaitVisible(chromedp.CSS(".notice.good")),
		chromedp.Click(chromedp.CSS("main p a")), chromedp.WaitVisible(chromedp.CSS("button[value=yes]")),
		chromedp.Click(chromedp.CSS("button[value=yes]")),
		chromedp.WaitVisible(chromedp.CSS("main a.button")))
	if at := sitetest.Eval[string](v, `location.pathname`); at != "/login" {
		t.Errorf("after both logouts: got %s, want /login", at)
	}
	v.NoConsoleErrors("")
}
