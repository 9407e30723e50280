package dashboard

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
		s := newSite(t, withBase(base))
		got := s.post("/login", loginForm(testUser, testSecret)).wants(t, http.StatusSeeOther)
		cookies := got.Header.Values("Set-Cookie")
		if len(cookies) != 1 {
			t.Fatalf("%q: cookies %q", base, cookies)
		}
		value := got.Cookies()[0].Value
		if flags := strings.Replace(cookies[0], value, "…", 1); flags != want {
			t.Errorf("%q: %s, want %s", base, flags, want)
		}
		if len(value) < 43 {
			t.Errorf("%q: the session id has only %d characters", base, len(value))
		}
	}
}

// A wrong user and a wrong password look alike.
func TestLoginRefused(t *testing.T) {
	s := newSite(t)
	var pages []string
	for _, form := range []url.Values{
		loginForm(testUser, "n0t-it"), loginForm("somebody", testSecret), loginForm("", ""), loginForm(testUser, ""),
		loginForm(testUser, testSecret+" "), loginForm(strings.ToUpper(testUser), testSecret), loginForm(testUser, strings.Repeat("p", 5000)),
	} {
		got := s.post("/login", form).wants(t, http.StatusUnauthorized, "User or password is wrong.")
		if len(got.Header.Values("Set-Cookie")) != 0 {
			t.Errorf("%v: sets a cookie", form)
		}
		if typed := form.Get("password"); typed != "" && strings.Contains(got.body, typed) {
			t.Errorf("%v: the password is in the page", form)
		}
		page := nonceInPage.ReplaceAllString(got.body, "")
		pages = append(pages, strings.ReplaceAll(page, `value="`+form.Get("user")+`"`, `value=""`))
	}
	for _, page := range pages[1:] {
		if page != pages[0] {
			t.Errorf("refusals differ:\n%s\n%s", pages[0], page)
		}
	}
	s.get("/keys").wants(t, http.StatusSeeOther)
}

// A session id from before the login opens nothing after it.
func TestFixation(t *testing.T) {
	s := newSite(t).loginAs(testViewer)
	planted := s.cookie().Value
	s.login()
	if s.cookie().Value == planted {
		t.Fatal("the login kept the planted session id")
	}
	s.get("/keys").wants(t, http.StatusOK)
	s.client = s.newClient()
	s.setCookie("__Host-tidegate", planted)
	s.get("/keys").wants(t, http.StatusSeeOther)
}

// An unknown session id that a browser brings is never adopted.
func TestUnknownSessionID(t *testing.T) {
	s := newSite(t)
	s.setCookie("__Host-tidegate", "chosen-by-somebody")
	s.login()
	if s.cookie().Value == "chosen-by-somebody" {
		t.Error("the login took the id that the browser brought")
	}
}

// The logout ends the session on the server: the old cookie is worth nothing.
func TestLogout(t *testing.T) {
	s := newSite(t).login()
	old := s.cookie()
	got := s.post("/logout", nil).wants(t, http.StatusSeeOther)
	if to := got.Header.Get("Location"); to != "/login" {
		t.Errorf("to %q", to)
	}
	if s.cookie() != nil {
		t.Error("the browser keeps the cookie")
	}
	s.setCookie(old.Name, old.Value)
	s.get("/keys").wants(t, http.StatusSeeOther)
}

// A session ends its lifetime after the login even if it is used all the time. The stores
// are told when; see package session for idle ones.
func TestLifetime(t *testing.T) {
	s := newSite(t)
	s.login()
	_, found, err := s.service.Sessions.Find(s.cookie().Value)
	if err != nil || !found {
		t.Fatalf("found %v, %v", found, err)
	}
	short := newSite(t, func(s *site) { s.config.SessionLifetime = time.Nanosecond })
	short.post("/login", loginForm(testUser, testSecret)).wants(t, http.StatusSeeOther)
	short.get("/keys").wants(t, http.StatusSeeOther)
}

func TestLoginWhenLoggedIn(t *testing.T) {
	s := newSite(t).login()
	if got := s.get("/login?next=/keys?q=b").wants(t, http.StatusSeeOther); got.Header.Get("Location") != "/keys?q=b" {
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
		s := newSite(t, withBase(row.base))
		form := loginForm(testUser, testSecret)
		form.Set("next", row.next)
		got := s.post("/login", form).wants(t, http.StatusSeeOther)
		if to := got.Header.Get("Location"); to != row.want {
			t.Errorf("base %q, next %q: to %q, want %q", row.base, row.next, to, row.want)
		}
	}
}

// Behind a stage of the gateway every link, redirect and cookie has its prefix, whether
// or not the gateway cuts it off.
func TestBasePath(t *testing.T) {
	s := newSite(t, withBase("/prod"))
	got := s.get("/keys?q=a").wants(t, http.StatusSeeOther)
	if to := got.Header.Get("Location"); to != "/prod/login?next=%2Fprod%2Fkeys%3Fq%3Da" {
		t.Errorf("to the login: %q", to)
	}
	s.login()
	for _, path := range []string{"/keys?live=5", "/keys/{acme}", "/keys/{acme}/limits", "/nothing", "/login"} {
		for _, address := range addressesIn(s.get(path).body) {
			if !strings.HasPrefix(address, "/prod/") && !strings.HasPrefix(address, "#") {
				t.Errorf("%s links to %q", path, address)
			}
		}
	}
	s.base = s.server.URL
	s.ask("GET /static/{file}").wants(t, http.StatusOK)
	s.get("/prod").wants(t, http.StatusSeeOther)
	// The gateway cut the prefix off, so the browser still has its cookie for it.
	req, err := http.NewRequest(http.MethodGet, s.server.URL+"/keys", nil)
	if err != nil {
		t.Fatal(err)
	}
	s.base += "/prod"
	req.AddCookie(s.cookie())
	res, err := s.client.Do(req)
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
	s := newSite(t, withServices(func(services *Services) {
		services.Log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}))
	s.post("/login", loginForm(testUser, "wr0ng-canary"))
	s.login()
	s.get("/keys?q=search-canary")
	s.post("/keys/{acme}/limits", limitsOf(1, [4]string{"typed-canary", "1", "hour", "log"}))
	cookie := s.cookie().Value
	made := tokenInPage.FindString(s.post("/settings/tokens", tokenFields("token-canary", "read", "7")).body)
	s.do(http.MethodGet, "/api/v1/me", nil, bearer(made)).wants(t, http.StatusOK)
	s.do(http.MethodGet, "/api/v1/me?q=canary", nil, bearer("tga_canary"))
	s.get("/login/oidc/callback?code=code-canary&state=state-canary")
	s.post("/logout", nil)
	s.server.Close()
	for _, secret := range []string{"canary", testSecret, cookie, made, made[20:], "127.0.0.1", "acme"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("%q is in the log:\n%s", secret, &log)
		}
	}
	if !strings.Contains(log.String(), `"path":"/keys"`) {
		t.Errorf("requests are not logged:\n%s", &log)
	}
}

func TestTooLongBody(t *testing.T) {
	s := newSite(t).login()
	s.post("/keys/{acme}/limits", url.Values{"version": {strings.Repeat("1", 1<<20)}}).wants(t, http.StatusRequestEntityTooLarge)
	s.get("/keys").wants(t, http.StatusOK)
}

func TestNewRefusesBadConfig(t *testing.T) {
	good := Config{Users: testUsers(), SessionLifetime: time.Hour}
	for name, spoil := range map[string]func(*Config){
		"base without slash":   func(c *Config) { c.BasePath = "prod" },
		"base with end slash":  func(c *Config) { c.BasePath = "/prod/" },
		"base with wildcard":   func(c *Config) { c.BasePath = "/{x}" },
		"base that goes up":    func(c *Config) { c.BasePath = "/.." },
		"base of another host": func(c *Config) { c.BasePath = "//evil.example" },
		"nobody":               func(c *Config) { c.Users = nil },
		"no password":          func(c *Config) { c.Users = []password.User{{Name: "ada", Role: auth.Editor}} },
		"the same user twice":  func(c *Config) { c.Users = append(testUsers(), c.Users[0]) },
		"no lifetime":          func(c *Config) { c.SessionLifetime = 0 },
	} {
		c := good
		spoil(&c)
		if _, err := New(c, Services{}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
