package dashboard

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/alexedwards/argon2id"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/password"
)

// reconfigure lets the site go on with another configuration, on the same store.
func (s *site) reconfigure(change func(*Config)) {
	s.t.Helper()
	changed := s.config
	change(&changed)
	after, err := New(changed, s.service)
	if err != nil {
		s.t.Fatal(err)
	}
	s.server.Config.Handler = after
}

func (s *site) wantsLogin(path string) {
	s.t.Helper()
	if got := s.get(path); got.StatusCode != http.StatusSeeOther || !strings.HasPrefix(got.Header.Get("Location"), s.config.BasePath+"/login") {
		s.t.Errorf("%s: %d to %q, want the login", path, got.StatusCode, got.Header.Get("Location"))
	}
}

func otherHash(t *testing.T) password.Hash {
	t.Helper()
	text, err := argon2id.CreateHash(testSecret, &argon2id.Params{Memory: 64, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32})
	if err != nil {
		t.Fatal(err)
	}
	hash, err := password.ParseHash(text)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

// A session ends with the user, the role and the password that opened it, though the
// store still holds it; and only then.
func TestSessionEndsWithItsUser(t *testing.T) {
	vic := func(c *Config) *password.User { return &c.Users[1] }
	for name, row := range map[string]struct {
		change func(*Config)
		ends   bool
	}{
		"removed":          {func(c *Config) { c.Users = c.Users[:1] }, true},
		"renamed":          {func(c *Config) { vic(c).Name = "victoria" }, true},
		"promoted":         {func(c *Config) { vic(c).Role = auth.Editor }, true},
		"password changed": {func(c *Config) { vic(c).Hash = otherHash(t) }, true},
		"another removed":  {func(c *Config) { c.Users = c.Users[1:] }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t).loginAs(testViewer)
			s.get("/keys").wants(t, http.StatusOK)
			before := s.cookie().Value
			s.config.Users = testUsers()
			s.reconfigure(row.change)
			if !row.ends {
				s.get("/keys").wants(t, http.StatusOK)
				return
			}
			s.wantsLogin("/keys")
			if name == "promoted" {
				s.loginAs(testViewer)
				if s.cookie().Value == before {
					t.Error("the session id outlives the change of the role")
				}
				s.get("/keys/{acme}/limits").wants(t, http.StatusOK)
			}
		})
	}
}

// A session that nobody uses ends, one that is used goes on.
func TestIdle(t *testing.T) {
	s := newSite(t, func(s *site) { s.config.SessionLifetime = 12 * time.Hour }).login()
	for range 3 {
		s.store.FastForward(testIdle - time.Second)
		s.get("/keys").wants(t, http.StatusOK)
	}
	s.store.FastForward(testIdle + time.Second)
	s.wantsLogin("/keys")
}

// Log out everywhere ends the sessions of every browser of the same user, and of nobody
// else.
func TestLogOutEverywhere(t *testing.T) {
	s := newSite(t).login()
	here := s.client
	s.client = s.newClient()
	s.login()
	there := s.client
	s.client = s.newClient()
	s.loginAs(testViewer)
	viewer := s.client

	s.client = here
	s.get("/settings").wants(t, http.StatusOK, "this one", "Log out everywhere")
	if got := s.post("/settings/sessions/end", nil).wants(t, http.StatusSeeOther); got.Header.Get("Location") != "/login" {
		t.Errorf("to %q", got.Header.Get("Location"))
	}
	s.wantsLogin("/keys")
	s.client = there
	s.wantsLogin("/keys")
	s.client = viewer
	s.get("/keys").wants(t, http.StatusOK)
}

// The settings list somebody's own sessions, and mark the one that asks.
func TestSessionList(t *testing.T) {
	s := newSite(t).login()
	s.client = s.newClient()
	s.loginAs(testViewer)
	s.client = s.newClient()
	req := http.Header{"Sec-Fetch-Site": {"same-origin"}}
	req["User-Agent"] = []string{"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0 <script>"}
	s.do(http.MethodPost, "/login", loginForm(testUser, testSecret), req).wants(t, http.StatusSeeOther)
	body := s.get("/settings").wants(t, http.StatusOK, "Firefox on Linux", "another program").body
	if strings.Count(body, "this one") != 1 || strings.Contains(body, "&lt;script") {
		t.Errorf("sessions:\n%s", body)
	}
	if n := strings.Count(body, `data-label="Since"`); n != 2 {
		t.Errorf("%d sessions, want the two of this user", n)
	}
}

func TestAgentWords(t *testing.T) {
	for agent, want := range map[string]string{
		"": "another program",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Version/17.4 Safari/605.1.15": "Safari on macOS",
		"Mozilla/5.0 (Windows NT 10.0) Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0":   "Edge on Windows",
		"Mozilla/5.0 (Linux; Android 10; K) Chrome/140.0.0.0 Mobile Safari/537.36":     "Chrome on Android",
		"curl/8.5.0": "curl",
	} {
		if got := agentWords(agent); got != want {
			t.Errorf("%s: %q, want %q", agent, got, want)
		}
	}
}
