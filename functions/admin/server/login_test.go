package server_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/password"
	"tidegate/functions/admin/server"
	"tidegate/functions/admin/server/sitetest"
)

func loginForm(user, password string) url.Values {
	return url.Values{"user": {user}, "password": {password}}
}

// The session cookie goes to this host alone, over TLS alone, to no script, and with no
// request that another site makes but a link.
func TestCookieFlags(t *testing.T) {
	for base, want := range map[string]string{
		"":      "__Host-tidegate=…; Path=/; HttpOnly; Secure; SameSite=Lax",
		"/prod": "__Secure-tidegate=…; Path=/prod/; HttpOnly; Secure; SameSite=Lax",
	} {
		s := sitetest.New(t, sitetest.WithBase(base))
		got := s.Post("/login", loginForm(sitetest.User, sitetest.Password)).Wants(t, http.StatusSeeOther)
		cookies := got.Header.Values("Set-Cookie")
		if len(cookies) != 2 {
			t.Fatalf("%q: cookies %q", base, cookies)
		}
		value := got.Cookies()[1].Value
		if flags := strings.Replace(cookies[1], value, "…", 1); flags != want {
			t.Errorf("%q: %s, want %s", base, flags, want)
		}
		owner := strings.Replace(want, "tidegate=…", "tidegate-owner=…", 1)
		owner = strings.Replace(owner, "HttpOnly", "Max-Age=7200; HttpOnly", 1)
		if flags := strings.Replace(cookies[0], got.Cookies()[0].Value, "…", 1); flags != owner {
			t.Errorf("%q: %s, want %s", base, flags, owner)
		}
		if len(value) < 43 {
			t.Errorf("%q: the session id has only %d characters", base, len(value))
		}
	}
}

// A wrong user and a wrong password look alike.
func TestLoginRefused(t *testing.T) {
	s := sitetest.New(t)
	var pages []string
	for _, form := range []url.Values{
		loginForm(sitetest.User, "n0t-it"), loginForm("somebody", sitetest.Password), loginForm("", ""),
		loginForm(sitetest.User, ""),
		loginForm(sitetest.User, sitetest.Password+" "),
		loginForm(strings.ToUpper(sitetest.User), sitetest.Password),
		loginForm(sitetest.User, strings.Repeat("p", 5000)),
	} {
		got := s.Post("/login", form).Wants(t, http.StatusUnauthorized, "User or password is wrong.")
		if len(got.Header.Values("Set-Cookie")) != 0 {
			t.Errorf("%v: sets a cookie", form)
		}
		if typed := form.Get("password"); typed != "" && strings.Contains(got.Body, typed) {
			t.Errorf("%v: the password is in the page", form)
		}
		page := sitetest.NonceInPage.ReplaceAllString(got.Body, "")
		pages = append(pages, strings.ReplaceAll(page, `value="`+form.Get("user")+`"`, `value=""`))
	}
	for _, page := range pages[1:] {
		if page != pages[0] {
			t.Errorf("refusals differ:\n%s\n%s", pages[0], page)
		}
	}
	s.Get("/keys").Wants(t, http.StatusSeeOther)
}

// A session id from before the login opens nothing after it.
func TestFixation(t *testing.T) {
	s := sitetest.New(t).LoginAs(sitetest.Viewer)
	planted := s.Cookie().Value
	s.Login()
	if s.Cookie().Value == planted {
		t.Fatal("the login kept the planted session id")
	}
	s.Get("/keys").Wants(t, http.StatusOK)
	s.Client = s.NewClient()
	s.SetCookie("__Host-tidegate", planted)
	s.Get("/keys").Wants(t, http.StatusSeeOther)
}

// An unknown session id that a browser brings is never adopted.
func TestUnknownSessionID(t *testing.T) {
	s := sitetest.New(t)
	s.SetCookie("__Host-tidegate", "chosen-by-somebody")
	s.Login()
	if s.Cookie().Value == "chosen-by-somebody" {
		t.Error("the login took the id that the browser brought")
	}
}

// The logout ends the session on the server: the old cookie is worth nothing.
func TestLogout(t *testing.T) {
	s := sitetest.New(t).Login()
	old := s.Cookie()
	got := s.Post("/logout", nil).Wants(t, http.StatusSeeOther)
	if to := got.Header.Get("Location"); to != "/login" {
		t.Errorf("to %q", to)
	}
	if s.Cookie() != nil {
		t.Error("the browser keeps the cookie")
	}
	s.SetCookie(old.Name, old.Value)
	s.Get("/keys").Wants(t, http.StatusSeeOther)
}

// A session ends its lifetime after the login even if it is used all the time. The stores
// are told when; see package session for idle ones.
func TestLifetime(t *testing.T) {
	s := sitetest.New(t)
	s.Login()
	_, found, err := s.Services.Sessions.Find(s.Cookie().Value)
	if err != nil || !found {
		t.Fatalf("found %v, %v", found, err)
	}
	short := sitetest.New(t, func(s *sitetest.Site) { s.Config.SessionLifetime = time.Nanosecond })
	short.Post("/login", loginForm(sitetest.User, sitetest.Password)).Wants(t, http.StatusSeeOther)
	short.Get("/keys").Wants(t, http.StatusSeeOther)
}

func TestLoginWhenLoggedIn(t *testing.T) {
	s := sitetest.New(t).Login()
	if got := s.Get("/login?next=/keys?q=b").Wants(t,
		http.StatusSeeOther); got.Header.Get("Location") != "/keys?q=b" {
		t.Errorf("to %q", got.Header.Get("Location"))
	}
}

// Only paths of this dashboard are accepted as the place to go after the login.
func TestNext(t *testing.T) {
	rows := []struct{ base, next, want string }{
		{"", "/keys", "/keys"},
		{"", "/keys?q=a&live=5", "/keys?q=a&live=5"},
		{"", "/keys/{acme}/limits", "/keys/{acme}/limits"},
		{"", "/keys?q=https://x.example", "/keys?q=https://x.example"},
		{"", "", "/"},
		{"", "keys", "/"},
		{"", "//evil.example", "/"},
		{"", "///evil.example", "/"},
		{"", `/\evil.example`, "/"},
		{"", `\\evil.example`, "/"},
		{"", `/keys\..\x`, "/"},
		{"", "https://evil.example/", "/"},
		{"", "https:evil.example", "/"},
		{"", "javascript:alert(1)", "/"},
		{"", "data:text/html,x", "/"},
		{"", " /keys", "/"},
		{"", "\t//evil.example", "/"},
		{"", "/\t/evil.example", "/"},
		{"", "/\n/evil.example", "/"},
		{"", "/%zz", "/"},
		{"", "/login", "/"},
		{"", "/login?next=/login", "/"},
		{"", "/" + strings.Repeat("a", 3000), "/"},
		{"/prod", "/prod/keys", "/prod/keys"},
		{"/prod", "/keys", "/prod/"},
		{"/prod", "/production/keys", "/prod/"},
		{"/prod", "/prod", "/prod/"},
		{"/prod", "/prod//evil.example", "/prod/evil.example"},
	}
	for _, row := range rows {
		s := sitetest.New(t, sitetest.WithBase(row.base))
		form := loginForm(sitetest.User, sitetest.Password)
		form.Set("next", row.next)
		got := s.Post("/login", form).Wants(t, http.StatusSeeOther)
		if to := got.Header.Get("Location"); to != row.want {
			t.Errorf("base %q, next %q: to %q, want %q", row.base, row.next, to, row.want)
		}
	}
}

// Behind a stage of the gateway every link, redirect and cookie has its prefix, whether
// or not the gateway cuts it off.
func TestBasePath(t *testing.T) {
	s := sitetest.New(t, sitetest.WithBase("/prod"))
	got := s.Get("/keys?q=a").Wants(t, http.StatusSeeOther)
	if to := got.Header.Get("Location"); to != "/prod/login?next=%2Fprod%2Fkeys%3Fq%3Da" {
		t.Errorf("to the login: %q", to)
	}
	s.Login()
	for _, path := range []string{"/keys?live=5", "/keys/{acme}", "/keys/{acme}/limits",
		"/nothing", "/login"} {
		for _, address := range sitetest.AddressesIn(s.Get(path).Body) {
			if !strings.HasPrefix(address, "/prod/") && !strings.HasPrefix(address, "#") {
				t.Errorf("%s links to %q", path, address)
			}
		}
	}
	s.Base = s.Server.URL
	s.Ask("GET /static/{file}").Wants(t, http.StatusOK)
	s.Get("/prod").Wants(t, http.StatusSeeOther)
	// The gateway cut the prefix off, so the browser still has its cookie for it.
	req, err := http.NewRequest(http.MethodGet, s.Server.URL+"/keys", nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Base += "/prod"
	req.AddCookie(s.Cookie())
	res, err := s.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("without the prefix: %d", res.StatusCode)
	}
}

// No password, cookie, search or name reaches the log.
func TestLogHoldsNoSecrets(t *testing.T) {
	var log bytes.Buffer
	s := sitetest.New(t, sitetest.WithServices(func(services *server.Services) {
		services.Log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}))
	s.Post("/login", loginForm(sitetest.User, "wr0ng-canary"))
	s.Login()
	s.Get("/keys?q=search-canary")
	s.Post("/keys/{acme}/limits", sitetest.LimitsForm(1, [4]string{"typed-canary", "1", "hour", "log"}))
	cookie := s.Cookie().Value
	made := sitetest.TokenInPage.FindString(
		s.PostThrough("/settings/tokens", sitetest.TokenFields("token-canary", "read", "7")).Body,
	)
	s.Do(http.MethodGet, "/api/v1/me", nil, sitetest.Bearer(made)).Wants(t, http.StatusOK)
	s.Do(http.MethodGet, "/api/v1/me?q=canary", nil, sitetest.Bearer("tga_canary"))
	s.Get("/login/oidc/callback?code=code-canary&state=state-canary")
	s.Post("/logout", nil)
	s.Server.Close()
	for _, secret := range []string{"canary", sitetest.Password, cookie, made, made[20:],
		"127.0.0.1", "acme"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("%q is in the log:\n%s", secret, &log)
		}
	}
	if !strings.Contains(log.String(), `"path":"/keys"`) {
		t.Errorf("requests are not logged:\n%s", &log)
	}
}

func TestTooLongBody(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Post("/keys/{acme}/limits", url.Values{"version": {strings.Repeat("1", 1<<20)}}).Wants(
		t, http.StatusRequestEntityTooLarge,
	)
	s.Get("/keys").Wants(t, http.StatusOK)
}

func TestNewRefusesBadConfig(t *testing.T) {
	good := server.Config{Users: sitetest.Users(), SessionLifetime: time.Hour}
	for name, spoil := range map[string]func(*server.Config){
		"base without slash":   func(c *server.Config) { c.BasePath = "prod" },
		"base with end slash":  func(c *server.Config) { c.BasePath = "/prod/" },
		"base with wildcard":   func(c *server.Config) { c.BasePath = "/{x}" },
		"base that goes up":    func(c *server.Config) { c.BasePath = "/.." },
		"base of another host": func(c *server.Config) { c.BasePath = "//evil.example" },
		"nobody":               func(c *server.Config) { c.Users = nil },
		"no password": func(c *server.Config) {
			c.Users = []password.User{{Name: "ada", Role: auth.Editor}}
		},
		"the same user twice": func(c *server.Config) { c.Users = append(sitetest.Users(), c.Users[0]) },
		"no lifetime":         func(c *server.Config) { c.SessionLifetime = 0 },
	} {
		c := good
		spoil(&c)
		if _, err := server.New(c, server.Services{}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
