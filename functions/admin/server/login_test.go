package server_test

import (
	"bytes"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/password"
	"tidegate/functions/admin/server"
	"tidegate/internal/testing/sitetest"
)

func loginForm(user, password string) url.Values {
	return url.Values{"user": {user}, "password": {password}}
}

// The session cookie is sent to this host only, over TLS only, to no script, and from
// other sites with links only.
func TestCookieFlags(t *testing.T) {
	for base, want := range map[string]string{
		"":      "__Host-tidegate=…; Path=/; HttpOnly; Secure; SameSite=Lax",
		"/prod": "__Secure-tidegate=…; Path=/prod/; HttpOnly; Secure; SameSite=Lax",
	} {
		s := sitetest.New(t, sitetest.WithBase(base))
		got := s.Post("/login", loginForm(sitetest.User, sitetest.Password)).Wants(t, http.StatusSeeOther)
		cookies := got.Header.Values("Set-Cookie")
		if len(cookies) != 1 {
			t.Fatalf("%q: got cookies %q, want 1", base, cookies)
		}
		value := got.Cookies()[0].Value
		if flags := strings.Replace(cookies[0], value, "…", 1); flags != want {
			t.Errorf("%q: got %s, want %s", base, flags, want)
		}
		if len(value) < 43 {
			t.Errorf("%q: the session id has %d characters, want at least 43", base, len(value))
		}
	}
}

// A wrong user and a wrong password get the same page.
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
			t.Errorf("%v: got a cookie", form)
		}
		if typed := form.Get("password"); typed != "" && strings.Contains(got.Body, typed) {
			t.Errorf("%v: the page has the password", form)
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

// A log-in replaces the session id, and ends the session with the old id.
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

// A log-in does not adopt an unknown session id that the browser sends.
func TestUnknownSessionID(t *testing.T) {
	s := sitetest.New(t)
	s.SetCookie("__Host-tidegate", "chosen-by-somebody")
	s.Login()
	if s.Cookie().Value == "chosen-by-somebody" {
		t.Error("the login adopted the id that the browser sent")
	}
}

// A log-out ends the session on the server, so that the old cookie is not accepted.
func TestLogout(t *testing.T) {
	s := sitetest.New(t).Login()
	old := s.Cookie()
	got := s.Post("/logout", nil).Wants(t, http.StatusSeeOther)
	if to := got.Header.Get("Location"); to != "/login" {
		t.Errorf("got redirect to %q, want /login", to)
	}
	if s.Cookie() != nil {
		t.Error("the browser still has the cookie")
	}
	s.SetCookie(old.Name, old.Value)
	s.Get("/keys").Wants(t, http.StatusSeeOther)
}

// A session ends SessionLifetime after the log-in, even if it is in use. Package session
// tests idle sessions.
func TestLifetime(t *testing.T) {
	s := sitetest.New(t)
	s.Login()
	_, found, err := s.Services.Sessions.Find(s.Cookie().Value)
	if err != nil || !found {
		t.Fatalf("Find: got %v, %v, want the session", found, err)
	}
	short := sitetest.New(t, func(s *sitetest.Site) { s.Config.SessionLifetime = time.Nanosecond })
	short.Post("/login", loginForm(sitetest.User, sitetest.Password)).Wants(t, http.StatusSeeOther)
	short.Get("/keys").Wants(t, http.StatusSeeOther)
}

func TestLoginWhenLoggedIn(t *testing.T) {
	s := sitetest.New(t).Login()
	if got := s.Get("/login?next=/keys?q=b").Wants(t,
		http.StatusSeeOther); got.Header.Get("Location") != "/keys?q=b" {
		t.Errorf("got redirect to %q, want /keys?q=b", got.Header.Get("Location"))
	}
}

// After a log-in, next redirects only to pages of this dashboard.
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
			t.Errorf("base %q, next %q: got redirect to %q, want %q", row.base, row.next, to, row.want)
		}
	}
}

// With a base path, every link, redirect and cookie has it, whether or not the gateway
// removes it from requests.
func TestBasePath(t *testing.T) {
	s := sitetest.New(t, sitetest.WithBase("/prod"))
	got := s.Get("/keys?q=a").Wants(t, http.StatusSeeOther)
	if to := got.Header.Get("Location"); to != "/prod/login?next=%2Fprod%2Fkeys%3Fq%3Da" {
		t.Errorf("got redirect to %q, want the login", to)
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
	// The gateway removes the base path from the request, but the browser's cookie has
	// it.
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
		t.Errorf("without the base path: got %d, want 200", res.StatusCode)
	}
}

// The log has no password, cookie, token, search, name or address.
func TestLogHasNoSecrets(t *testing.T) {
	var log bytes.Buffer
	s := sitetest.New(t, sitetest.WithServices(func(services *server.Services) {
		services.Log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}))
	s.Post("/login", loginForm(sitetest.User, "wr0ng-canary"))
	s.Login()
	s.Get("/keys?q=search-canary")
	s.Post("/keys/{acme}/limits", sitetest.LimitsForm("{acme#}", "typed-canary per hour"))
	cookie := s.Cookie().Value
	made := sitetest.TokenInPage.FindString(
		s.PostThrough("/settings/tokens/new", sitetest.TokenFields("token-canary", "read", "7d")).Body,
	)
	s.Do(http.MethodGet, "/api/v1/me", nil, sitetest.Bearer(made)).Wants(t, http.StatusOK)
	s.Do(http.MethodGet, "/api/v1/me?q=canary", nil, sitetest.Bearer("tga_canary"))
	s.Get("/login/oidc/callback?code=code-canary&state=state-canary")
	s.Post("/logout", nil)
	s.Server.Close()
	for _, secret := range []string{"canary", sitetest.Password, cookie, made, made[20:],
		"127.0.0.1", "acme"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log has %q:\n%s", secret, &log)
		}
	}
	if !strings.Contains(log.String(), `"path":"/keys"`) {
		t.Errorf("the log lacks the requests:\n%s", &log)
	}
}

func TestTooLongBody(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Post("/keys/{acme}/limits", url.Values{"version": {strings.Repeat("1", 1<<20)}}).Wants(t,
		http.StatusRequestEntityTooLarge)
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

// The function's log has all log-ins, with the names of existing users only.
func TestLoginsAreLogged(t *testing.T) {
	var log bytes.Buffer
	s := sitetest.New(t, sitetest.WithServices(func(services *server.Services) {
		services.Log = slog.New(slog.NewTextHandler(&log, nil))
	}))
	s.Post("/login", loginForm(sitetest.User, "hunter2")).Wants(t, http.StatusUnauthorized)
	s.Post("/login", loginForm("my secret passphrase", "hunter2")).Wants(t, http.StatusUnauthorized)
	s.Login()
	for _, want := range []string{`msg="login refused" user=ada`, `msg="login refused" user=""`,
		`msg=login user=`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, log.String())
		}
	}
	for _, secret := range []string{"hunter2", "passphrase", sitetest.Password} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log has %q", secret)
		}
	}
}

// After five wrong passwords, the right one is refused too, until the time in
// Retry-After. Other users can log in.
func TestLoginThrottled(t *testing.T) {
	s := sitetest.New(t)
	start := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	s.Store.SetTime(start)
	for range 5 {
		s.Post("/login", loginForm(sitetest.User, "wrong")).Wants(t, http.StatusUnauthorized)
	}
	s.Store.SetTime(start.Add(17*time.Second + time.Millisecond))
	got := s.Post("/login", loginForm(sitetest.User, sitetest.Password)).Wants(t, http.StatusTooManyRequests,
		"Too many attempts", "43 seconds")
	if wait := got.Header.Get("Retry-After"); wait != "43" || s.Cookie() != nil {
		t.Errorf("got Retry-After %q, cookie %v, want 43 and no cookie", wait, s.Cookie())
	}
	s.LoginAs(sitetest.Viewer)
	seconds, _ := strconv.Atoi(got.Header.Get("Retry-After"))
	s.Store.SetTime(start.Add(time.Duration(seconds+17) * time.Second))
	s.Post("/login", loginForm(sitetest.User, sitetest.Password)).Wants(t, http.StatusSeeOther)
}

// Log-ins with the right password are not throttled.
func TestSuccessfulLoginsAreNotThrottled(t *testing.T) {
	s := sitetest.New(t)
	for range 30 {
		s.Login()
	}
}

// The throttle uses the address that API Gateway saw, and no header of the client.
func TestThrottleIgnoresHeaders(t *testing.T) {
	s := sitetest.New(t)
	status := 0
	for i := range 8 {
		header := http.Header{"Sec-Fetch-Site": {"same-origin"},
			"X-Forwarded-For": {"192.0.2." + strconv.Itoa(i)}, "Forwarded": {"for=192.0.2.9"}}
		status = s.Do(http.MethodPost, "/login", loginForm(sitetest.User, "wrong"), header).StatusCode
	}
	if status != http.StatusTooManyRequests {
		t.Errorf("the last of many attempts: got %d, want 429", status)
	}
}

// While Valkey is unavailable, nobody can log in. The right and a wrong password get the
// same page.
func TestLoginWithoutStore(t *testing.T) {
	s := sitetest.New(t)
	s.Store.SetError("ERR out of order")
	var pages []string
	for _, secret := range []string{sitetest.Password, "wrong"} {
		got := s.Post("/login", loginForm(sitetest.User, secret)).Wants(t, http.StatusServiceUnavailable,
			"Valkey is unavailable")
		if got.Header.Get("Retry-After") == "" || s.Cookie() != nil {
			t.Errorf("got %v, want Retry-After and no cookie", got.Header)
		}
		pages = append(pages, sitetest.NonceInPage.ReplaceAllString(got.Body, ""))
	}
	if pages[0] != pages[1] {
		t.Error("the pages of the right and the wrong password differ")
	}
}

// A log-in from a browser that rejects cookies gets an error that says so. A client that
// did not get the probe cookie can log in without it.
func TestCookiesRefused(t *testing.T) {
	s := sitetest.New(t)
	form := loginForm(sitetest.User, sitetest.Password)
	form.Set(server.ProbeField, "1")
	s.Post("/login", form).Wants(t, http.StatusBadRequest, "did not keep the session cookie", "localhost")
	if s.Cookie() != nil {
		t.Error("a browser without cookies is logged in")
	}
	s.Client = s.NewClient()
	page := s.Get("/login").Wants(t, http.StatusOK, `name="probe"`)
	if set := page.Header.Get("Set-Cookie"); !strings.HasPrefix(set,
		"__Host-tidegate-probe=1; Path=/; HttpOnly; Secure; SameSite=Lax") {
		t.Errorf("got Set-Cookie %q, want the probe cookie", set)
	}
	s.Post("/login", form).Wants(t, http.StatusSeeOther)
}

// postExpired posts a form after the session ended.
func postExpired(s *sitetest.Site, path string, form url.Values) sitetest.Reply {
	s.T.Helper()
	s.Store.FastForward(sitetest.Idle + time.Second)
	return s.Post(path, form)
}

var typedForms = map[string]url.Values{
	"/keys/{acme}/limits": sitetest.With(sitetest.LimitsForm("{acme#}", "77 per 3 hours"),
		"reason", "typed-canary"),
	"/keys/{acme}/edit":      {"version": {"{acme#}"}, "name": {"typed-canary"}, "plan": {"free"}},
	"/keys/{acme}/ban":       {"version": {"{acme#}"}, "reason": {"typed-canary"}, "lasts": {"4h"}},
	"/keys":                  {"name": {"typed-canary"}, "plan": {"free"}, "env": {"live"}},
	"/keys/bulk":             {"do": {"revoke"}, "of": {"all"}, "reason": {"typed-canary"}, "confirm": {"2"}},
	"/callers/new":           {"kind": {"address"}, "network": {"192.0.2.1"}, "name": {"typed-canary"}},
	"/policies/plans/1/edit": {"version": {"{policy#}"}, "name": {"typed-canary"}, "limits": {"5 per hour"}},
	"/policies/routes/new":   {"version": {"{policy#}"}, "name": {"typed-canary"}, "match": {"/x"}},
	"/policies/all":          {"version": {"{policy#}"}, "reason": {"typed-canary"}},
	"/policies/import":       {"version": {"{policy#}"}, "yaml": {"plans: [] # typed-canary"}},
	"/audit/2/undo":          {"reason": {"typed-canary"}},
	"/settings/tokens/new":   {"name": {"typed-canary"}, "scope": {"read"}, "lasts": {"7d"}},
}

// After a form whose session ended, the log-in leads to the page that sends the form
// again. Its button shows the form as it was typed, without saving anything.
func TestFormSurvivesTheSession(t *testing.T) {
	for path, form := range typedForms {
		t.Run(path, func(t *testing.T) {
			s := sitetest.New(t).Login()
			login := postExpired(s, path, form).Wants(t, http.StatusSeeOther).Header.Get("Location")
			s.Get(login).Wants(t, http.StatusOK, "Your session ended.", `name="next" value="/resume"`)
			again := sitetest.With(loginForm(sitetest.User, sitetest.Password), "next", "/resume")
			at := s.Post("/login", again).Wants(t, http.StatusSeeOther).Header.Get("Location")
			page := s.Get(at).Wants(t, http.StatusOK, "Nothing was saved yet.")
			button := sitetest.HiddenIn(page.Body).Get("action")
			back := s.Post(path, sitetest.With(maps.Clone(form), "action", button))
			if back.StatusCode >= 400 && path != "/policies/import" ||
				!strings.Contains(back.Body, "typed-canary") {
				t.Errorf("back to the form: got %d\n%s", back.StatusCode, back.Body)
			}
			if tokens, err := s.Tokens.List(t.Context()); s.Keys.Written() != 0 || err != nil ||
				len(tokens) != 0 {
				t.Error("showing the form again made a change")
			}
		})
	}
}

// Only a form that can be shown again leads to the page that does so.
func TestFormsThatAreNotShownAgain(t *testing.T) {
	s := sitetest.New(t)
	for _, path := range []string{"//evil.example/keys", "/settings/sessions/end", "/logout"} {
		s.Login()
		got := postExpired(s, path, url.Values{"reason": {"typed-canary"}}).Wants(t, http.StatusSeeOther)
		if at := got.Header.Get("Location"); at != "/login?next=%2F" {
			t.Errorf("%s: got redirect to %s, want the log-in", path, at)
		}
	}
}

// While Valkey is unavailable, the error page leads back to the form.
func TestFormSurvivesTheStore(t *testing.T) {
	s := sitetest.New(t).Login()
	const path = "/keys/{acme}/limits"
	typed := sitetest.With(maps.Clone(typedForms[path]), "version", s.Keys.Named("{acme#}"))
	lost := []string{"Nothing you typed is lost.", `href="/resume"`}
	s.Keys.Fail("ERR unavailable")
	s.Post(path, typed).Wants(t, http.StatusServiceUnavailable, lost...)
	s.Keys.Fail("")
	s.Store.SetError("ERR unavailable")
	s.Post(path, typed).Wants(t, http.StatusServiceUnavailable, lost...)
}
